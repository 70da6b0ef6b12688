"""Makes leaves and the nodes above them documents among the postings that retrieval ranks by: of a
leaf the terms of its raw turns, message by message, and of its summary; of a node its own.
"""

from uuid import UUID

from durable_context.database import Pool, acquired

LAST_PLACE = 32_767
"""Messages of a leaf beyond so many share the last place, which has two bytes."""
AT_ONCE = 20
"""Nodes indexed by one statement: however many were missed, each is a step."""

UNINDEXED = """exists (
    select from durable_context.summaries s
    where s.tenant = b.tenant and s.branch_uuid = b.branch_uuid and s.state = 'current'
        and s.published_in > b.indexed_publication
)"""
"""A condition on `branches b`: nodes of its own were published since it was indexed."""

_NEW_NODES = f"""
with nodes as materialized (
    select s.summary_id, s.level, s.from_turn, s.to_turn,
        to_tsvector(b.text_search, s.headline || ' ' || s.text) as terms
    from durable_context.branches b
    join durable_context.summaries s on s.tenant = b.tenant and s.branch_uuid = b.branch_uuid
    where b.tenant = $1 and b.branch_uuid = $2 and s.state = 'current' and s.to_turn <= $3
        and s.published_in > b.indexed_publication
        and not exists (
            select from durable_context.indexed_documents d
            where d.branch_uuid = $2 and d.to_turn = s.to_turn and d.level = s.level
                and d.artifact_no = 0 and d.summary_id = s.summary_id
        )
    order by s.to_turn, s.level limit {AT_ONCE}
),"""

# One that a fork still sees keeps out of the way of another that ends with the same turn.
_SET_ASIDE = """
    update durable_context.indexed_documents d set artifact_no = - d.from_turn from nodes n
    where d.tenant = $1 and d.branch_uuid = $2 and d.artifact_no = 0
        and d.to_turn = n.to_turn and d.level = n.level and d.from_turn <> n.from_turn
        and exists (
            select from durable_context.lineage l
            join durable_context.visible_summaries s on s.tenant = l.tenant
                and s.seen_by = l.branch_uuid and s.branch_uuid = l.ancestor_uuid
                and s.level = d.level and s.from_turn = d.from_turn and s.to_turn = d.to_turn
            where l.tenant = $1 and l.ancestor_uuid = $2 and l.depth > 0
        )
    returning d.to_turn, d.level, d.from_turn, d.summary_id, 0 as artifact_no
"""
_REPLACED = """
    delete from durable_context.indexed_documents d using nodes n
    where d.tenant = $1 and d.branch_uuid = $2 and d.artifact_no in (0, - n.from_turn)
        and d.to_turn = n.to_turn and d.level = n.level
    returning d.to_turn, d.level, d.from_turn, d.summary_id, d.artifact_no
"""

# A fork may find, by what its parent has rejected or replaced, what it still sees of it.
_REJECTED = """
    delete from durable_context.indexed_documents d
    where d.tenant = $1 and d.branch_uuid = $2 and d.artifact_no <= 0 and d.to_turn > (
        select coalesce(max(l.compacted_turn), 0) from durable_context.lineage l
        where l.tenant = $1 and l.ancestor_uuid = $2 and l.depth > 0
    ) and not exists (
        select from durable_context.summaries s
        where s.tenant = $1 and s.branch_uuid = $2 and s.state = 'current'
            and s.level = d.level and s.from_turn = d.from_turn and s.to_turn = d.to_turn
    )
    returning d.to_turn, d.level, d.from_turn, d.summary_id, d.artifact_no
"""

