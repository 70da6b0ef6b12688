-- Embeddings are a second signal of retrieval, and optional: they are kept where the database has pgvector (0.7 or newer,
-- for halfvec), and everything works without.
--
-- Each turn of a leaf has a vector of unit length in *turn_embeddings*, half precision and inline: fetching a value from a
-- TOAST table takes longer than comparing it. As turn 0 stands there the mean of the leaf's, whose signs are the leaf's
-- *signature*. A search compares signatures, 16 times smaller, then means of the leaves that are nearest by them, and then
-- all vectors of the nearest by those. An index of pgvector cannot serve here: it knows no branches, and what it finds
-- nearest in all of them is hardly ever in one.
--
-- Like postings they are derived, belong to the branch that compacted, and are seen by ancestry up to
-- lineage.compacted_turn. A leaf that has nothing to embed has a signature of no dimensions, so that nobody tries again.
--
-- No function that is called from outside has a type of pgvector in its signature, so that statements are valid in every
-- database. What has one inside is made by ensure_embeddings().

create function durable_context.keeps_embeddings() returns boolean language sql stable as $$
    select exists (
        select from pg_catalog.pg_attribute a
        where a.attrelid = to_regclass('durable_context.turn_embeddings') and a.attname = 'embedding'
            and not a.attisdropped
    )
$$;

-- The p_limit leaves of a lineage that are most similar to a vector, by their most similar turn, and those of p_also (by
-- to_turn) that have vectors; nothing where no vectors are kept. No leaf ends beyond p_up_to. Without a p_model it is
-- that of the newest leaf with vectors of that size.
create function durable_context.similar_leaves(
    p_tenant text, p_branch uuid, p_vector real[], p_model text, p_up_to integer, p_limit integer, p_also integer[]
) returns table (branch_uuid uuid, from_turn integer, to_turn integer, turn_no integer, similarity float8)
language plpgsql stable as $$
begin
    if p_vector is not null and durable_context.keeps_embeddings() then
        return query select s.branch_uuid, s.from_turn, s.to_turn, s.turn_no, s.similarity
            from durable_context.compare_leaves(p_tenant, p_branch, p_vector, p_model, p_up_to, p_limit, p_also) s;
    end if;
end $$;

-- Makes all this where pgvector is there or can be, and says whether it is. Safe to repeat: a deploy step calls it after
-- the migrations, so that a database that gets pgvector later needs no more than that.
create function durable_context.ensure_embeddings() returns boolean language plpgsql as $ensure$
declare
    home text;
