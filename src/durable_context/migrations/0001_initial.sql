-- Durable Context keeps every conversation in this schema.
--
-- A *branch* is the unit of isolation: all other rows belong to one branch, and carry its tenant. The
-- composite foreign keys make a row of one tenant on a branch of another impossible.
--
-- A *turn* is written once by record_turn(), which numbers turns 1, 2, 3 ... under the lock of the branch row, and is
-- never changed. Everything prepare() needs of a turn is computed when it is written: token counts, views of
-- large messages, the digest, ledger entries, index terms. Messages are `json`, not `jsonb`: the text comes back
-- byte for byte, NUL escapes and lone surrogates included, and Postgres never looks inside.
--
-- Compaction writes *summaries* as drafts, which no reader sees, and publishes them together with a *checkpoint*
-- in one transaction that moves branches.checkpoint_turn from the value it was planned on (compare and swap). A reader
-- takes the newest checkpoint and the turns after it, so that each turn is there exactly once at any moment.
-- Then the leaf's terms are added to the *postings* that retrieval ranks by.
--
-- Published content is immutable. Triggers refuse every update of it, except a summary's state.
-- Errors of ours have SQLSTATE class DC.

create schema if not exists durable_context;

create table durable_context.branches (
    branch_uuid uuid primary key default gen_random_uuid(),
    tenant text not null check (tenant <> ''),
    conversation_id text not null check (conversation_id <> ''),
    branch_id text not null check (branch_id <> ''),
    parent_uuid uuid,
    fork_turn integer check (fork_turn >= 0),
    encoding text not null,
    text_search regconfig not null,
    head_turn integer not null default 0 check (head_turn >= 0),
    head_tokens bigint not null default 0 check (head_tokens >= 0),
    checkpoint_turn integer not null default 0 check (checkpoint_turn between 0 and head_turn),
    checkpoint_tokens bigint not null default 0,
    -- First turn of the long run that is open, if one is.
    open_run_turn integer check (open_run_turn between 1 and head_turn),
    indexed_leaves integer not null default 0,
    indexed_terms bigint not null default 0,
    last_turn_at timestamptz,
    created_at timestamptz not null default clock_timestamp(),
    unique (tenant, conversation_id, branch_id),
    unique (tenant, branch_uuid),
    foreign key (tenant, parent_uuid) references durable_context.branches (tenant, branch_uuid),
    check ((parent_uuid is null) = (fork_turn is null))
) with (fillfactor = 50); -- room for HOT updates: the row changes with every turn, its indexes never

create table durable_context.turns (
    tenant text not null,
    branch_uuid uuid not null,
    turn_no integer not null check (turn_no >= 1),
    turn_key text not null check (turn_key <> ''),
    content_hash bytea not null check (length(content_hash) = 32),
    messages json not null,
    message_tokens integer[] not null,
    -- {"<message index>": {"message": ..., "tokens": n}}: the short form of each large message.
    views json,
    token_count integer not null check (token_count >= 0),
    -- Tokens of the turn as a raw turn shows it: results above raw_result_tokens as views.
    raw_tokens integer not null check (raw_tokens >= 0),
    outcome text not null check (outcome in ('complete', 'interrupted', 'failed')),
    continues boolean not null,
    digest text not null,
    digest_tokens integer not null,
    ledger json not null,
    terms tsvector not null,
    occurred_at timestamptz not null,
    recorded_at timestamptz not null,
    usage json,
    metadata json,
    manifest json,
    prompt_parts_hash bytea,
    schema_version smallint not null default 1,
    primary key (branch_uuid, turn_no),
    unique (branch_uuid, turn_key),
    foreign key (tenant, branch_uuid) references durable_context.branches (tenant, branch_uuid)
);

-- What prompts were made with besides the conversation (instructions, tools), once per content.
create table durable_context.prompt_parts (
    tenant text not null,
    hash bytea not null check (length(hash) = 32),
    parts json not null,
    primary key (tenant, hash)
);

