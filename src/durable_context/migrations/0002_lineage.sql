-- A branch that was forked reads what its ancestors wrote, and writes only rows of its own.
--
-- *Lineage* says, for each branch, which rows of which ancestor are its own too; it is written once, when the branch is
-- made, and has one row per ancestor, so that a fork costs the same at turn 10 and at turn 100,000. The views
-- visible_* are what a branch sees: `seen_by` is the branch that reads, branch_uuid the one that wrote.
--
-- A child starts from the newest checkpoint of its lineage that leaves it raw turns (branches.checkpoint_turn), and
-- takes up no checkpoint or summary that an ancestor publishes later. What its own compaction makes are rows of the child.

alter table durable_context.turns
    -- Of the branch after this turn, so that a fork made here need not count.
    add column head_tokens bigint,
    add column open_run_turn integer;

alter table durable_context.turns disable trigger immutable;
update durable_context.turns t set
    head_tokens = c.head_tokens,
    open_run_turn = case when t.continues then c.run_turn end
from (
    select branch_uuid, turn_no,
        sum(token_count) over earlier as head_tokens,
        -- A run begins with a user message, or after a turn that closed the one before.
        coalesce(max(case
            when not continues then turn_no + 1
            when messages::text like '[{"role":"user"%' then turn_no
        end) over earlier, 1) as run_turn
    from durable_context.turns
    window earlier as (partition by branch_uuid order by turn_no)
) c
where c.branch_uuid = t.branch_uuid and c.turn_no = t.turn_no;
alter table durable_context.turns enable trigger immutable;
alter table durable_context.turns alter column head_tokens set not null;

-- Artifacts are to be among the documents that retrieval ranks.
alter table durable_context.indexed_leaves rename to indexed_documents;
alter table durable_context.branches rename column indexed_leaves to indexed_documents;

create table durable_context.lineage (
    tenant text not null,
    branch_uuid uuid not null,
    depth integer not null check (depth >= 0),
    ancestor_uuid uuid not null,
    -- Turns the ancestor recorded itself and the branch sees; none where from_turn > to_turn.
    from_turn integer not null,
    to_turn integer not null,
    -- Checkpoints and summaries of the ancestor that end here or before are the branch's too.
    compacted_turn integer not null,
    primary key (branch_uuid, depth),
    unique (branch_uuid, ancestor_uuid),
    foreign key (tenant, branch_uuid) references durable_context.branches (tenant, branch_uuid),
    foreign key (tenant, ancestor_uuid) references durable_context.branches (tenant, branch_uuid)
);

create function durable_context.add_lineage() returns trigger language plpgsql as $$
begin
    insert into durable_context.lineage (
        tenant, branch_uuid, depth, ancestor_uuid, from_turn, to_turn, compacted_turn
    )
    select new.tenant, new.branch_uuid, 0, new.branch_uuid, coalesce(new.fork_turn, 0) + 1, 2147483647, 2147483647
    union all
    select new.tenant, new.branch_uuid, l.depth + 1, l.ancestor_uuid, l.from_turn,
        least(l.to_turn, new.fork_turn), least(l.compacted_turn, new.checkpoint_turn)
    from durable_context.lineage l
    where l.tenant = new.tenant and l.branch_uuid = new.parent_uuid;
    return null;
end $$;

insert into durable_context.lineage (
    tenant, branch_uuid, depth, ancestor_uuid, from_turn, to_turn, compacted_turn
)
select tenant, branch_uuid, 0, branch_uuid, 1, 2147483647, 2147483647 from durable_context.branches;

create trigger lineage after insert on durable_context.branches
    for each row execute function durable_context.add_lineage();

create view durable_context.visible_turns as
    select l.branch_uuid as seen_by, t.*
    from durable_context.lineage l
    join durable_context.turns t on t.tenant = l.tenant and t.branch_uuid = l.ancestor_uuid
        and t.turn_no between l.from_turn and l.to_turn;

create view durable_context.visible_summaries as
    select l.branch_uuid as seen_by, s.*
    from durable_context.lineage l
    join durable_context.summaries s on s.tenant = l.tenant and s.branch_uuid = l.ancestor_uuid
        and s.to_turn <= l.compacted_turn
    where s.state = 'current';

create view durable_context.visible_checkpoints as
    select l.branch_uuid as seen_by, c.*
    from durable_context.lineage l
    join durable_context.checkpoints c on c.tenant = l.tenant and c.branch_uuid = l.ancestor_uuid
        and c.turn_no <= l.compacted_turn;

-- Turn of the newest checkpoint that a branch sees at or before a turn, 0 if there is none. One index probe per ancestor.
create function durable_context.newest_checkpoint(p_branch uuid, p_turn integer)
returns integer language sql stable as $$
    select coalesce(max(n.turn_no), 0)
    from durable_context.lineage l, lateral (
        select c.turn_no from durable_context.checkpoints c
        where c.branch_uuid = l.ancestor_uuid and c.turn_no <= least(l.compacted_turn, p_turn)
        order by c.turn_no desc limit 1
    ) n
    where l.branch_uuid = p_branch
$$;

