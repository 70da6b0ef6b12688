-- A turn follows the newest turn of its branch, or the fork, by the rows themselves. Before, the head that the branch row
-- tells of was asked, so that an import had to move it with every turn: 20,000 versions of one row in one transaction,
-- all of which each foreign key looked through.

create or replace function durable_context.check_turn_follows() returns trigger language plpgsql as $$
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
