"""The merge sweep and the upgrade sweep: what they start, in which order, within which budget."""

import asyncpg

from durable_context import Branch, ContextClient
from durable_context.compaction.store import CompactionStore
from durable_context.contracts.sweep import SweepPosition
from durable_context.database import Pool
from durable_context.errors import SummarizerRejected
from durable_context.summarizers.chain import SummarizerChain
from durable_context.summarizers.extractive import ExtractiveSummarizer
from durable_context.sweeps.outdated import OutdatedBranches
from durable_context.sweeps.paging import FIRST, DueBranch
from durable_context.sweeps.starting import Outcome
from durable_context.sweeps.upgrading import LEAST_SHARE, sweep_upgrades
from tests.compacting import compact_all
from tests.compaction.scripted import ScriptedSummarizer
from tests.sweeps.sweeping import Sweeps
from tests.turns import chat, numbered
from tests.workflows.orchestration import QUICK

WIDE = QUICK.model_copy(update={"fan_out": 16})
NARROW = QUICK.model_copy(update={"fan_out": 3, "summary_max_tokens": 50})
OLDER, NEWER = ScriptedSummarizer(recipe="scripted/1"), "scripted/2"


async def compacted(
    client: ContextClient, pool: Pool, name: str = "talk", turns: int = 32
) -> Branch:
    """Five leaves side by side, made by the older recipe."""
    branch = await client.open_branch(name)
    for turn in range(1, turns + 1):
        words = f"Parcel {turn} of {name} was weighed, labelled and sent on to Lyon. " * 4
        await branch.record_turn(chat(f"What became of parcel {turn}?", words))
    await compact_all(pool, branch.branch_uuid, WIDE, OLDER)
    return branch


async def frontier(branch: Branch) -> list[tuple[int, int, int]]:
    return [(one.level, one.from_turn, one.to_turn) for one in (await branch.inspect()).frontier]


async def recipes(branch: Branch) -> set[str]:
    return {one.recipe for one in (await branch.inspect()).frontier}


async def candidates(pool: Pool, recipe: str = NEWER) -> list[DueBranch]:
    return (await OutdatedBranches(pool, None, recipe).page(FIRST)).due


class Started:
    """Takes down what is started."""

    def __init__(self) -> None:
        self.branches: list[DueBranch] = []

    async def __call__(self, branch: DueBranch) -> Outcome:
        self.branches.append(branch)
        return "started"


async def test_the_schedule_merges_what_piled_up(
    client: ContextClient, pool: Pool, sweeps: Sweeps
) -> None:
    branch = await compacted(client, pool)
    few = await compacted(client, pool, "few", turns=14)
    assert len(await frontier(branch)) == 5 and len(await frontier(few)) == 2
    async with sweeps.worker(pool):
        await sweeps.schedules.apply(sweeps.settings("merge", policy=NARROW))
        result = await sweeps.fired("merge")
        await sweeps.rebuilt(branch)
    assert (result.counts.scanned, result.counts.due, result.counts.started) == (2, 1, 1)
    assert await frontier(branch) == [(1, 1, 18), (0, 19, 24), (0, 25, 30)]


