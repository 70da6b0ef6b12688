-- Control over what compaction made, and upkeep of what is stored: replacements and reverts, pins, pauses, what each
-- compaction cost and saved, retention and verification.
--
-- A branch counts its *publications*: each commit, replacement and revert is one. A node or checkpoint is visible from the
-- publication that made it current (published_in) to the one that replaced or rejected it (replaced_in). A fork sees its
-- parent as it stood at the fork (parent_publication), whatever the parent replaces or reverts later, until the fork's own
-- upgrade takes replacements over: that moves lineage.publication on. Retention takes what nobody sees any more.
--
-- New tables: focuses (what a compaction is asked to keep in view), tenants (pauses, retention), pins, damages (findings
-- of verification that stand). Each that concerns a branch goes with it.

alter table durable_context.branches
    add column publication bigint not null default 0,
    -- The parent's publication that a fork sees.
    add column parent_publication bigint,
    add column paused_at timestamptz,
    add column paused_because text;
update durable_context.branches set parent_publication = 0 where parent_uuid is not null;
alter table durable_context.branches
    add check ((parent_uuid is null) = (parent_publication is null)),
    add check (paused_at is not null or paused_because is null);
drop trigger immutable on durable_context.branches;
create trigger immutable before update of
    branch_uuid, tenant, conversation_id, branch_id, parent_uuid, fork_turn, encoding, text_search, created_at,
    parent_publication
    on durable_context.branches
    for each row execute function durable_context.refuse_change();

alter table durable_context.lineage
    -- Of the ancestor, as far as the branch sees. It moves on when the branch takes over replacements.
    add column publication bigint not null default 9223372036854775807;
drop trigger immutable on durable_context.lineage;
update durable_context.lineage set publication = 0 where depth > 0;
create trigger immutable before update of
    tenant, branch_uuid, depth, ancestor_uuid, from_turn, to_turn, compacted_turn, artifact_limit
    on durable_context.lineage
    for each row execute function durable_context.refuse_change();
create trigger permanent before delete or truncate on durable_context.lineage
    for each statement execute function durable_context.refuse_change();

create or replace function durable_context.add_lineage() returns trigger language plpgsql as $$
begin
    insert into durable_context.lineage (
        tenant, branch_uuid, depth, ancestor_uuid, from_turn, to_turn, compacted_turn, artifact_limit, publication
    )
    select new.tenant, new.branch_uuid, 0, new.branch_uuid, coalesce(new.fork_turn, 0) + 1, 2147483647, 2147483647,
        2147483647, 9223372036854775807
    union all
    select new.tenant, new.branch_uuid, l.depth + 1, l.ancestor_uuid, l.from_turn,
        least(l.to_turn, new.fork_turn), least(l.compacted_turn, new.checkpoint_turn),
        least(l.artifact_limit, new.artifact_count),
        case l.depth when 0 then new.parent_publication else l.publication end
    from durable_context.lineage l
    where l.tenant = new.tenant and l.branch_uuid = new.parent_uuid;
    return null;
end $$;

-- Nodes.

alter table durable_context.summaries
    add column published_in bigint,
    add column replaced_in bigint,
    add column replaced_at timestamptz;
update durable_context.summaries set published_in = 0 where state <> 'draft';

-- draft -> current -> superseded -> rejected; each may be left out, none taken back. To make an older one current again,
-- it is published anew: see revert.
create function durable_context.stamp_publication() returns trigger language plpgsql as $$
declare
    now_published bigint := (
        select b.publication from durable_context.branches b where b.branch_uuid = new.branch_uuid
    );
begin
    if tg_op = 'UPDATE' then
        if (array_position('{draft,current,superseded,rejected}', new.state)
            <= array_position('{draft,current,superseded,rejected}', old.state)) then
            raise exception '% rows never go from % to %', tg_table_name, old.state, new.state using errcode = 'DC001';
        end if;
        if new.state in ('superseded', 'rejected') then
            new.replaced_in := coalesce(old.replaced_in, now_published);
            new.replaced_at := clock_timestamp();
        end if;
    end if;
    if new.state = 'current' then
        new.published_in := now_published;
    end if;
    return new;