# No index leads from a document to its postings, but what it was made from does to its terms.
_CHANGE = """
gone as (
    {documents}
),
terms as materialized (
    select g.to_turn, g.level, g.artifact_no, u.lexeme as term from gone g cross join lateral (
        select t.message_terms from durable_context.visible_turns t
        where t.tenant = $1 and t.seen_by = $2 and t.turn_no between g.from_turn and g.to_turn
        offset 0
    ) t cross join unnest(t.message_terms) m (terms) cross join unnest(m.terms) u
    where g.level = 0
    union
    select g.to_turn, g.level, g.artifact_no, u.lexeme from gone g
    join durable_context.summaries s on s.tenant = $1 and s.branch_uuid = $2
        and s.summary_id = g.summary_id
    join durable_context.branches b on b.tenant = s.tenant and b.branch_uuid = s.branch_uuid
    cross join unnest(to_tsvector(b.text_search, s.headline || ' ' || s.text)) u
)
{postings} p.ctid = any (array(
    select p.place from terms t cross join lateral (
        select p.ctid as place from durable_context.postings p
        where p.branch_uuid = $2 and p.term = t.term and p.to_turn = t.to_turn
            and p.level = t.level and p.artifact_no = t.artifact_no
        offset 0
    ) p
))
"""

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
    select n.to_turn, n.level, n.from_turn, n.summary_id, l.length,
        case when n.level = 0 then coalesce(i.nth, 0) + rank() over leaf else 0 end as nth,
        case when n.level = 0 then coalesce(i.total_length, 0) + sum(l.length) over leaf else 0 end
            as total_length
    from nodes n cross join lateral (
        select coalesce(sum(l.length), 0) as length from counted_lengths l
        where l.to_turn = n.to_turn and l.level = n.level
    ) l left join lateral (
        select d.to_turn, d.nth, d.total_length from durable_context.indexed_documents d
        where d.branch_uuid = $2 and d.level = 0 and d.artifact_no = 0 and d.to_turn < n.to_turn
        order by d.to_turn desc limit 1
    ) i on n.level = 0
    window leaf as (partition by n.level, i.to_turn order by n.to_turn)
),
added as (
    insert into durable_context.indexed_documents (
        tenant, branch_uuid, to_turn, level, from_turn, summary_id, length, nth, total_length,
        turn_messages, message_lengths
    )
    select $1, $2, d.to_turn, d.level, d.from_turn, d.summary_id, d.length, d.nth, d.total_length,
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
        case when c.level = 0 then c.nth else 0 end, c.places
    from ( -- numbered before another attempt's leaves drop out
        select c.*, coalesce(p.nth, 0) + row_number() over (
            partition by c.term, c.level, p.to_turn order by c.to_turn
        ) as nth
        from counted c left join lateral (
            select p.to_turn, p.nth from durable_context.postings p
            where p.branch_uuid = $2 and p.term = c.term and p.level = 0 and p.artifact_no = 0
                and p.to_turn < c.to_turn
            order by p.to_turn desc limit 1
        ) p on c.level = 0
    ) c
    join added a on a.to_turn = c.to_turn and a.level = c.level
    on conflict (branch_uuid, term, to_turn, level, artifact_no) do update set
        frequency = excluded.frequency, length = excluded.length, nth = excluded.nth,
        places = excluded.places
)
select count(*) from nodes
"""

_FORGET = "delete from durable_context.postings p where"
_SET_REPLACED_ASIDE = _NEW_NODES + _CHANGE.format(
    documents=_SET_ASIDE,
    postings="""
update durable_context.postings p set artifact_no = - g.from_turn from gone g
where p.branch_uuid = $2 and p.to_turn = g.to_turn and p.level = g.level and""",
)
_FORGET_REPLACED = _NEW_NODES + _CHANGE.format(documents=_REPLACED, postings=_FORGET)
_FORGET_REJECTED = "with" + _CHANGE.format(documents=_REJECTED, postings=_FORGET)
_ADD_NODES = _NEW_NODES + _MESSAGES + _COUNTED
# Unless a later checkpoint is there by now, whose nodes were not looked at.
_NOTE_INDEXED = """
update durable_context.branches set indexed_publication = $3
where tenant = $1 and branch_uuid = $2 and indexed_publication < $3 and checkpoint_turn <= $4
"""


async def add_nodes(pool: Pool, tenant: str, branch_uuid: UUID, to_turn: int) -> None:
    """Index the published nodes up to this turn: those that are not in the index, and instead of
    what they replaced those that are there as they were.

    Idempotent: an indexed node is passed over. Interrupted, it keeps what it has done.
    """
    target = (tenant, branch_uuid)
    publication = await _publication(pool, *target)
    found = AT_ONCE
    while found == AT_ONCE:
        async with acquired(pool) as connection, connection.transaction():
            await connection.execute(_SET_REPLACED_ASIDE, *target, to_turn)
            await connection.execute(_FORGET_REPLACED, *target, to_turn)
            found = await connection.fetchval(_ADD_NODES, *target, to_turn)
    async with acquired(pool) as connection:
        await connection.execute(_NOTE_INDEXED, *target, publication, to_turn)


async def forget_rejected(pool: Pool, tenant: str, branch_uuid: UUID) -> None:
    """Take what no node and no fork needs out of the index."""
    async with acquired(pool) as connection:
        await connection.execute(_FORGET_REJECTED, tenant, branch_uuid)


async def _publication(pool: Pool, tenant: str, branch_uuid: UUID) -> int:
    async with acquired(pool) as connection:
        found = await connection.fetchval(
            "select publication from durable_context.branches"
            " where tenant = $1 and branch_uuid = $2",
            tenant,
            branch_uuid,
        )
    return -1 if found is None else found


async def unindexed(pool: Pool, tenant: str, branch_uuid: UUID) -> bool:
    """Whether a node of the branch's own is not in the index as it is."""
    async with acquired(pool) as connection:
        return await connection.fetchval(
            f"select {UNINDEXED} from durable_context.branches b"
            " where b.tenant = $1 and b.branch_uuid = $2",
            tenant,
            branch_uuid,
        )
