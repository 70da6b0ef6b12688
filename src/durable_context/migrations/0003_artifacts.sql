-- Large and binary content lives in the artifact store, and turns keep a pointer and a view of it.
--
-- *Contents* are stored once per tenant and SHA-256, compressed, here or (large ones) in an object store that is written
-- before the row. An *artifact* is one appearance of a content in a branch: brought by a turn, or put there under a
-- name. Its handle is random, and it is found through the lineage of the branch that asks. Summaries of artifacts belong
-- to the content: the same report read twice is summarized once.

create table durable_context.artifact_contents (
    tenant text not null,
    sha256 bytea not null check (length(sha256) = 32),
    size bigint not null check (size >= 0), -- bytes, not compressed
    compression text not null check (compression in ('none', 'zlib')),
    data bytea,
    object_key text,
    created_at timestamptz not null default clock_timestamp(),
    primary key (tenant, sha256),
    check ((data is null) <> (object_key is null))
);
alter table durable_context.artifact_contents alter column data set storage external; -- is compressed already

create table durable_context.artifacts (
    tenant text not null,
    branch_uuid uuid not null,
    -- Counts 1, 2, 3 ... along the lineage, so that it tells artifacts that a branch sees apart.
    artifact_no integer not null check (artifact_no >= 1),
    -- 128 random bits. Unique in a branch only: an imported copy of a branch keeps its handles.
    handle text not null check (handle ~ '^art_[A-Za-z0-9_-]{22}$'),
    -- The turn that brought it; for one that was put there, the branch's head at that moment.
    turn_no integer not null check (turn_no >= 0),
    source text not null check (source in ('message', 'part', 'put')),
    -- Where in the turn it stood: index of the message, and of the content part.
    message_no integer,
    part_no integer,
    name text check (name <> ''),
    version integer check (version >= 1),
    media_type text not null check (media_type <> ''),
    sha256 bytea not null,
    size bigint not null,
    -- Tokens and lines of text; for an image or sound, tokens a prompt pays for it whole.
    token_count integer not null check (token_count >= 0),
    line_count integer,
    width integer,
    height integer,
    schema_version smallint not null default 1,
    created_at timestamptz not null default clock_timestamp(),
    primary key (branch_uuid, artifact_no),
    unique (branch_uuid, handle),
    unique (branch_uuid, name, version),
    foreign key (tenant, branch_uuid) references durable_context.branches (tenant, branch_uuid),
    foreign key (tenant, sha256) references durable_context.artifact_contents (tenant, sha256),
    check ((source = 'put') = (version is not null)),
    check ((source = 'put') = (message_no is null)),
    check (version is null or name is not null)
);

create index artifacts_by_turn on durable_context.artifacts (branch_uuid, turn_no);
create index artifacts_by_content on durable_context.artifacts (tenant, sha256);

create table durable_context.artifact_summaries (
    tenant text not null,
    sha256 bytea not null,
    recipe text not null check (recipe <> ''),
    headline text not null check (headline <> ''),
    text text not null check (text <> ''),
    token_count integer not null check (token_count > 0),
    input_tokens integer not null,
    made_by text not null check (made_by <> ''),
    degraded boolean not null default false,
    usage json,
    schema_version smallint not null default 1,
    created_at timestamptz not null default clock_timestamp(),
    primary key (tenant, sha256, recipe),
    foreign key (tenant, sha256) references durable_context.artifact_contents (tenant, sha256)
);

create trigger immutable before update or delete or truncate on durable_context.artifact_contents
    for each statement execute function durable_context.refuse_change();
create trigger immutable before update or delete or truncate on durable_context.artifacts
    for each statement execute function durable_context.refuse_change();
create trigger immutable before update or truncate on durable_context.artifact_summaries
    for each statement execute function durable_context.refuse_change();

-- What a turn brought belongs to a turn of the branch itself, what was put there to a moment of its life. Looked at when
-- the transaction ends and the head has moved.
create function durable_context.check_artifact_turn() returns trigger language plpgsql as $$
begin
    if not exists (
        select from durable_context.branches b
        where b.tenant = new.tenant and b.branch_uuid = new.branch_uuid and new.turn_no <= b.head_turn
            and new.turn_no >= coalesce(b.fork_turn, 0) + (new.source <> 'put')::integer
    ) then
        raise exception 'turn % of artifact % is none of its branch', new.turn_no, new.artifact_no
            using errcode = 'DC003';
    end if;
    return null;