end $$;

drop trigger permanent_state on durable_context.summaries;
create trigger a_stamp before insert on durable_context.summaries
    for each row when (new.state = 'current') execute function durable_context.stamp_publication();
create trigger a_stamp_change before update of state on durable_context.summaries
    for each row when (new.state <> old.state) execute function durable_context.stamp_publication();

create or replace view durable_context.visible_summaries as
    select l.branch_uuid as seen_by, s.*
    from durable_context.lineage l
    join durable_context.summaries s on s.tenant = l.tenant and s.branch_uuid = l.ancestor_uuid
        and s.to_turn <= l.compacted_turn
    where s.published_in <= l.publication and (s.replaced_in is null or s.replaced_in > l.publication);

-- Checkpoints: a replaced frontier gives another revision at the same turn.

alter table durable_context.checkpoints
    add column revision integer not null default 1 check (revision >= 1),
    add column state text not null default 'current' check (state in ('current', 'superseded', 'rejected')),
    add column published_in bigint not null default 0,
    add column replaced_in bigint,
    add column replaced_at timestamptz,
    drop constraint checkpoints_branch_uuid_turn_no_key,
    add unique (branch_uuid, turn_no, revision);
create unique index checkpoints_current on durable_context.checkpoints (branch_uuid, turn_no) where state = 'current';

drop trigger immutable on durable_context.checkpoints;
create trigger immutable before update of
    checkpoint_id, tenant, branch_uuid, turn_no, frontier, leaf_count, sections, ledger, text, token_count,
    token_usage, artifact_handles, schema_version, created_at, revision
    on durable_context.checkpoints
    for each row execute function durable_context.refuse_change();
create trigger immutable_parent before update of parent_id on durable_context.checkpoints
    for each row when (
        new.parent_id is not null or current_setting('durable_context.retention', true) is distinct from 'on'
    ) execute function durable_context.refuse_change();
create trigger a_stamp before insert on durable_context.checkpoints
    for each row when (new.state = 'current') execute function durable_context.stamp_publication();
create trigger a_stamp_change before update of state on durable_context.checkpoints
    for each row when (new.state <> old.state) execute function durable_context.stamp_publication();

create or replace view durable_context.visible_checkpoints as
    select l.branch_uuid as seen_by, c.*
    from durable_context.lineage l
    join durable_context.checkpoints c on c.tenant = l.tenant and c.branch_uuid = l.ancestor_uuid
        and c.turn_no <= l.compacted_turn
        and c.published_in <= l.publication and (c.replaced_in is null or c.replaced_in > l.publication);

create or replace function durable_context.newest_checkpoint(p_branch uuid, p_turn integer)
returns integer language sql stable as $$
    select coalesce(max(n.turn_no), 0)
    from durable_context.lineage l, lateral (
        select c.turn_no from durable_context.checkpoints c
        where c.branch_uuid = l.ancestor_uuid and c.turn_no <= least(l.compacted_turn, p_turn)
            and c.published_in <= l.publication and (c.replaced_in is null or c.replaced_in > l.publication)
        order by c.turn_no desc limit 1
    ) n
    where l.branch_uuid = p_branch
$$;

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
    seen bigint := 0;
