"""Adds leaves to the postings that retrieval ranks by: terms of raw turns and of the summary."""

from uuid import UUID

from durable_context.database import Pool, acquired

_ADD_LEAVES = """
with leaves as (
    select s.from_turn, s.to_turn, to_tsvector(b.text_search, s.headline || ' ' || s.text) as terms
    from durable_context.summaries s
    join durable_context.branches b on b.tenant = s.tenant and b.branch_uuid = s.branch_uuid
    where s.tenant = $1 and s.branch_uuid = $2 and s.level = 0 and s.state = 'current'
      and s.to_turn <= $4
      and s.from_turn >= least($3, (
          select coalesce(max(i.to_turn), 0) + 1 from durable_context.indexed_documents i
          where i.tenant = $1 and i.branch_uuid = $2 and i.artifact_no = 0
      ))
),
sources as (
    select from_turn, to_turn, terms from leaves
    union all
    select l.from_turn, l.to_turn, t.terms
    from leaves l
    join durable_context.visible_turns t on t.tenant = $1 and t.seen_by = $2
        and t.turn_no between l.from_turn and l.to_turn
),
counted as (
    select s.to_turn, s.from_turn, u.lexeme, sum(coalesce(cardinality(u.positions), 1)) as frequency
    from sources s cross join unnest(s.terms) u
    group by s.to_turn, s.from_turn, u.lexeme
),
added as (
    insert into durable_context.indexed_documents (tenant, branch_uuid, to_turn, from_turn, length)
    select $1, $2, l.to_turn, l.from_turn, coalesce(sum(c.frequency), 0)
    from leaves l left join counted c on c.to_turn = l.to_turn
    group by l.to_turn, l.from_turn
    on conflict do nothing
    returning to_turn, length
),
posted as (
    insert into durable_context.postings (branch_uuid, term, to_turn, from_turn, frequency, length)
    select $2, c.lexeme, c.to_turn, c.from_turn, least(c.frequency, 32767), a.length
    from counted c join added a on a.to_turn = c.to_turn
)
update durable_context.branches b set
    indexed_documents = b.indexed_documents + total.leaves,
    indexed_terms = b.indexed_terms + total.terms
from (select count(*) as leaves, coalesce(sum(length), 0) as terms from added) total
where b.tenant = $1 and b.branch_uuid = $2 and total.leaves > 0
"""


async def add_leaves(
    pool: Pool, tenant: str, branch_uuid: UUID, from_turn: int, to_turn: int
) -> None:
    """Index the published leaves inside these turns, and any before them that were missed.

    Idempotent: an indexed leaf is passed over.
    """
    async with acquired(pool) as connection:
        await connection.execute(_ADD_LEAVES, tenant, branch_uuid, from_turn, to_turn)