end $$;

create constraint trigger of_branch after insert on durable_context.artifacts
    deferrable initially deferred for each row execute function durable_context.check_artifact_turn();

alter table durable_context.branches
    add column artifact_count integer not null default 0; -- inherited ones included

create function durable_context.count_on() returns trigger language plpgsql as $$
begin
    select p.artifact_count into new.artifact_count from durable_context.branches p
        where p.tenant = new.tenant and p.branch_uuid = new.parent_uuid;
    return new;
end $$;

create trigger artifacts_count_on before insert on durable_context.branches
    for each row when (new.parent_uuid is not null) execute function durable_context.count_on();

alter table durable_context.lineage
    -- Artifacts of the ancestor up to this number were there when the branch was made.
    add column artifact_limit integer not null default 0;
alter table durable_context.lineage disable trigger immutable;
update durable_context.lineage set artifact_limit = 2147483647 where depth = 0;
alter table durable_context.lineage enable trigger immutable;

create or replace function durable_context.add_lineage() returns trigger language plpgsql as $$
begin
    insert into durable_context.lineage (
        tenant, branch_uuid, depth, ancestor_uuid, from_turn, to_turn, compacted_turn, artifact_limit
    )
    select new.tenant, new.branch_uuid, 0, new.branch_uuid, coalesce(new.fork_turn, 0) + 1, 2147483647, 2147483647,
        2147483647
    union all
    select new.tenant, new.branch_uuid, l.depth + 1, l.ancestor_uuid, l.from_turn,
        least(l.to_turn, new.fork_turn), least(l.compacted_turn, new.checkpoint_turn),
        least(l.artifact_limit, new.artifact_count)
    from durable_context.lineage l
    where l.tenant = new.tenant and l.branch_uuid = new.parent_uuid;
    return null;
end $$;

create view durable_context.visible_artifacts as
    select l.branch_uuid as seen_by, a.*
    from durable_context.lineage l
    join durable_context.artifacts a on a.tenant = l.tenant and a.branch_uuid = l.ancestor_uuid
        and a.turn_no <= l.to_turn and a.artifact_no <= l.artifact_limit;

-- Leaves have artifact_no 0. An artifact is a document of its own among the postings, of the branch whose compaction
-- came to it first: a child indexes what it inherited and no ancestor has indexed.
alter table durable_context.indexed_documents
    add column artifact_no integer not null default 0,
    drop constraint indexed_leaves_pkey,
    add primary key (branch_uuid, to_turn, artifact_no);
alter table durable_context.postings
    add column artifact_no integer not null default 0,
    drop constraint postings_pkey;
alter table durable_context.postings
    add primary key (branch_uuid, term, to_turn, artifact_no) include (from_turn, frequency, length);

create view durable_context.visible_postings as
    select l.branch_uuid as seen_by, p.*
    from durable_context.lineage l
    join durable_context.postings p on p.branch_uuid = l.ancestor_uuid
        and p.to_turn <= case when p.artifact_no = 0 then l.compacted_turn else l.to_turn end
        and p.artifact_no <= l.artifact_limit;

alter table durable_context.turns
    -- Tokens of the turn as it is stored and as a summarizer reads it: views in place of what was offloaded.
    add column stored_tokens integer,
    add column artifact_count integer not null default 0;
alter table durable_context.turns disable trigger immutable;
update durable_context.turns set stored_tokens = token_count;
alter table durable_context.turns enable trigger immutable;
alter table durable_context.turns alter column stored_tokens set not null;

drop view durable_context.visible_turns;
create view durable_context.visible_turns as
    select l.branch_uuid as seen_by, t.*
    from durable_context.lineage l
    join durable_context.turns t on t.tenant = l.tenant and t.branch_uuid = l.ancestor_uuid
        and t.turn_no between l.from_turn and l.to_turn;

-- Contents: arrays of one element per content. data is null where the object store has it.
create function durable_context.keep_contents(
    p_tenant text, p_hashes bytea[], p_sizes bigint[], p_compressions text[], p_data bytea[], p_object_keys text[]
) returns void language sql as $$
    insert into durable_context.artifact_contents (tenant, sha256, size, compression, data, object_key)
    select p_tenant, c.sha256, c.size, c.compression, c.data, c.object_key
    from unnest(p_hashes, p_sizes, p_compressions, p_data, p_object_keys)
        c (sha256, size, compression, data, object_key)
    order by c.sha256 -- the same order for everybody: no deadlock
    on conflict do nothing