create table durable_context.summaries (
    summary_id uuid primary key default gen_random_uuid(),
    tenant text not null,
    branch_uuid uuid not null,
    level smallint not null check (level >= 0),
    from_turn integer not null check (from_turn >= 1),
    to_turn integer not null check (to_turn >= from_turn),
    recipe text not null check (recipe <> ''),
    input_hash bytea not null check (length(input_hash) = 32),
    revision integer not null default 1 check (revision >= 1),
    state text not null default 'draft'
        check (state in ('draft', 'current', 'superseded', 'rejected')),
    headline text not null check (headline <> ''),
    text text not null check (text <> ''),
    token_count integer not null check (token_count > 0),
    -- Tokens a summarizer read to make it, and raw tokens of the turns it covers.
    input_tokens integer not null,
    covered_tokens bigint not null,
    made_by text not null check (made_by <> ''),
    degraded boolean not null default false,
    usage json,
    schema_version smallint not null default 1,
    created_at timestamptz not null default clock_timestamp(),
    unique (branch_uuid, level, from_turn, to_turn, recipe, input_hash, revision),
    foreign key (tenant, branch_uuid) references durable_context.branches (tenant, branch_uuid)
);

create unique index summaries_current on durable_context.summaries (branch_uuid, level, from_turn)
    where state = 'current';

-- Partial results of a summary whose input is larger than its summarizer's window, so that a retry goes on from here.
create table durable_context.summary_parts (
    tenant text not null,
    branch_uuid uuid not null,
    recipe text not null,
    input_hash bytea not null check (length(input_hash) = 32),
    draft json not null,
    created_at timestamptz not null default clock_timestamp(),
    primary key (branch_uuid, recipe, input_hash),
    foreign key (tenant, branch_uuid) references durable_context.branches (tenant, branch_uuid)
);

create table durable_context.checkpoints (
    checkpoint_id uuid primary key default gen_random_uuid(),
    tenant text not null,
    branch_uuid uuid not null,
    turn_no integer not null check (turn_no >= 1),
    parent_id uuid references durable_context.checkpoints (checkpoint_id),
    -- Summary ids, oldest first, covering turns 1..turn_no once.
    frontier uuid[] not null check (cardinality(frontier) >= 1),
    leaf_count integer not null check (leaf_count >= 1),
    -- Where each part of the text begins and ends and what it shrinks to: see durable_context.prompts.rendering.
    sections json not null,
    ledger json not null,
    text text not null,
    token_count integer not null check (token_count > 0),
    token_usage json not null,
    artifact_handles text[] not null default '{}',
    schema_version smallint not null default 1,
    created_at timestamptz not null default clock_timestamp(),
    unique (branch_uuid, turn_no),
    foreign key (tenant, branch_uuid) references durable_context.branches (tenant, branch_uuid)
);

create table durable_context.compactions (
    compaction_id uuid primary key default gen_random_uuid(),
    tenant text not null,
    branch_uuid uuid not null,
    from_turn integer not null,
    to_turn integer not null check (to_turn >= from_turn),
    status text not null check (status in ('running', 'completed', 'failed')),
    reason text not null,
    attempts integer not null default 0,
    error text,
    recipe text,
    tokens_before bigint,
    tokens_after bigint,
    -- One element per attempt that reached a model, failed attempts included.
    usage json not null default '[]',
    workflow_id text,
    run_id text,
    started_at timestamptz not null default clock_timestamp(),
    finished_at timestamptz,
    foreign key (tenant, branch_uuid) references durable_context.branches (tenant, branch_uuid)
);

create index compactions_by_branch on durable_context.compactions (branch_uuid, started_at desc);

-- One group of attempts at a time: two workers that plan the same segment share the row.
create unique index compactions_running on durable_context.compactions (branch_uuid, from_turn)
    where status = 'running';

create table durable_context.indexed_leaves (
    tenant text not null,
    branch_uuid uuid not null,
    to_turn integer not null,
    from_turn integer not null,
    length integer not null,
    primary key (branch_uuid, to_turn),
    foreign key (tenant, branch_uuid) references durable_context.branches (tenant, branch_uuid)
);

-- length is the leaf's number of terms, repeated here so that BM25 needs an index-only scan and no join.
create table durable_context.postings (
    branch_uuid uuid not null references durable_context.branches (branch_uuid),
    term text not null,
    to_turn integer not null,
    from_turn integer not null,
    frequency smallint not null,
    length integer not null,
    primary key (branch_uuid, term, to_turn) include (from_turn, frequency, length)
);

create function durable_context.refuse_change() returns trigger language plpgsql as $$
begin
    raise exception '% rows are immutable: % refused', tg_table_name, lower(tg_op) using errcode = 'DC001';
end $$;

