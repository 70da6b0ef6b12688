-- What happens to a branch, as *events* numbered 1, 2, 3 ... that a reader follows with a cursor and misses none of.
--
-- Triggers on the rows an event tells of write it, in the same transaction: no code path can forget one, and an event is
-- there exactly if its change is. Only what changes no row is noted by note_event().
--
-- A number is given out under a lock that is held until the transaction ends, so that whoever sees event n + 1 sees
-- event n, and a transaction that is rolled back leaves no hole. The triggers are deferred: they run when everything else
-- of the transaction is done, and this lock is the last it takes. Therefore it can be in no deadlock, whatever order rows
-- were locked in (publishing locks a branch and then its compaction; giving a compaction up locks it alone), and writers
-- of one branch wait for each other only while they commit. That is also why it is not the branch row's lock. A fork
-- takes two, its parent's and then its own, for which nobody can wait yet.

create table durable_context.events (
    tenant text not null,
    branch_uuid uuid not null,
    event_no bigint not null check (event_no >= 1),
    kind text not null check (kind in (
        'prepared', 'recorded', 'offloaded', 'put', 'over_budget', 'compaction_started', 'compaction_completed',
        'compaction_failed', 'compaction_skipped', 'forked'
    )),
    turn_no integer check (turn_no >= 0),
    at timestamptz not null default clock_timestamp(),
    -- Figures and ids, never content. Those of `prepared` are in the turn's manifest, and are read from there.
    data json not null,
    schema_version smallint not null default 1,
    primary key (branch_uuid, event_no),
    foreign key (tenant, branch_uuid) references durable_context.branches (tenant, branch_uuid)
);

create trigger immutable before update or delete or truncate on durable_context.events
    for each statement execute function durable_context.refuse_change();

-- 4 is a seed: it tells this use of the hash from others that lock by it.
create function durable_context.next_event(p_branch uuid) returns bigint language plpgsql as $$
begin
    perform pg_advisory_xact_lock(uuid_hash_extended(p_branch, 4));
    return 1 + coalesce((
        select e.event_no from durable_context.events e where e.branch_uuid = p_branch order by e.event_no desc limit 1
    ), 0);
end $$;

create function durable_context.tell_turn() returns trigger language plpgsql as $$
declare
    event_no bigint := durable_context.next_event(new.branch_uuid);
begin
    if new.manifest is not null then
        insert into durable_context.events (tenant, branch_uuid, event_no, kind, turn_no, data)
            values (new.tenant, new.branch_uuid, event_no, 'prepared', new.turn_no, '{}');
        event_no := event_no + 1;
    end if;
    insert into durable_context.events (tenant, branch_uuid, event_no, kind, turn_no, data) values (
        new.tenant, new.branch_uuid, event_no, 'recorded', new.turn_no, json_build_object(
            'token_count', new.token_count, 'stored_tokens', new.stored_tokens, 'outcome', new.outcome,
            'continues', new.continues, 'artifacts', new.artifact_count
        )
    );
    return null;
end $$;

create function durable_context.tell_artifact() returns trigger language plpgsql as $$
begin
    insert into durable_context.events (tenant, branch_uuid, event_no, kind, turn_no, data) values (
        new.tenant, new.branch_uuid, durable_context.next_event(new.branch_uuid),
        case new.source when 'put' then 'put' else 'offloaded' end, new.turn_no, json_strip_nulls(json_build_object(
            'handle', new.handle, 'source', new.source, 'name', new.name, 'version', new.version,
            'media_type', new.media_type, 'size', new.size, 'token_count', new.token_count
        ))
    );
    return null;
end $$;

create function durable_context.tell_compaction() returns trigger language plpgsql as $$
begin
    insert into durable_context.events (tenant, branch_uuid, event_no, kind, turn_no, data) values (
        new.tenant, new.branch_uuid, durable_context.next_event(new.branch_uuid),
        case new.status when 'running' then 'compaction_started' else 'compaction_' || new.status end, new.to_turn,
        json_strip_nulls(json_build_object(
            'compaction_id', new.compaction_id, 'from_turn', new.from_turn, 'to_turn', new.to_turn,
            'reason', new.reason, 'attempts', new.attempts, 'recipe', new.recipe,
            'tokens_before', new.tokens_before, 'tokens_after', new.tokens_after, 'error', left(new.error, 1000)
        ))
    );
    return null;
end $$;

-- One event for the parent, one for the child.
create function durable_context.tell_fork() returns trigger language plpgsql as $$
begin
    insert into durable_context.events (tenant, branch_uuid, event_no, kind, turn_no, data) values (
        new.tenant, new.parent_uuid, durable_context.next_event(new.parent_uuid), 'forked', new.fork_turn,
        json_build_object('child_id', new.branch_id, 'child_uuid', new.branch_uuid)
    );
    insert into durable_context.events (tenant, branch_uuid, event_no, kind, turn_no, data)
    select new.tenant, new.branch_uuid, durable_context.next_event(new.branch_uuid), 'forked', new.fork_turn,
        json_build_object(
            'parent_id', p.branch_id, 'parent_uuid', p.branch_uuid, 'checkpoint_turn', new.checkpoint_turn
        )
    from durable_context.branches p where p.branch_uuid = new.parent_uuid;
    return null;
end $$;

create constraint trigger tell after insert on durable_context.turns
    deferrable initially deferred for each row execute function durable_context.tell_turn();
create constraint trigger tell after insert on durable_context.artifacts
    deferrable initially deferred for each row execute function durable_context.tell_artifact();
create constraint trigger tell_beginning after insert on durable_context.compactions
    deferrable initially deferred for each row execute function durable_context.tell_compaction();
create constraint trigger tell_end after update of status on durable_context.compactions
    deferrable initially deferred for each row when (new.status <> old.status)
    execute function durable_context.tell_compaction();
create constraint trigger tell after insert on durable_context.branches
    deferrable initially deferred for each row when (new.parent_uuid is not null)
    execute function durable_context.tell_fork();

-- Notes what changes no row. p_at: when it happened, which may be a while ago; now by default.
create function durable_context.note_event(
    p_tenant text, p_branch uuid, p_kind text, p_turn_no integer, p_at timestamptz, p_data json
) returns bigint language plpgsql as $$
declare
    event_no bigint := durable_context.next_event(p_branch);
begin
    if p_kind not in ('over_budget', 'compaction_skipped') then
        raise exception '% events are written by triggers alone', p_kind using errcode = 'DC005';
    end if;
    insert into durable_context.events (tenant, branch_uuid, event_no, kind, turn_no, at, data)
        values (p_tenant, p_branch, event_no, p_kind, p_turn_no, coalesce(p_at, clock_timestamp()), p_data);
    return event_no;
end $$;
