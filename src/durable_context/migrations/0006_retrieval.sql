-- What retrieval ranks: terms by message, and statistics that each branch reads as they stood when it was forked.
--
-- A turn keeps the terms of each of its messages: lexemes of the branch's language, and beside them terms that no
-- parser of PostgreSQL makes (identifiers whole, dates, pairs of characters of scripts without spaces). A *document* is
-- a leaf (all its messages and its summary), a node of a higher level (its own text) or an artifact; a *posting* is a
-- term in a document.
--
-- `nth` numbers, within the branch, the leaves, and the leaves that hold a term. The newest posting of a term that a
-- branch sees therefore says in how many leaves it sees the term: one index probe per term and ancestor, and what an
-- ancestor adds after the fork changes nothing. `places` are numbers of the leaf's messages, from 1, two bytes each.

create function durable_context.search_terms(p_config regconfig, p_text text, p_terms text) returns tsvector
language sql immutable parallel safe
return to_tsvector(p_config, p_text) || array_to_tsvector(string_to_array(p_terms, e'\n'));

-- The day a turn was said, in the form of the terms that dates in texts and queries have.
create function durable_context.day_terms(p_moment timestamptz) returns tsvector
language sql immutable parallel safe
return array_to_tsvector(array[
    to_char(p_moment at time zone 'UTC', '"="YYYY-MM-DD'), to_char(p_moment at time zone 'UTC', '"="YYYY-MM'),
    to_char(p_moment at time zone 'UTC', '"="YYYY'), to_char(p_moment at time zone 'UTC', '"=--"MM')
]);

alter table durable_context.turns
    add column message_terms tsvector[], -- in the order of the messages
    add column speakers text[] not null default '{}'; -- lexemes of the names of those who speak
alter table durable_context.turns disable trigger immutable;
update durable_context.turns set message_terms = array[terms || durable_context.day_terms(occurred_at)]
    || array_fill(''::tsvector, array[cardinality(message_tokens) - 1]);
alter table durable_context.turns enable trigger immutable;
drop view durable_context.visible_turns;
alter table durable_context.turns alter column message_terms set not null, drop column terms;
create view durable_context.visible_turns as
    select l.branch_uuid as seen_by, t.*
    from durable_context.lineage l
    join durable_context.turns t on t.tenant = l.tenant and t.branch_uuid = l.ancestor_uuid
        and t.turn_no between l.from_turn and l.to_turn;

-- Made anew by each branch's next compaction.
drop view durable_context.visible_postings;
drop table durable_context.postings;
drop table durable_context.indexed_documents;

create table durable_context.indexed_documents (
    tenant text not null,
    branch_uuid uuid not null,
    to_turn integer not null,
    level smallint not null default 0,
    artifact_no integer not null default 0, -- 0 for leaves and nodes
    from_turn integer not null,
    length integer not null, -- of all its terms
    -- Of leaves: numbered in the branch, with the sum of their lengths up to here; 0 for others.
    nth integer not null default 0,
    total_length bigint not null default 0,
    -- Of leaves: messages of each turn, and terms of each message.
    turn_messages integer[] not null default '{}',
    message_lengths integer[] not null default '{}',
    primary key (branch_uuid, to_turn, level, artifact_no),
    foreign key (tenant, branch_uuid) references durable_context.branches (tenant, branch_uuid)
);

-- length is the document's, repeated here so that ranking needs an index-only scan and no join.
create table durable_context.postings (
    branch_uuid uuid not null references durable_context.branches (branch_uuid),
    term text not null,
    to_turn integer not null,
    level smallint not null default 0,
    artifact_no integer not null default 0,
    frequency smallint not null,
    length integer not null,
    nth integer not null default 0,
    places bytea not null default '',
    primary key (branch_uuid, term, to_turn, level, artifact_no) include (frequency, length, nth)
);

drop function durable_context.record_turn;

