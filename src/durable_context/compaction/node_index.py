"""Makes leaves and the nodes above them documents among the postings that retrieval ranks by: of a
leaf the terms of its raw turns, message by message, and of its summary; of a node its own.
"""

from uuid import UUID

from durable_context.database import Pool, acquired

LAST_PLACE = 32_767
"""Messages of a leaf beyond so many share the last place, which has two bytes."""
AT_ONCE = 20
"""Nodes indexed by one statement: however many were missed, each is a step."""

_NEW_NODES = f"""
with indexed as (
    select coalesce(max(i.to_turn), 0) as to_turn, coalesce(max(i.nth), 0) as leaves,
        coalesce(max(i.total_length), 0) as total_length
    from durable_context.indexed_documents i
    where i.tenant = $1 and i.branch_uuid = $2 and i.artifact_no = 0 and i.level = 0
),
nodes as materialized (
    select s.level, s.from_turn, s.to_turn,
        to_tsvector(b.text_search, s.headline || ' ' || s.text) as terms
    from indexed i cross join durable_context.branches b
    join durable_context.summaries s on s.tenant = b.tenant and s.branch_uuid = b.branch_uuid
    where b.tenant = $1 and b.branch_uuid = $2 and s.state = 'current'
        and s.to_turn <= $4 and s.to_turn > least($3 - 1, i.to_turn)
        and not exists (
            select from durable_context.indexed_documents d
            where d.branch_uuid = $2 and d.to_turn = s.to_turn and d.level = s.level
                and d.artifact_no = 0
        )
    order by s.to_turn, s.level limit {AT_ONCE}
),"""

_MESSAGES = """
turns as materialized (
    select n.to_turn, t.turn_no, t.message_terms
    from nodes n cross join lateral ( -- offset: or the planner, which expects many nodes, reads all
        select t.turn_no, t.message_terms from durable_context.visible_turns t
        where t.tenant = $1 and t.seen_by = $2 and t.turn_no between n.from_turn and n.to_turn
        offset 0
    ) t
    where n.level = 0
),
messages as materialized (
    select t.to_turn, t.turn_no, m.terms,
        row_number() over (partition by t.to_turn order by t.turn_no, m.message_no) as place
    from turns t cross join unnest(t.message_terms) with ordinality m (terms, message_no)
),
lengths as (
    select m.to_turn, array_agg((
        select coalesce(sum(coalesce(cardinality(u.positions), 1)), 0)::integer
        from unnest(m.terms) u
    ) order by m.place) as message_lengths
    from messages m group by m.to_turn
),
turn_lengths as (
    select t.to_turn,
        array_agg(cardinality(t.message_terms) order by t.turn_no) as turn_messages
    from turns t group by t.to_turn
),"""

_COUNTED = f"""
counted as materialized (
    select c.to_turn, c.level, c.term,
        coalesce(sum(c.frequency) filter (where c.place > 0), max(c.frequency)) as frequency,
        coalesce(string_agg(int2send(c.place), '' order by c.place) filter (where c.place > 0), '')
            as places
    from (
        select m.to_turn, 0 as level, u.lexeme as term,
            sum(coalesce(cardinality(u.positions), 1)) as frequency,
            least(m.place, {LAST_PLACE})::smallint as place
        from messages m cross join unnest(m.terms) u
        group by m.to_turn, u.lexeme, least(m.place, {LAST_PLACE})
        union all
        select n.to_turn, n.level, u.lexeme, coalesce(cardinality(u.positions), 1), 0::smallint
        from nodes n cross join unnest(n.terms) u
    ) c
    group by c.to_turn, c.level, c.term
),
counted_lengths as materialized (
    select c.to_turn, c.level, sum(c.frequency) as length from counted c group by c.to_turn, c.level
),
documents as (
    select n.to_turn, n.level, n.from_turn, l.length,
        case when n.level = 0 then i.leaves + rank() over leaf else 0 end as nth,
        case when n.level = 0 then i.total_length + sum(l.length) over leaf else 0 end
            as total_length
    from indexed i cross join nodes n cross join lateral (
        select coalesce(sum(l.length), 0) as length from counted_lengths l
        where l.to_turn = n.to_turn and l.level = n.level
    ) l
    window leaf as (partition by n.level order by n.to_turn)
),
added as (
    insert into durable_context.indexed_documents (
        tenant, branch_uuid, to_turn, level, from_turn, length, nth, total_length, turn_messages,
        message_lengths
    )
    select $1, $2, d.to_turn, d.level, d.from_turn, d.length, d.nth, d.total_length,
        case when d.level = 0 then coalesce(t.turn_messages, '{{}}') else '{{}}' end,
        case when d.level = 0 then coalesce(l.message_lengths, '{{}}') else '{{}}' end
    from documents d
    left join turn_lengths t on t.to_turn = d.to_turn
    left join lengths l on l.to_turn = d.to_turn
    on conflict do nothing
    returning to_turn, level, length
),
posted as (
    insert into durable_context.postings (
        branch_uuid, term, to_turn, level, frequency, length, nth, places
    )
    select $2, c.term, c.to_turn, c.level, least(c.frequency, 32767), a.length,
        case when c.level = 0 then coalesce(p.nth, 0) + c.number else 0 end, c.places
    from ( -- numbered before another attempt's leaves drop out
        select *, row_number() over (partition by term, level order by to_turn) as number
        from counted
    ) c
    join added a on a.to_turn = c.to_turn and a.level = c.level
    left join lateral (
        select p.nth from durable_context.postings p
        where p.branch_uuid = $2 and p.term = c.term and p.level = 0 and p.artifact_no = 0
        order by p.to_turn desc limit 1
    ) p on c.level = 0
)
select count(*) from nodes
"""

_ADD_NODES = _NEW_NODES + _MESSAGES + _COUNTED


async def add_nodes(
    pool: Pool, tenant: str, branch_uuid: UUID, from_turn: int, to_turn: int
) -> None:
    """Index the published nodes that end inside these turns, and any before them that were missed.

    Idempotent: an indexed node is passed over. Interrupted, it keeps what it has done.
    """
    while True:
        async with acquired(pool) as connection:
            found = await connection.fetchval(_ADD_NODES, tenant, branch_uuid, from_turn, to_turn)
        if found < AT_ONCE:
            return