$$;

drop function durable_context.record_turn;

-- Records one turn with its artifacts in one transaction: idempotent by turn_key, numbered without holes.
-- status: recorded | repeated (same key, same content) | key_conflict | head_conflict | unknown_branch.
-- p_artifacts: [{"handle", "source", "message_no", "part_no", "name", "media_type", "sha256" (hex), "size",
-- "token_count", "line_count", "width", "height"}]; their contents are the arrays of keep_contents.
create function durable_context.record_turn(
    p_tenant text, p_branch uuid, p_turn_key text, p_content_hash bytea, p_expected_head integer,
    p_messages json, p_message_tokens integer[], p_views json, p_token_count integer, p_stored_tokens integer,
    p_raw_tokens integer, p_outcome text, p_continues boolean, p_begins_run boolean, p_digest text,
    p_digest_tokens integer, p_ledger json, p_search_text text, p_occurred_at timestamptz, p_usage json,
    p_metadata json, p_manifest json, p_prompt_parts_hash bytea, p_prompt_parts json,
    p_artifacts json, p_hashes bytea[], p_sizes bigint[], p_compressions text[], p_data bytea[], p_object_keys text[],
    out status text, out turn_no integer, out head_turn integer, out recorded_at timestamptz,
    out checkpoint_turn integer, out uncompacted_tokens bigint
) language plpgsql as $$
#variable_conflict use_column
declare
    branch durable_context.branches;
    known durable_context.turns;
    run_turn integer;
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
        stored_tokens, raw_tokens, outcome, continues, digest, digest_tokens, ledger, terms, occurred_at, recorded_at,
        usage, metadata, manifest, prompt_parts_hash, head_tokens, open_run_turn, artifact_count
    ) values (
        p_tenant, p_branch, record_turn.turn_no, p_turn_key, p_content_hash, p_messages, p_message_tokens, p_views,
        p_token_count, p_stored_tokens, p_raw_tokens, p_outcome, p_continues, p_digest, p_digest_tokens, p_ledger,
        to_tsvector(branch.text_search, p_search_text), coalesce(p_occurred_at, record_turn.recorded_at),
        record_turn.recorded_at, p_usage, p_metadata, p_manifest, p_prompt_parts_hash,
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

-- Puts a named artifact: the next version of the name as the branch sees it. One statement, one transaction.
-- status: put | unknown_branch.
create function durable_context.put_artifact(
    p_tenant text, p_branch uuid, p_handle text, p_name text, p_media_type text, p_sha256 bytea, p_size bigint,
    p_token_count integer, p_line_count integer, p_width integer, p_height integer, p_compression text, p_data bytea,
    p_object_key text, out status text, out version integer, out turn_no integer, out created_at timestamptz
) language plpgsql as $$
#variable_conflict use_column
declare
    branch durable_context.branches;
begin
    select * into branch from durable_context.branches b
        where b.tenant = p_tenant and b.branch_uuid = p_branch for no key update;
    if not found then
        status := 'unknown_branch';
        return;
    end if;
    status := 'put';
    turn_no := branch.head_turn;
    select coalesce(max(a.version), 0) + 1 into version from durable_context.visible_artifacts a
        where a.tenant = p_tenant and a.seen_by = p_branch and a.name = p_name and a.source = 'put';
    perform durable_context.keep_contents(
        p_tenant, array[p_sha256], array[p_size], array[p_compression], array[p_data], array[p_object_key]
    );
    insert into durable_context.artifacts as a (
        handle, tenant, branch_uuid, artifact_no, turn_no, source, name, version, media_type, sha256, size, token_count,
        line_count, width, height
    ) values (
        p_handle, p_tenant, p_branch, branch.artifact_count + 1, branch.head_turn, 'put', p_name,
        put_artifact.version, p_media_type, p_sha256, p_size, p_token_count, p_line_count, p_width, p_height
    ) returning a.created_at into created_at;
    update durable_context.branches b set artifact_count = branch.artifact_count + 1 where b.branch_uuid = p_branch;
end $$;