-- Records one turn with its artifacts in one transaction: idempotent by turn_key, numbered without holes.
-- status: recorded | repeated (same key, same content) | key_conflict | head_conflict | unknown_branch.
-- p_search_texts, p_search_terms: of each message, what is to be stemmed and (on a line each) terms as they are.
-- p_artifacts: [{"handle", "source", "message_no", "part_no", "name", "media_type", "sha256" (hex), "size",
-- "token_count", "line_count", "width", "height"}]; their contents are the arrays of keep_contents.
create function durable_context.record_turn(
    p_tenant text, p_branch uuid, p_turn_key text, p_content_hash bytea, p_expected_head integer,
    p_messages json, p_message_tokens integer[], p_views json, p_token_count integer, p_stored_tokens integer,
    p_raw_tokens integer, p_outcome text, p_continues boolean, p_begins_run boolean, p_digest text,
    p_digest_tokens integer, p_ledger json, p_search_texts text[], p_search_terms text[], p_speakers text,
    p_occurred_at timestamptz, p_usage json, p_metadata json, p_manifest json, p_prompt_parts_hash bytea, p_prompt_parts json,
    p_artifacts json, p_hashes bytea[], p_sizes bigint[], p_compressions text[], p_data bytea[], p_object_keys text[],
    out status text, out turn_no integer, out head_turn integer, out recorded_at timestamptz,
    out checkpoint_turn integer, out uncompacted_tokens bigint
) language plpgsql as $$
#variable_conflict use_column
declare
    branch durable_context.branches;
    known durable_context.turns;
    run_turn integer;
    said_at timestamptz;
    said_on tsvector;
    added integer := coalesce(json_array_length(p_artifacts), 0);
begin
    select * into branch from durable_context.branches b
        where b.tenant = p_tenant and b.branch_uuid = p_branch for no key update;
    if not found then
        status := 'unknown_branch';
        return;
    end if;
    head_turn := branch.head_turn;
    checkpoint_turn := branch.checkpoint_turn;
    uncompacted_tokens := branch.head_tokens - branch.checkpoint_tokens;

    select t.turn_no, t.content_hash, t.recorded_at into known.turn_no, known.content_hash, known.recorded_at
        from durable_context.turns t where t.branch_uuid = p_branch and t.turn_key = p_turn_key;
    if found then
        status := case when known.content_hash = p_content_hash then 'repeated' else 'key_conflict' end;
        turn_no := known.turn_no;
        recorded_at := known.recorded_at;
        return;
    end if;
    if p_expected_head is not null and p_expected_head <> branch.head_turn then
        status := 'head_conflict';
        return;
    end if;

    status := 'recorded';
    turn_no := branch.head_turn + 1;
    head_turn := turn_no;
    recorded_at := clock_timestamp();
    said_at := coalesce(p_occurred_at, recorded_at);
    said_on := durable_context.day_terms(said_at);
    uncompacted_tokens := uncompacted_tokens + p_stored_tokens;
    run_turn := case
        when not p_continues then null
        when p_begins_run then record_turn.turn_no
        else coalesce(branch.open_run_turn, record_turn.turn_no)
    end;
    -- What several branches may write is written in one order by everybody: contents, then prompt parts.
    if added > 0 then
        perform durable_context.keep_contents(p_tenant, p_hashes, p_sizes, p_compressions, p_data, p_object_keys);
    end if;
    if p_prompt_parts_hash is not null then
        insert into durable_context.prompt_parts (tenant, hash, parts)
            values (p_tenant, p_prompt_parts_hash, p_prompt_parts) on conflict do nothing;
    end if;
    insert into durable_context.turns (
        tenant, branch_uuid, turn_no, turn_key, content_hash, messages, message_tokens, views, token_count,
        stored_tokens, raw_tokens, outcome, continues, digest, digest_tokens, ledger, message_terms, speakers,
        occurred_at, recorded_at, usage, metadata, manifest, prompt_parts_hash, head_tokens, open_run_turn, artifact_count
    ) values (
        p_tenant, p_branch, record_turn.turn_no, p_turn_key, p_content_hash, p_messages, p_message_tokens, p_views,
        p_token_count, p_stored_tokens, p_raw_tokens, p_outcome, p_continues, p_digest, p_digest_tokens, p_ledger,
        array(
            select durable_context.search_terms(branch.text_search, m.text, m.terms) || said_on
            from unnest(p_search_texts, p_search_terms) with ordinality m (text, terms, message_no)
            order by m.message_no
        ),
        tsvector_to_array(to_tsvector(branch.text_search, p_speakers)), said_at, record_turn.recorded_at, p_usage,
        p_metadata, p_manifest, p_prompt_parts_hash,
        branch.head_tokens + p_stored_tokens, run_turn, added
    );
    if added > 0 then
        insert into durable_context.artifacts (
            handle, tenant, branch_uuid, artifact_no, turn_no, source, message_no, part_no, name, media_type, sha256,
            size, token_count, line_count, width, height
        )
        select a.value ->> 'handle', p_tenant, p_branch, branch.artifact_count + a.ordinality, record_turn.turn_no,
            a.value ->> 'source', (a.value ->> 'message_no')::integer, (a.value ->> 'part_no')::integer,
            a.value ->> 'name', a.value ->> 'media_type', decode(a.value ->> 'sha256', 'hex'),
            (a.value ->> 'size')::bigint, (a.value ->> 'token_count')::integer, (a.value ->> 'line_count')::integer,
            (a.value ->> 'width')::integer, (a.value ->> 'height')::integer
        from json_array_elements(p_artifacts) with ordinality a;
    end if;
    update durable_context.branches b set
        head_turn = record_turn.turn_no,
        head_tokens = branch.head_tokens + p_stored_tokens,
        artifact_count = branch.artifact_count + added,
        open_run_turn = run_turn,
        last_turn_at = record_turn.recorded_at
        where b.branch_uuid = p_branch;