-- A branch of its own at a turn of the parent, in one statement. Nothing is copied but the lineage.
-- status: forked | repeated (the same fork is there) | unknown_branch | no_such_turn | id_taken.
-- The parent's number of indexed documents, and their length, stand for those of the inherited ones: ranking needs no
-- more than their order of magnitude.
create function durable_context.fork_branch(
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
            checkpoint_turn, checkpoint_tokens, open_run_turn, indexed_documents, indexed_terms
        ) values (
            p_tenant, parent.conversation_id, p_branch_id, p_parent, fork_branch.fork_turn, parent.encoding,
            parent.text_search, fork_branch.fork_turn, last.head_tokens, base, base_tokens, last.open_run_turn,
            parent.indexed_documents, parent.indexed_terms
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

-- What follows makes it impossible that rows of a branch change what its ancestors or siblings read.

-- By the rows themselves: the head of the branch row moves after them, for an import once for all.
create function durable_context.check_turn_follows() returns trigger language plpgsql as $$
declare
    newest integer;
begin
    select coalesce((
        select t.turn_no from durable_context.turns t
        where t.branch_uuid = new.branch_uuid order by t.turn_no desc limit 1
    ), b.fork_turn, 0) into newest
        from durable_context.branches b where b.tenant = new.tenant and b.branch_uuid = new.branch_uuid;
    if new.turn_no is distinct from newest + 1 then
        raise exception 'turn % does not follow turn % of its branch', new.turn_no, newest using errcode = 'DC003';
    end if;
    return new;
end $$;

create trigger follows before insert on durable_context.turns
    for each row execute function durable_context.check_turn_follows();

-- A fork begins as its parent stood at that turn, with a checkpoint that the parent sees.
create function durable_context.check_fork() returns trigger language plpgsql as $$
begin
    if not exists (
        select from durable_context.branches p
        where p.tenant = new.tenant and p.branch_uuid = new.parent_uuid
            and p.conversation_id = new.conversation_id and p.encoding = new.encoding
            and p.text_search = new.text_search and new.fork_turn <= p.head_turn
    ) or new.head_turn <> new.fork_turn or new.checkpoint_turn > new.fork_turn
    or new.checkpoint_turn <> 0 and not exists (
        select from durable_context.visible_checkpoints c
        where c.tenant = new.tenant and c.seen_by = new.parent_uuid and c.turn_no = new.checkpoint_turn
    ) then
        raise exception 'the branch is no fork of its parent at turn %', new.fork_turn using errcode = 'DC004';
    end if;
    return new;
end $$;

create trigger of_parent before insert on durable_context.branches
    for each row when (new.parent_uuid is not null) execute function durable_context.check_fork();

create trigger permanent before delete or truncate on durable_context.prompt_parts
    for each statement execute function durable_context.refuse_change();
create trigger permanent_state before update of state on durable_context.summaries
    for each row when (new.state = 'draft' and old.state <> 'draft')
    execute function durable_context.refuse_change();

create trigger immutable before update of
    branch_uuid, tenant, conversation_id, branch_id, parent_uuid, fork_turn, encoding, text_search, created_at
    on durable_context.branches
    for each row execute function durable_context.refuse_change();
create trigger permanent before delete or truncate on durable_context.branches
    for each statement execute function durable_context.refuse_change();
create trigger immutable before update or delete or truncate on durable_context.lineage
    for each statement execute function durable_context.refuse_change();
create trigger derived before insert on durable_context.lineage -- only by the trigger on branches
    for each statement when (pg_trigger_depth() = 0) execute function durable_context.refuse_change();

-- Only nodes that the branch sees, and a parent that it sees: never a sibling's, never one that straddles the fork.
create function durable_context.check_checkpoint_is_of_lineage() returns trigger language plpgsql as $$
begin
    if (
        select count(*) from durable_context.visible_summaries s
        where s.tenant = new.tenant and s.seen_by = new.branch_uuid and s.summary_id = any(new.frontier)
            and s.to_turn <= new.turn_no
    ) <> cardinality(new.frontier) then
        raise exception 'the frontier at turn % has nodes that its branch does not see', new.turn_no
            using errcode = 'DC004';
    end if;
    if durable_context.newest_checkpoint(new.branch_uuid, 2147483647) >= new.turn_no then
        raise exception 'the lineage has a checkpoint at turn % or after it', new.turn_no using errcode = 'DC004';
    end if;
    if new.parent_id is not null and not exists (
        select from durable_context.visible_checkpoints c
        where c.tenant = new.tenant and c.seen_by = new.branch_uuid and c.checkpoint_id = new.parent_id
            and c.turn_no < new.turn_no
    ) then
        raise exception 'the parent of the checkpoint at turn % is none that its branch sees', new.turn_no
            using errcode = 'DC004';
    end if;
    return new;
end $$;

create trigger of_lineage before insert on durable_context.checkpoints
    for each row execute function durable_context.check_checkpoint_is_of_lineage();

-- Whoever publishes holds the lock of the branch row, so that this look at the others is not a race.
create or replace function durable_context.refuse_overlap() returns trigger language plpgsql as $$
begin
    if exists (
        select from durable_context.visible_summaries s
        where s.tenant = new.tenant and s.seen_by = new.branch_uuid and s.level = new.level
          and s.summary_id <> new.summary_id
          and s.from_turn <= new.to_turn and s.to_turn >= new.from_turn
    ) then
        raise exception 'level % nodes overlap at turns %..%', new.level, new.from_turn, new.to_turn
            using errcode = 'DC002';
    end if;
    return new;
end $$;