begin
    if not exists (select from pg_catalog.pg_extension where extname = 'vector')
    and exists (select from pg_catalog.pg_available_extensions where name = 'vector') then
        begin
            create extension vector with schema public;
        exception when insufficient_privilege or undefined_file or invalid_schema_name or feature_not_supported then
            raise notice 'the extension vector cannot be created: %', sqlerrm;
        end;
    end if;
    select n.nspname into home
        from pg_catalog.pg_extension x
        join pg_catalog.pg_namespace n on n.oid = x.extnamespace
        join pg_catalog.pg_type t on t.typnamespace = n.oid and t.typname = 'halfvec'
        where x.extname = 'vector';
    if home is null then
        return false;
    end if;

    if not durable_context.keeps_embeddings() then
        -- They are there without vectors when pgvector was dropped and its columns with it.
        drop table if exists durable_context.turn_embeddings, durable_context.leaf_signatures;
        create table durable_context.leaf_signatures (
            tenant text not null,
            branch_uuid uuid not null,
            to_turn integer not null,
            from_turn integer not null check (from_turn between 1 and to_turn),
            model text not null check (model <> ''),
            dimensions integer not null check (dimensions between 0 and 16000),
            signature bit varying not null check (length(signature) = dimensions),
            primary key (branch_uuid, to_turn, model),
            foreign key (tenant, branch_uuid) references durable_context.branches (tenant, branch_uuid)
        );
        execute format($make$
            create table durable_context.turn_embeddings (
                branch_uuid uuid not null,
                to_turn integer not null,
                model text not null,
                turn_no integer not null check (turn_no between 0 and to_turn),
                embedding %I.halfvec not null,
                primary key (branch_uuid, to_turn, model, turn_no),
                foreign key (branch_uuid, to_turn, model)
                    references durable_context.leaf_signatures on delete cascade
            )
        $make$, home);
        alter table durable_context.turn_embeddings alter column embedding set storage main;
        create trigger immutable before update on durable_context.turn_embeddings
            for each row execute function durable_context.refuse_change();
        create trigger immutable before update on durable_context.leaf_signatures
            for each row execute function durable_context.refuse_change();
    end if;

    -- Keeps a leaf's vectors, one per turn named; false if the leaf has some of this model. Vectors are pgvector's text.
    execute format($make$
        create or replace function durable_context.keep_embeddings(
            p_tenant text, p_branch uuid, p_model text, p_from_turn integer, p_to_turn integer,
            p_turns integer[], p_vectors text[]
        ) returns boolean language plpgsql as $body$
        declare
            vectors %1$I.vector[] := array(select %1$I.l2_normalize(u::%1$I.vector) from unnest(p_vectors) u);
            mean %1$I.vector := (select %1$I.l2_normalize(%1$I.avg(u)) from unnest(vectors) u);
        begin
            insert into durable_context.leaf_signatures (
                tenant, branch_uuid, to_turn, from_turn, model, dimensions, signature
            ) values (
                p_tenant, p_branch, p_to_turn, p_from_turn, p_model, coalesce(%1$I.vector_dims(mean), 0),
                coalesce(%1$I.binary_quantize(mean), '')::bit varying
            ) on conflict do nothing;
            if not found then
                return false;
            end if;
            insert into durable_context.turn_embeddings (branch_uuid, to_turn, model, turn_no, embedding)
            select p_branch, p_to_turn, p_model, v.turn_no, v.vector::%1$I.halfvec
            from unnest(array_prepend(0, p_turns), array_prepend(mean, vectors)) v (turn_no, vector)
            where v.vector is not null;
            return true;
        end $body$
    $make$, home);

    -- What similar_leaves() finds. Looked at are the leaves of the newest 25,000 turns by signature, the 256 nearest of
    -- them by their mean, and the 64 nearest of those by all their vectors.
    execute format($make$
        create or replace function durable_context.compare_leaves(
            p_tenant text, p_branch uuid, p_vector real[], p_model text, p_up_to integer, p_limit integer,
            p_also integer[]
        ) returns table (branch_uuid uuid, from_turn integer, to_turn integer, turn_no integer, similarity float8)
        language plpgsql stable as $body$
        #variable_conflict use_column
        declare
            wanted %1$I.halfvec;
            signs bit varying;
            size integer := cardinality(p_vector);
            known text := p_model;
            newest integer;
            reach integer;
        begin
            select least(b.checkpoint_turn, p_up_to) into newest
                from durable_context.branches b where b.tenant = p_tenant and b.branch_uuid = p_branch;
            -- First among few, because the planner may sort them all.
            foreach reach in array array[600, 25000] loop
                exit when known is not null;
                select s.model into known
                    from durable_context.lineage l
                    join durable_context.leaf_signatures s
                        on s.tenant = l.tenant and s.branch_uuid = l.ancestor_uuid
                        and s.to_turn > newest - reach and s.to_turn <= least(l.compacted_turn, newest)
                        and s.dimensions = size
                    where l.tenant = p_tenant and l.branch_uuid = p_branch
                    order by s.to_turn desc, s.model limit 1;
            end loop;
            wanted := %1$I.l2_normalize(p_vector::%1$I.vector)::%1$I.halfvec;
            signs := %1$I.binary_quantize(wanted)::bit varying;
            return query
            with near as (
                select s.branch_uuid, s.from_turn, s.to_turn
                from durable_context.lineage l
                join durable_context.leaf_signatures s
                    on s.tenant = l.tenant and s.branch_uuid = l.ancestor_uuid
                    and s.to_turn > newest - 25000 and s.to_turn <= least(l.compacted_turn, newest)
                    and s.model = known and s.dimensions = size
                where l.tenant = p_tenant and l.branch_uuid = p_branch
                order by s.signature operator(%1$I.<~>) signs, s.to_turn desc limit 256
            ), nearer as (
                select n.branch_uuid, n.from_turn, n.to_turn
                from near n join durable_context.turn_embeddings e
                    on e.branch_uuid = n.branch_uuid and e.to_turn = n.to_turn and e.model = known and e.turn_no = 0
                order by e.embedding operator(%1$I.<#>) wanted, n.to_turn desc limit greatest(p_limit, 64)
            ), asked as (
                select s.branch_uuid, s.from_turn, s.to_turn
                from durable_context.lineage l
                join durable_context.leaf_signatures s
                    on s.tenant = l.tenant and s.branch_uuid = l.ancestor_uuid
                    and s.to_turn <= least(l.compacted_turn, newest)
                    and s.to_turn = any(p_also) and s.model = known and s.dimensions = size
                where l.tenant = p_tenant and l.branch_uuid = p_branch
            ), scored as (
                select c.branch_uuid, c.from_turn, c.to_turn, e.turn_no, e.similarity
                from (table nearer union table asked) c cross join lateral (
                    select e.turn_no, - (e.embedding operator(%1$I.<#>) wanted) as similarity
                    from durable_context.turn_embeddings e
                    where e.branch_uuid = c.branch_uuid and e.to_turn = c.to_turn and e.model = known
                        and e.turn_no > 0
                    order by 2 desc, 1 limit 1
                ) e
            ), ranked as (
                select *, row_number() over (order by s.similarity desc, s.to_turn desc) as rank from scored s
            )
            select r.branch_uuid, r.from_turn, r.to_turn, r.turn_no, r.similarity from ranked r
            where r.rank <= p_limit or r.to_turn = any(p_also)
            order by r.rank;
        end $body$
    $make$, home);
    return true;
end $ensure$;