async def test_a_merge_that_cannot_pay_is_not_started_again_until_the_branch_is_used(
    client: ContextClient,
    pool: Pool,
    sweeps: Sweeps,
    connection: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    branch = await compacted(client, pool)
    await connection.execute(
        "update durable_context.branches set last_turn_at = now() - interval '40 days'"
    )
    async with sweeps.worker(pool):
        first = await sweeps.sweep("merge", policy=NARROW)
        await sweeps.rebuilt(branch)
        second = await sweeps.sweep("merge", policy=NARROW)
        assert len(await frontier(branch)) == 5
        await branch.record_turn(chat("And now?", "It is in Lyon."))
        third = await sweeps.sweep("merge", policy=NARROW)
        await sweeps.rebuilt(branch)
    assert [one.counts.started for one in (first, second, third)] == [1, 0, 1]
    assert len(await frontier(branch)) == 3


async def test_the_upgrade_schedule_is_paused_and_makes_anew_what_is_outdated_when_triggered(
    client: ContextClient, pool: Pool, sweeps: Sweeps
) -> None:
    branch = await compacted(client, pool)
    async with sweeps.worker(pool, ScriptedSummarizer(recipe=NEWER)):
        await sweeps.schedules.apply(sweeps.settings("upgrade"))
        assert await recipes(branch) == {"scripted/1"}
        await sweeps.schedules.trigger("upgrade")
        result = await sweeps.fired("upgrade")
        await sweeps.rebuilt(branch)
        again = await sweeps.sweep("upgrade")
    assert (result.counts.due, result.counts.started) == (1, 1)
    assert result.counts.tokens > 0
    assert again.counts.due == 0
    assert await recipes(branch) == {NEWER}
    [upgrade] = (await sweeps.schedules.all())[2:3]
    assert upgrade.paused and upgrade.last_status == "completed"
    assert upgrade.last_result == result


async def test_a_fork_takes_over_what_its_parent_replaced_with_the_next_upgrade(
    client: ContextClient, pool: Pool, sweeps: Sweeps
) -> None:
    branch = await compacted(client, pool)
    fork = await branch.fork("child", at_turn=32)
    assert [one.branch_uuid for one in await candidates(pool)] == [branch.branch_uuid]
    async with sweeps.worker(pool, ScriptedSummarizer(recipe=NEWER)):
        await sweeps.sweep("upgrade")
        await sweeps.rebuilt(branch)
        assert await recipes(fork) == {"scripted/1"}
        assert [one.branch_uuid for one in await candidates(pool)] == [fork.branch_uuid]
        await sweeps.sweep("upgrade")
        await sweeps.rebuilt(fork)
    assert await recipes(fork) == {NEWER}
    assert await candidates(pool) == []


async def test_a_worker_without_a_model_replaces_nothing_that_a_model_wrote(
    client: ContextClient, pool: Pool, sweeps: Sweeps
) -> None:
    await compacted(client, pool)
    async with sweeps.worker(pool):
        assert (await sweeps.sweep("upgrade")).counts.due == 0


async def test_a_degraded_node_is_upgraded_though_its_recipe_is_the_present_one(
    client: ContextClient, pool: Pool
) -> None:
    branch = await compacted(client, pool)
    assert await candidates(pool, OLDER.recipe) == []
    statement = "update durable_context.summaries set degraded = true where from_turn = 7"
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute("alter table durable_context.summaries disable trigger immutable")
        await connection.execute(statement)
        await connection.execute("alter table durable_context.summaries enable trigger immutable")
    [due] = await candidates(pool, OLDER.recipe)
    assert (due.branch_uuid, due.tokens > 0) == (branch.branch_uuid, True)


async def test_what_a_chain_came_down_to_is_made_anew_once_its_model_answers(
    client: ContextClient, pool: Pool, sweeps: Sweeps
) -> None:
    model = ScriptedSummarizer(SummarizerRejected("bad key"), recipe=NEWER)
    chain = SummarizerChain([model, ExtractiveSummarizer()])
    branch = await client.open_branch("talk")
    for turn in range(1, 9):
        await branch.record_turn(numbered(turn))
    await compact_all(pool, branch.branch_uuid, WIDE, chain)
    [before] = (await branch.inspect()).frontier
    assert before.degraded
    async with sweeps.worker(pool, chain):
        first = await sweeps.sweep("upgrade")
        await sweeps.rebuilt(branch)
        again = await sweeps.sweep("upgrade")
    [after] = (await branch.inspect()).frontier
    assert (first.counts.due, again.counts.due) == (1, 0)
    assert (after.made_by, after.degraded) == (NEWER, False)


async def test_the_newest_and_most_read_come_first_while_the_budget_lasts(
    client: ContextClient, pool: Pool, connection: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    branches = {
        name: await compacted(client, pool, name)
        for name in ("old", "seldom read", "often read", "newest")
    }
    days = {"old": 9, "seldom read": 3, "often read": 3, "newest": 0}
    for name, branch in branches.items():
        await connection.execute(
            "update durable_context.branches set last_turn_at ="
            " date_trunc('day', now()) - $2 * interval '1 day' where branch_uuid = $1",
            branch.branch_uuid,
            days[name],
        )
    await connection.execute(
        "insert into durable_context.events (tenant, branch_uuid, event_no, kind, turn_no, data)"
        " select 'default', $1, 10000 + n, 'prepared', 32, '{}' from generate_series(1, 50) n",
        branches["often read"].branch_uuid,
    )
    names = {branch.branch_uuid: name for name, branch in branches.items()}
    pages = OutdatedBranches(pool, None, NEWER)
    started = Started()
    done = await sweep_upgrades(
        pool, pages, started, SweepPosition(), lambda position: None, 1_000_000
    )
    assert [names[one.branch_uuid] for one in started.branches] == [
        *("newest", "often read", "seldom read", "old")
    ]
    share = started.branches[0].tokens
    assert share >= LEAST_SHARE
    assert done.counts.tokens == sum(one.tokens for one in started.branches)
    started = Started()
    done = await sweep_upgrades(
        pool, pages, started, SweepPosition(), lambda position: None, share + 100
    )
    assert [one.tokens for one in started.branches] == [share, 100]
    assert (done.counts.due, done.counts.started, done.counts.skipped) == (4, 2, 2)
    assert done.counts.tokens == share + 100


async def test_what_an_interrupted_upgrade_allotted_is_spent(
    client: ContextClient, pool: Pool
) -> None:
    for name in ("one", "another"):
        await compacted(client, pool, name)
    told: list[SweepPosition] = []
    pages = OutdatedBranches(pool, None, NEWER)
    await sweep_upgrades(pool, pages, Started(), SweepPosition(), told.append, 2 * LEAST_SHARE)
    spent = told[-1]
    started = Started()
    await sweep_upgrades(pool, pages, started, spent, told.append, 2 * LEAST_SHARE)
    assert started.branches == []


async def test_nodes_made_from_replaced_nodes_are_outdated(
    client: ContextClient, pool: Pool
) -> None:
    branch = await client.open_branch("merged")
    for turn in range(1, 33):
        await branch.record_turn(chat(f"What became of parcel {turn}?", "It was sent. " * 60))
    policy = QUICK.model_copy(update={"fan_out": 2, "summary_max_tokens": 50})
    await compact_all(pool, branch.branch_uuid, policy, OLDER)
    assert await candidates(pool, OLDER.recipe) == []
    head = await CompactionStore(pool, "default", branch.branch_uuid).head()
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute(
            "update durable_context.branches set publication = publication + 1"
            " where branch_uuid = $1",
            branch.branch_uuid,
        )
        await connection.execute(
            "update durable_context.summaries set state = 'superseded'"
            " where branch_uuid = $1 and level = 0 and from_turn = 1",
            branch.branch_uuid,
        )
        await connection.execute(
            "insert into durable_context.summaries (tenant, branch_uuid, level, from_turn, to_turn,"
            " recipe, input_hash, revision, state, headline, text, token_count, input_tokens,"
            " covered_tokens, made_by) select tenant, branch_uuid, level, from_turn, to_turn,"
            " recipe, input_hash, 2, 'current', 'Other words', 'Other words', 2, input_tokens,"
            " covered_tokens, made_by from durable_context.summaries"
            " where branch_uuid = $1 and level = 0 and from_turn = 1",
            branch.branch_uuid,
        )
    assert head.publication > 0
    [due] = await candidates(pool, OLDER.recipe)
    assert due.branch_uuid == branch.branch_uuid
