"""Branches with nodes of their own that an upgrade makes anew: degraded ones, those of an outdated
recipe, and those made from nodes that were replaced since. Forks whose ancestors replaced what they
build on, too.
"""

from uuid import UUID

from durable_context.compaction.remembered import FAILED_LATELY, REVERTED
from durable_context.database import Pool, acquired
from durable_context.summarizers.extractive import RECIPE as EXTRACTIVE
from durable_context.sweeps.paging import DUE_AND_LAST, PAGE, DueBranch, Page, fetch_page

# $3: the recipe that summaries are made by now, whatever focus one was made with, which is no other
# recipe. $4: whether it asks a model; without one nothing takes the place of what a model wrote.
# Texts are hashed only where a child may be newer than its parent.
# What was skipped stays skipped until the branch is used again.
_OUTDATED = f"""
{PAGE},
marked as (
    select l.*, coalesce(nodes.tokens, 0) as tokens, false as is_unindexed,
        l.is_open and (coalesce(nodes.count, 0) > 0 or coalesce(fork.is_behind, false)) as is_due
    from looked_at l
    left join lateral (
        select count(*), sum(s.input_tokens)::bigint as tokens from durable_context.summaries s
        where s.tenant = l.tenant and s.branch_uuid = l.branch_uuid and s.state = 'current'
            and (
                (s.degraded or split_part(s.recipe, '+focus:', 1) <> $3)
                    and ($4 or s.made_by like 'extractive%' and s.made_by <> $3)
                    and not {REVERTED.format(recipe="$3")}
                or s.level > 0 and exists (
                    select from durable_context.visible_summaries c
                    where c.tenant = s.tenant and c.seen_by = s.branch_uuid
                        and c.level = s.level - 1 and c.from_turn >= s.from_turn
                        and c.to_turn <= s.to_turn
                        and (c.branch_uuid <> s.branch_uuid or c.published_in > s.published_in)
                ) and s.input_hash <> (
                    select sha256(int8send(5) || 'nodes'::bytea || coalesce(string_agg(
                        int8send(octet_length(c.headline)) || convert_to(c.headline, 'UTF8')
                        || int8send(octet_length(c.text)) || convert_to(c.text, 'UTF8'),
                        ''::bytea order by c.from_turn
                    ), ''::bytea))
                    from durable_context.visible_summaries c
                    where c.tenant = s.tenant and c.seen_by = s.branch_uuid
                        and c.level = s.level - 1 and c.from_turn >= s.from_turn
                        and c.to_turn <= s.to_turn
                )
            )
            and not {FAILED_LATELY.format(recipe="$3")}
            and not exists (
                select from durable_context.compactions k
                where k.tenant = s.tenant and k.branch_uuid = s.branch_uuid
                    and k.level = s.level and k.from_turn = s.from_turn and k.to_turn = s.to_turn
                    and k.status = 'skipped' and k.finished_at > l.used_at
            )
    ) nodes on l.is_open
    left join lateral (
        select exists (
            select from durable_context.lineage a
            join durable_context.summaries o
                on o.tenant = a.tenant and o.branch_uuid = a.ancestor_uuid
                and o.to_turn <= a.compacted_turn and o.state = 'superseded'
                and o.published_in <= a.publication and o.replaced_in > a.publication
            where a.tenant = l.tenant and a.branch_uuid = l.branch_uuid and a.depth > 0
        ) as is_behind
    ) fork on l.is_open and l.parent_uuid is not null
)
{DUE_AND_LAST}
"""

MOST_READS = 1_000
# Of the newest events of each branch, so that a long life costs no more than a short one.
_READS = f"""
select wanted.branch_uuid, (
    select count(*) from (
        select e.kind from durable_context.events e
        where e.tenant = wanted.tenant and e.branch_uuid = wanted.branch_uuid
        order by e.event_no desc limit {MOST_READS}
    ) newest where newest.kind = 'prepared'
) as reads
from unnest($1::text[], $2::uuid[]) wanted (tenant, branch_uuid)
"""


class OutdatedBranches:
    """`recipe`: by which summaries are made now."""

    def __init__(self, pool: Pool, tenant: str | None, recipe: str) -> None:
        self._pool = pool
        self._tenant = tenant
        self._recipe = recipe

    async def page(self, after: UUID) -> Page:
        asks_model = self._recipe != EXTRACTIVE
        return await fetch_page(
            self._pool, _OUTDATED, after, self._tenant, self._recipe, asks_model
        )


async def reads_of(pool: Pool, branches: list[DueBranch]) -> dict[UUID, int]:
    """How many prompts were prepared of each lately, 1,000 at most."""
    async with acquired(pool) as connection:
        rows = await connection.fetch(
            _READS,
            [branch.tenant for branch in branches],
            [branch.branch_uuid for branch in branches],
        )
    return {row["branch_uuid"]: row["reads"] for row in rows}