begin
    -- Retention waits for the fork, and then keeps what it needs, or the fork for retention.
    perform from durable_context.branches b
        where b.tenant = p_tenant and b.branch_uuid in (
            select l.ancestor_uuid from durable_context.lineage l
            where l.tenant = p_tenant and l.branch_uuid = p_parent
        ) order by b.branch_uuid for key share;
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
        end if;
        -- One snapshot: a checkpoint and a publication that go together.
        select b.publication, durable_context.newest_checkpoint(p_parent, fork_branch.fork_turn - p_keep_raw_turns)
            into strict seen, base
            from durable_context.branches b where b.tenant = p_tenant and b.branch_uuid = p_parent;
        if base > 0 then
            select t.head_tokens into strict base_tokens from durable_context.visible_turns t
                where t.tenant = p_tenant and t.seen_by = p_parent and t.turn_no = base;
        end if;
        insert into durable_context.branches as b (
            tenant, conversation_id, branch_id, parent_uuid, fork_turn, encoding, text_search, head_turn, head_tokens,
            checkpoint_turn, checkpoint_tokens, open_run_turn, parent_publication
        ) values (
            p_tenant, parent.conversation_id, p_branch_id, p_parent, fork_branch.fork_turn, parent.encoding,
            parent.text_search, fork_branch.fork_turn, last.head_tokens, base, base_tokens, last.open_run_turn, seen
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

-- A fork begins as its parent stood at that turn, with a checkpoint that the parent's publication has.
create or replace function durable_context.check_fork() returns trigger language plpgsql as $$
begin
    if not exists (
        select from durable_context.branches p
        where p.tenant = new.tenant and p.branch_uuid = new.parent_uuid
            and p.conversation_id = new.conversation_id and p.encoding = new.encoding
            and p.text_search = new.text_search and new.fork_turn <= p.head_turn
            and new.parent_publication <= p.publication
    ) or new.head_turn <> new.fork_turn or new.checkpoint_turn > new.fork_turn
    or new.checkpoint_turn <> 0 and not exists (
        select from durable_context.lineage l
        join durable_context.checkpoints c on c.tenant = l.tenant and c.branch_uuid = l.ancestor_uuid
            and c.turn_no = new.checkpoint_turn and c.turn_no <= l.compacted_turn
        cross join lateral (
            select case l.depth when 0 then new.parent_publication else l.publication end as publication
        ) p
        where l.tenant = new.tenant and l.branch_uuid = new.parent_uuid
            and c.published_in <= p.publication and (c.replaced_in is null or c.replaced_in > p.publication)
    ) then
        raise exception 'the branch is no fork of its parent at turn %', new.fork_turn using errcode = 'DC004';
    end if;
    return new;
end $$;

-- Nodes up to this publication are in the index: a look for others need not pass them.
alter table durable_context.branches add column indexed_publication bigint not null default -1;
create index summaries_by_publication on durable_context.summaries (branch_uuid, published_in) where state = 'current';

-- Which node an entry of the index was made from: another one is indexed anew. The entry of a node that only forks see by
-- now gives way to one that ends with the same turn: its artifact_no, there and in postings, is minus its from_turn.
alter table durable_context.indexed_documents add column summary_id uuid;
update durable_context.indexed_documents d set summary_id = s.summary_id
from durable_context.summaries s
where s.tenant = d.tenant and s.branch_uuid = d.branch_uuid and s.level = d.level and s.from_turn = d.from_turn
    and s.to_turn = d.to_turn and s.state = 'current' and d.artifact_no = 0;

-- Compactions: of nodes that replace others, too, and what they cost and saved.

alter table durable_context.compactions
    add column level smallint not null default 0 check (level >= 0),
    -- What the summarizer was asked to keep in view, for this compaction alone.
    add column focus text check (focus <> ''),
    add column input_tokens bigint not null default 0,
    add column output_tokens bigint not null default 0,
    -- In US dollars, of calls so far; null once the price of one is not known.
    add column price numeric check (price >= 0),
    -- Head of the branch when it was published: each turn since is a call that was spared `saved_tokens`, once
    -- `broken_tokens`, which a provider may have had in its cache, were read anew.
    add column head_turn integer,
    add column saved_tokens bigint,
    add column broken_tokens bigint,
    -- The publication it became; and the branch's head when a revert rejected that: nothing is saved since.
    add column published_in bigint,
    add column saved_until integer,
    drop constraint compactions_status_check,
    add constraint compactions_status_check check (status in ('running', 'completed', 'failed', 'skipped'));
alter table durable_context.compactions alter column price set default 0;
update durable_context.compactions c set input_tokens = u.input_tokens, output_tokens = u.output_tokens
from durable_context.compactions o, lateral (
    select coalesce(sum((a ->> 'input_tokens')::bigint), 0) as input_tokens,
        coalesce(sum((a ->> 'output_tokens')::bigint), 0) as output_tokens
    from json_array_elements(o.usage) a
) u
where o.compaction_id = c.compaction_id and json_array_length(o.usage) > 0;
drop index durable_context.compactions_running;
create unique index compactions_running on durable_context.compactions (branch_uuid, level, from_turn)
    where status = 'running';
-- The same work is skipped once, not with every turn.
create unique index compactions_skipped on durable_context.compactions (branch_uuid, level, from_turn, to_turn)
    where status = 'skipped';
-- How often and when a node could not be made.
create index compactions_failed on durable_context.compactions (branch_uuid, level, from_turn, to_turn)
    where status = 'failed';
create index compactions_by_tenant on durable_context.compactions (tenant, started_at desc, compaction_id desc);

-- Texts that compactions are asked for with: Temporal carries their ids.
create table durable_context.focuses (
    focus_id uuid primary key default gen_random_uuid(),
    tenant text not null,
    branch_uuid uuid not null,
    focus text not null check (length(focus) between 1 and 500),
    unique (branch_uuid, focus),
    foreign key (tenant, branch_uuid) references durable_context.branches (tenant, branch_uuid) on delete cascade
);

-- What a tenant has: conversations that are not compacted for now, and how long what is kept for.
create table durable_context.tenants (
    tenant text primary key check (tenant <> ''),
    paused_at timestamptz,
    paused_because text,
    retention json,
    check (paused_at is not null or paused_because is null)
);

-- A turn, or a fact of its ledger, that stands in every prompt verbatim. A fork begins with its parent's.
create table durable_context.pins (
    tenant text not null,
    branch_uuid uuid not null,
    turn_no integer not null check (turn_no >= 1),
    kind text not null default '',
    value text not null default '',
    pinned_at timestamptz not null default clock_timestamp(),
    primary key (branch_uuid, turn_no, kind, value),
    foreign key (tenant, branch_uuid) references durable_context.branches (tenant, branch_uuid),
    check ((kind = '') = (value = ''))
);

create function durable_context.inherit_pins() returns trigger language plpgsql as $$
begin
    insert into durable_context.pins (tenant, branch_uuid, turn_no, kind, value, pinned_at)
    select p.tenant, new.branch_uuid, p.turn_no, p.kind, p.value, p.pinned_at from durable_context.pins p
    where p.tenant = new.tenant and p.branch_uuid = new.parent_uuid and p.turn_no <= new.fork_turn;
    return null;
end $$;
create trigger pins after insert on durable_context.branches
    for each row when (new.parent_uuid is not null) execute function durable_context.inherit_pins();

-- What of a prompt is pinned, by turn: messages, with offloaded texts of up to so many tokens, only before p_raw_from,
-- since the prompt has later ones anyway. A function: for a branch without pins none of it is even planned.
create function durable_context.pinned_turns(
    p_tenant text, p_branch uuid, p_head integer, p_raw_from integer, p_result_tokens integer, p_largest integer
) returns json language plpgsql stable as $$
begin
    return (
        select json_agg(json_build_array(
            p.turn_no, to_char(t.occurred_at at time zone 'UTC', 'YYYY-MM-DD'), p.whole, p.facts,
            case when p.reads then t.messages end, case when p.reads then t.message_tokens end,
            case when p.reads then t.views end,
            case when p.reads and t.artifact_count > 0 then (
                select json_agg(json_build_array(
                    a.message_no, a.part_no, c.compression, c.size, encode(c.sha256, 'hex'), encode(c.data, 'base64')
                ))
                from durable_context.artifacts a
                join durable_context.artifact_contents c on c.tenant = p_tenant and c.sha256 = a.sha256
                    and c.data is not null and c.size <= p_largest
                where a.tenant = p_tenant and a.branch_uuid = t.branch_uuid and a.turn_no = t.turn_no
                    and a.line_count is not null and a.source in ('message', 'part')
                    and a.token_count <= p_result_tokens
            ) end
        ) order by p.turn_no)
        from (
            select p.turn_no, bool_or(p.kind = '') as whole,
                bool_or(p.kind = '') and p.turn_no < coalesce(p_raw_from, 2147483647) as reads,
                json_agg(json_build_array(p.kind, p.value) order by p.kind collate "C", p.value collate "C")
                    filter (where p.kind <> '') as facts
            from durable_context.pins p
            where p.tenant = p_tenant and p.branch_uuid = p_branch and p.turn_no <= p_head
            group by p.turn_no
        ) p
        join durable_context.visible_turns t on t.tenant = p_tenant and t.seen_by = p_branch and t.turn_no = p.turn_no
    );
end $$;

-- Events of all that.

alter table durable_context.events
    drop constraint events_kind_check,
    add constraint events_kind_check check (kind in (
        'prepared', 'recorded', 'offloaded', 'put', 'over_budget', 'compaction_started', 'compaction_completed',
        'compaction_failed', 'compaction_skipped', 'forked', 'reverted', 'pinned', 'unpinned', 'paused', 'resumed',
        'damaged'
    ));

create or replace function durable_context.note_event(
    p_tenant text, p_branch uuid, p_kind text, p_turn_no integer, p_at timestamptz, p_data json
) returns bigint language plpgsql as $$
declare
    event_no bigint := durable_context.next_event(p_branch);
begin
    if p_kind not in ('over_budget', 'compaction_skipped', 'reverted', 'damaged') then
        raise exception '% events are written by triggers alone', p_kind using errcode = 'DC005';
    end if;
    insert into durable_context.events (tenant, branch_uuid, event_no, kind, turn_no, at, data)
        values (p_tenant, p_branch, event_no, p_kind, p_turn_no, coalesce(p_at, clock_timestamp()), p_data);
    return event_no;
end $$;

create or replace function durable_context.tell_compaction() returns trigger language plpgsql as $$
begin
    insert into durable_context.events (tenant, branch_uuid, event_no, kind, turn_no, data) values (
        new.tenant, new.branch_uuid, durable_context.next_event(new.branch_uuid),
        case new.status when 'running' then 'compaction_started' else 'compaction_' || new.status end, new.to_turn,
        json_strip_nulls(json_build_object(
            'compaction_id', new.compaction_id, 'from_turn', new.from_turn, 'to_turn', new.to_turn,
            'level', new.level, 'reason', new.reason, 'attempts', new.attempts, 'recipe', new.recipe,
            'tokens_before', new.tokens_before, 'tokens_after', new.tokens_after, 'error', left(new.error, 1000)
        ))
    );
    return null;
end $$;

create function durable_context.tell_pin() returns trigger language plpgsql as $$
declare
    pin durable_context.pins := case tg_op when 'DELETE' then old else new end;
begin
    if exists (select from durable_context.branches b where b.branch_uuid = pin.branch_uuid) then
        insert into durable_context.events (tenant, branch_uuid, event_no, kind, turn_no, data) values (
            pin.tenant, pin.branch_uuid, durable_context.next_event(pin.branch_uuid),
            case tg_op when 'DELETE' then 'unpinned' else 'pinned' end, pin.turn_no,
            json_strip_nulls(json_build_object('kind', nullif(pin.kind, '')))
        );
    end if;
    return null;
end $$;
create constraint trigger tell after insert or delete on durable_context.pins
    deferrable initially deferred for each row execute function durable_context.tell_pin();

create function durable_context.tell_pause() returns trigger language plpgsql as $$
begin
    insert into durable_context.events (tenant, branch_uuid, event_no, kind, turn_no, data) values (
        new.tenant, new.branch_uuid, durable_context.next_event(new.branch_uuid),
        case when new.paused_at is null then 'resumed' else 'paused' end, new.head_turn, '{}'
    );
    return null;
end $$;
create constraint trigger tell_pause after update of paused_at on durable_context.branches
    deferrable initially deferred for each row when ((new.paused_at is null) <> (old.paused_at is null))
    execute function durable_context.tell_pause();

-- Retention alone deletes what is permanent, in a transaction that says so.
create or replace function durable_context.refuse_change() returns trigger language plpgsql as $$
begin
    if tg_op = 'DELETE' and current_setting('durable_context.retention', true) = 'on' then
        return case tg_level when 'ROW' then old end;
    end if;
    raise exception '% rows are immutable: % refused', tg_table_name, lower(tg_op) using errcode = 'DC001';
end $$;

-- What was written, hashed as it is written, so that verification can tell that it is still there. Null in rows from
-- before, and for what no other hash speaks for. Not of ids: an imported copy has others.

create function durable_context.hash_of(variadic p_texts text[]) returns bytea language sql stable as $$
    select sha256(string_agg(
        int8send(octet_length(coalesce(t.text, ''))) || convert_to(coalesce(t.text, ''), 'UTF8'), ''::bytea order by t.nth
    )) from unnest(p_texts) with ordinality t (text, nth)
$$;

alter table durable_context.turns add column stored_hash bytea;
alter table durable_context.summaries add column stored_hash bytea;
alter table durable_context.checkpoints add column stored_hash bytea;

create function durable_context.hash_turn() returns trigger language plpgsql as $$
begin
    new.stored_hash := durable_context.hash_of(
        encode(new.content_hash, 'hex'), new.messages::text, new.views::text, new.digest, new.ledger::text
    );
    return new;
end $$;
create function durable_context.hash_summary() returns trigger language plpgsql as $$
begin
    new.stored_hash := durable_context.hash_of(new.headline, new.text);
    return new;
end $$;
create function durable_context.hash_checkpoint() returns trigger language plpgsql as $$
begin
    new.stored_hash := durable_context.hash_of(new.text, new.sections::text, new.ledger::text);
    return new;
end $$;
create trigger hashed before insert on durable_context.turns
    for each row execute function durable_context.hash_turn();
create trigger hashed before insert on durable_context.summaries
    for each row execute function durable_context.hash_summary();
create trigger hashed before insert on durable_context.checkpoints
    for each row execute function durable_context.hash_checkpoint();
create trigger immutable_hash before update of stored_hash on durable_context.summaries
    for each row execute function durable_context.refuse_change();
create trigger immutable_hash before update of stored_hash on durable_context.checkpoints
    for each row execute function durable_context.refuse_change();

-- Findings of verification that stand: each was told by one event, and is told again only if it goes and comes back.
create table durable_context.damages (
    tenant text not null,
    branch_uuid uuid not null,
    hash bytea not null check (length(hash) = 32),
    finding json not null,
    primary key (branch_uuid, hash),
    foreign key (tenant, branch_uuid) references durable_context.branches (tenant, branch_uuid) on delete cascade
);

-- What retention finds its way by.
create index branches_by_parent on durable_context.branches (parent_uuid) where parent_uuid is not null;
create index lineage_by_ancestor on durable_context.lineage (ancestor_uuid);
create index summaries_retired on durable_context.summaries (tenant, branch_uuid, summary_id)
    where state <> 'current';
create index checkpoints_retired on durable_context.checkpoints (tenant, branch_uuid, checkpoint_id)
    where state <> 'current';
create index checkpoints_by_parent on durable_context.checkpoints (parent_id) where parent_id is not null;
create index summary_parts_by_age on durable_context.summary_parts (tenant, created_at);
create index turns_by_prompt_parts on durable_context.turns (tenant, prompt_parts_hash)
    where prompt_parts_hash is not null;
alter table durable_context.checkpoints
    drop constraint checkpoints_parent_id_fkey,
    add foreign key (parent_id) references durable_context.checkpoints (checkpoint_id) on delete set null;
-- First a default that is the same for all rows: they are not written anew.
alter table durable_context.prompt_parts add column created_at timestamptz not null default now();
alter table durable_context.prompt_parts alter column created_at set default clock_timestamp();

-- What is there already and about to be named is held until it is: retention leaves it, or was before, and then it is
-- inserted anew.
create function durable_context.hold_contents() returns trigger language plpgsql as $$
begin
    perform from durable_context.artifact_contents c
        where c.tenant = new.tenant and c.sha256 = new.sha256 for key share;
    return new;
end $$;
create trigger held before insert on durable_context.artifact_contents
    for each row execute function durable_context.hold_contents();
create function durable_context.hold_prompt_parts() returns trigger language plpgsql as $$
begin
    perform from durable_context.prompt_parts p where p.tenant = new.tenant and p.hash = new.hash for key share;
    return new;
end $$;
create trigger held before insert on durable_context.prompt_parts
    for each row execute function durable_context.hold_prompt_parts();