create trigger immutable before update on durable_context.turns
    for each row execute function durable_context.refuse_change();
create trigger immutable before update on durable_context.checkpoints
    for each row execute function durable_context.refuse_change();
create trigger immutable before update on durable_context.prompt_parts
    for each row execute function durable_context.refuse_change();
create trigger immutable before update of
    summary_id, tenant, branch_uuid, level, from_turn, to_turn, recipe, input_hash, revision, headline, text,
    token_count, input_tokens, covered_tokens, made_by, degraded, usage, schema_version, created_at
    on durable_context.summaries
    for each row execute function durable_context.refuse_change();

create trigger permanent before delete or truncate on durable_context.turns
    for each statement execute function durable_context.refuse_change();
create trigger permanent before delete or truncate on durable_context.checkpoints
    for each statement execute function durable_context.refuse_change();
create trigger permanent before truncate on durable_context.summaries
    for each statement execute function durable_context.refuse_change();
create trigger permanent_once_published before delete on durable_context.summaries
    for each row when (old.state <> 'draft') execute function durable_context.refuse_change();

-- Whoever publishes holds the lock of the branch row, so that this look at the others is not a race.
create function durable_context.refuse_overlap() returns trigger language plpgsql as $$
begin
    if exists (
        select from durable_context.summaries s
        where s.branch_uuid = new.branch_uuid and s.level = new.level and s.state = 'current'
          and s.summary_id <> new.summary_id
          and s.from_turn <= new.to_turn and s.to_turn >= new.from_turn
    ) then
        raise exception 'level % nodes overlap at turns %..%', new.level, new.from_turn, new.to_turn
            using errcode = 'DC002';
    end if;
    return new;
end $$;

create trigger no_overlap before insert or update of state on durable_context.summaries
    for each row when (new.state = 'current') execute function durable_context.refuse_overlap();

-- Records one turn in one transaction: idempotent by turn_key, numbered without holes.
-- status: recorded | repeated (same key, same content) | key_conflict | head_conflict | unknown_branch.
create function durable_context.record_turn(
    p_tenant text, p_branch uuid, p_turn_key text, p_content_hash bytea, p_expected_head integer,
    p_messages json, p_message_tokens integer[], p_views json, p_token_count integer, p_raw_tokens integer,
    p_outcome text, p_continues boolean, p_begins_run boolean, p_digest text, p_digest_tokens integer, p_ledger json,
    p_search_text text, p_occurred_at timestamptz, p_usage json, p_metadata json, p_manifest json,
    p_prompt_parts_hash bytea, p_prompt_parts json,
    out status text, out turn_no integer, out head_turn integer, out recorded_at timestamptz,
    out checkpoint_turn integer, out uncompacted_tokens bigint
) language plpgsql as $$
#variable_conflict use_column
declare
    branch durable_context.branches;
    known durable_context.turns;
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
    uncompacted_tokens := uncompacted_tokens + p_token_count;
    if p_prompt_parts_hash is not null then
        insert into durable_context.prompt_parts (tenant, hash, parts)
            values (p_tenant, p_prompt_parts_hash, p_prompt_parts) on conflict do nothing;
    end if;
    insert into durable_context.turns (
        tenant, branch_uuid, turn_no, turn_key, content_hash, messages, message_tokens, views, token_count,
        raw_tokens, outcome, continues, digest, digest_tokens, ledger, terms, occurred_at, recorded_at, usage,
        metadata, manifest, prompt_parts_hash
    ) values (
        p_tenant, p_branch, record_turn.turn_no, p_turn_key, p_content_hash, p_messages, p_message_tokens, p_views,
        p_token_count, p_raw_tokens, p_outcome, p_continues, p_digest, p_digest_tokens, p_ledger,
        to_tsvector(branch.text_search, p_search_text), coalesce(p_occurred_at, record_turn.recorded_at),
        record_turn.recorded_at, p_usage, p_metadata, p_manifest, p_prompt_parts_hash
    );
    update durable_context.branches b set
        head_turn = record_turn.turn_no,
        head_tokens = branch.head_tokens + p_token_count,
        open_run_turn = case
            when not p_continues then null
            when p_begins_run then record_turn.turn_no
            else coalesce(branch.open_run_turn, record_turn.turn_no)
        end,
        last_turn_at = record_turn.recorded_at
        where b.branch_uuid = p_branch;
end $$;