end $$;

-- A branch of its own at a turn of the parent, in one statement. Nothing is copied but the lineage.
-- status: forked | repeated (the same fork is there) | unknown_branch | no_such_turn | id_taken.
create or replace function durable_context.fork_branch(
    p_tenant text, p_parent uuid, p_branch_id text, p_at_turn integer, p_keep_raw_turns integer,
    out status text, out branch_uuid uuid, out fork_turn integer, out head_turn integer, out encoding text
) language plpgsql as $$
#variable_conflict use_column
declare
    parent durable_context.branches;
    child durable_context.branches;
    last record;
    base integer := 0;
    base_tokens bigint := 0;
begin
    select * into parent from durable_context.branches b where b.tenant = p_tenant and b.branch_uuid = p_parent;
    if not found then
        status := 'unknown_branch';
        return;
    end if;
    head_turn := parent.head_turn;
    encoding := parent.encoding;
    fork_turn := coalesce(p_at_turn, parent.head_turn);

    select * into child from durable_context.branches b
        where b.tenant = p_tenant and b.conversation_id = parent.conversation_id and b.branch_id = p_branch_id;
    if not found then
        if fork_turn < 0 or fork_turn > parent.head_turn then
            status := 'no_such_turn';
            return;
        end if;
        select 0::bigint as head_tokens, null::integer as open_run_turn into last;
        if fork_turn > 0 then
            select t.head_tokens, t.open_run_turn into strict last from durable_context.visible_turns t
                where t.tenant = p_tenant and t.seen_by = p_parent and t.turn_no = fork_branch.fork_turn;
            base := durable_context.newest_checkpoint(p_parent, fork_turn - p_keep_raw_turns);
        end if;
        if base > 0 then
            select t.head_tokens into strict base_tokens from durable_context.visible_turns t
                where t.tenant = p_tenant and t.seen_by = p_parent and t.turn_no = base;
        end if;
        insert into durable_context.branches as b (
            tenant, conversation_id, branch_id, parent_uuid, fork_turn, encoding, text_search, head_turn, head_tokens,
            checkpoint_turn, checkpoint_tokens, open_run_turn
        ) values (
            p_tenant, parent.conversation_id, p_branch_id, p_parent, fork_branch.fork_turn, parent.encoding,
            parent.text_search, fork_branch.fork_turn, last.head_tokens, base, base_tokens, last.open_run_turn
        ) on conflict (tenant, conversation_id, branch_id) do nothing returning b.branch_uuid into branch_uuid;
        if found then
            status := 'forked';
            return;
        end if;
        -- Somebody else was faster: committed by now, or the insert would still wait.
        select * into strict child from durable_context.branches b
            where b.tenant = p_tenant and b.conversation_id = parent.conversation_id and b.branch_id = p_branch_id;
    end if;
    status := case
        when child.parent_uuid = p_parent and child.fork_turn = coalesce(p_at_turn, child.fork_turn) then 'repeated'
        else 'id_taken'
    end;
    branch_uuid := child.branch_uuid;
    fork_turn := child.fork_turn;
end $$;

alter table durable_context.branches drop column indexed_documents, drop column indexed_terms;
