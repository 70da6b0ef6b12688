"""Rebuilds on the real Temporal server, beside turns, prompts and compactions of their branch."""

import asyncio
import itertools
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from durable_context import Branch, Budget, CompactionPolicy, ContextClient, PreparedContext
from durable_context.compaction.accounting import Figures
from durable_context.compaction.publishing import NewCheckpoint
from durable_context.compaction.rebuild_calls import progress, start_rebuild
from durable_context.compaction.segments import completed_nodes, next_frontier
from durable_context.compaction.source import NODES_HASH
from durable_context.compaction.store import CompactionStore, RunId
from durable_context.contracts import SUMMARIZE, NodeRange, TreeReason
from durable_context.contracts.rebuild import (
    RebuildRequest,
    RebuildResult,
    rebuild_workflow_id,
)
from durable_context.database import Pool
from durable_context.errors import SummarizerRejected, SummarizerUnavailable
from durable_context.prompts.rendering import render_checkpoint
from durable_context.summarizers import SummaryDraft, SummaryRequest
from durable_context.tokens import token_counter
from tests.compacting import compact_all
from tests.compaction.told import Told
from tests.prompts import check_coverage
from tests.turns import numbered
from tests.workflows.killed_workers import worker_process
from tests.workflows.orchestration import (
    PATIENCE,
    QUICK,
    Orchestration,
    StartWorker,
    record,
)
from tests.workflows.test_histories import PAYLOAD_BYTES, payloads
from tests.workflows.worker_process import STALLED, WorkerSetup

POLICY = QUICK.model_copy(
    update={"fan_out": 2, "keep_raw_turns": 1, "summary_max_tokens": 60, "debounce": timedelta(0)}
)
LONG = timedelta(minutes=5)
"""For what takes less than one by itself, on a machine that does much else."""
PROMPTS_PER_TURN = 5
BUDGET = Budget(max_tokens=32_000)


@dataclass
class Rebuilds:
    """Rebuilds of one test's branch."""

    orchestration: Orchestration
    branch: Branch

    def request(self, reason: TreeReason = "upgrade", **options: Any) -> RebuildRequest:
        asked: dict[str, Any] = {"policy": POLICY, **options}
        return RebuildRequest(
            tenant="default",
            branch_uuid=self.branch.branch_uuid,
            reason=reason,
            summary_task_queue=self.orchestration.summary_task_queue,
            **asked,
        )

    async def run(
        self, reason: TreeReason = "upgrade", within: timedelta = PATIENCE, **options: Any
    ) -> RebuildResult:
        return await self.orchestration.requests.rebuild(self.request(reason, **options), within)

    async def start(self, reason: TreeReason = "upgrade", **options: Any) -> bool:
        queue = self.orchestration.task_queue
        return await start_rebuild(
            self.orchestration.client, self.request(reason, **options), queue
        )

    async def result(self) -> RebuildResult:
        workflow_id = rebuild_workflow_id(self.branch.branch_uuid)
        handle = self.orchestration.client.get_workflow_handle(
            workflow_id, result_type=RebuildResult
        )
        return await handle.result()


@pytest.fixture
def rebuilds(orchestration: Orchestration, branch: Branch) -> Rebuilds:
    return Rebuilds(orchestration, branch)


async def degraded(
    branch: Branch, pool: Pool, turns: int, policy: CompactionPolicy = POLICY
) -> None:
    await record(branch, turns)
    await compact_all(pool, branch.branch_uuid, policy, Told(fails_at=1))


async def prompt(branch: Branch) -> PreparedContext:
    prepared = await branch.prepare("Where is shipment SHP-0003?", budget=BUDGET)
    assert isinstance(prepared, PreparedContext)
    check_coverage(prepared, prepared.manifest.head_turn)
    return prepared


async def test_an_upgrade_leaves_nothing_degraded_and_tells_what_it_did(
    branch: Branch, pool: Pool, rebuilds: Rebuilds, start_worker: StartWorker
) -> None:
    await degraded(branch, pool, 25)
    async with start_worker(Told()):
        result = await rebuilds.run()
    assert (result.replaced, result.merged, result.degraded, result.left) == (7, 0, 0, 0)
    nodes = await branch.summaries()
    assert result.tokens_read == sum(node.input_tokens for node in nodes)
    assert result.checkpoint_turn == 24
    assert not any(node.degraded for node in nodes)
    assert "Told by" in (await prompt(branch)).messages[0]["content"]


async def test_a_history_holds_no_content_and_small_payloads(
    branch: Branch, pool: Pool, rebuilds: Rebuilds, start_worker: StartWorker
) -> None:
    policy = POLICY.model_copy(update={"segment_turns": 1})
    await degraded(branch, pool, 20, policy)
    async with start_worker(Told()):
        result = await rebuilds.run(policy=policy, label="x" * 120, max_tokens=1_000_000)
    assert result.replaced > 16
    workflow_id = rebuild_workflow_id(branch.branch_uuid)
    handle = rebuilds.orchestration.client.get_workflow_handle(workflow_id)
    history = await handle.fetch_history()
    assert max(len(payload) for payload in payloads(history)) < PAYLOAD_BYTES
    text = history.to_json()
    assert "Rotterdam" not in text and "SHP-" not in text and "Told by" not in text


async def test_two_rebuilds_at_once_are_one(
    branch: Branch, pool: Pool, rebuilds: Rebuilds, start_worker: StartWorker
) -> None:
    await degraded(branch, pool, 13)
    told = Told()
    async with start_worker(told):
        results = await asyncio.gather(*(rebuilds.run("rebuild") for _ in range(3)))
    assert len({result.model_dump_json() for result in results}) == 1
    assert len(told.asked) == results[0].replaced == 3
    leaves = [node for node in await branch.summaries() if not node.level]
    assert {node.revision for node in leaves} == {2}


async def test_a_rebuild_waits_for_another_one_and_then_does_its_own(
    branch: Branch, pool: Pool, rebuilds: Rebuilds, start_worker: StartWorker
) -> None:
    await degraded(branch, pool, 13)
    told = Told()
    told.gate.clear()
    async with start_worker(told):
        assert await rebuilds.start("upgrade")
        await told.arrived.wait()
        assert not await rebuilds.start("upgrade")
        client = rebuilds.orchestration.client
        seen = await progress(client, branch.branch_uuid)
        assert seen is not None and seen.phase == "summarizing" and seen.left == 2
        asked = asyncio.create_task(rebuilds.run("rebuild"))
        told.gate.set()
        assert (await asked).replaced == 3
    leaves = [node for node in await branch.summaries() if not node.level]
    assert {node.revision for node in leaves} == {3}
    assert await progress(rebuilds.orchestration.client, branch.branch_uuid) is None


async def test_a_worker_that_is_killed_leaves_nothing_half_done(
    branch: Branch,
    pool: Pool,
    rebuilds: Rebuilds,
    start_worker: StartWorker,
    setup: WorkerSetup,
) -> None:
    await record(branch, 25)
    await compact_all(pool, branch.branch_uuid, POLICY)
    before = {node.summary_id for node in await branch.summaries()}
    async with worker_process(setup.model_copy(update={"stall_at": SUMMARIZE})) as worker:
        assert await rebuilds.start("rebuild")
        await worker.said(STALLED)
        await worker.kill()
    await prompt(branch)
    async with start_worker():
        result = await rebuilds.result()
    nodes = await branch.summaries()
    assert result.replaced == len(nodes) == 7
    assert before.isdisjoint(node.summary_id for node in nodes)
    assert {node.revision for node in nodes} == {2}
    await prompt(branch)


async def test_a_summarizer_that_is_down_ends_an_upgrade_which_changes_nothing(
    branch: Branch, pool: Pool, rebuilds: Rebuilds, start_worker: StartWorker
) -> None:
    policy = POLICY.model_copy(update={"segment_turns": 1, "degrade_after": timedelta(0)})
    await degraded(branch, pool, 20, policy)
    before = await branch.summaries()
    leaves = sum(node.level == 0 for node in before)
    told = Told(fails_at=1, error=SummarizerUnavailable("it is down"))
    async with start_worker(told):
        result = await rebuilds.run(policy=policy)
    assert (result.replaced, result.degraded, result.left) == (0, 16, leaves - 16)
    assert len(told.asked) == 16
    assert await branch.summaries() == before


async def test_a_model_that_is_not_there_replaces_nothing(
    branch: Branch, pool: Pool, rebuilds: Rebuilds, start_worker: StartWorker
) -> None:
    await degraded(branch, pool, 7)
    before = await branch.summaries()
    async with start_worker(Told()):
        result = await rebuilds.run("rebuild", summarizers=("model:nowhere:it",))
    assert (result.replaced, result.degraded) == (0, 1)
    assert await branch.summaries() == before
    [newest, *_] = await branch.compactions()
    assert newest.status == "failed" and "Unknown model" in (newest.error or "")


class NoMerges(Told):
    """Makes leaves alone."""

    async def summarize(self, request: SummaryRequest) -> SummaryDraft:
        if request.level:
            self.asked.append(request)
            raise SummarizerRejected("no merges")
        return await super().summarize(request)


async def test_a_leaf_is_published_without_the_merge_that_fails_and_a_sweep_makes_that(
    branch: Branch, rebuilds: Rebuilds, start_worker: StartWorker
) -> None:
    await record(branch, 25)
    async with start_worker(NoMerges()):
        result = await rebuilds.orchestration.compact(branch, POLICY)
    assert result.checkpoint_turn == 24 and result.degraded == 0
    frontier = (await branch.inspect()).frontier
    assert [(node.level, node.from_turn) for node in frontier] == [(0, 1), (0, 7), (0, 13), (0, 19)]
    await prompt(branch)
    async with start_worker(Told()):
        result = await rebuilds.run("merge")
    assert result.merged == 3
    [node] = (await branch.inspect()).frontier
    assert (node.level, node.from_turn, node.to_turn, node.degraded) == (2, 1, 24, False)
    await prompt(branch)


async def test_the_branch_itself_asks_and_refuses_what_cannot_be(
    client: ContextClient, branch: Branch
) -> None:
    from durable_context.errors import CompactionUnavailable, InvalidArgument

    with pytest.raises(InvalidArgument, match="from_turn=9"):
        await branch.rebuild(9, 3)
    with pytest.raises(InvalidArgument, match="'gpt'"):
        await branch.rebuild(summarizers=["gpt"])
    with pytest.raises(InvalidArgument, match="focus"):
        await branch.rebuild(focus="x" * 501)
    with pytest.raises(CompactionUnavailable):
        await branch.rebuild()


@pytest.mark.timeout(LONG.total_seconds() + 100)
async def test_a_thousand_summaries_are_upgraded_while_turns_are_recorded_and_prompts_prepared(
    branch: Branch,
    pool: Pool,
    rebuilds: Rebuilds,
    start_worker: StartWorker,
    orchestration: Orchestration,
    capsys: pytest.CaptureFixture[str],
) -> None:
    patient = {"worker_lost_after": timedelta(seconds=30), "passes_per_run": 100}
    policy = POLICY.model_copy(update=patient | {"segment_turns": 1, "fan_out": 4})
    await degraded_at_once(branch, pool, 760, policy)
    before = await branch.summaries()
    assert len(before) >= 1_000 and all(node.degraded for node in before)
    prepared_in: list[float] = []
    done = asyncio.Event()

    async def talk() -> None:
        for count in itertools.count():
            started = time.monotonic()
            prepared = await prompt(branch)
            prepared_in.append(time.monotonic() - started)
            if count % PROMPTS_PER_TURN == 0:
                turn = prepared.manifest.head_turn + 1
                await branch.record_turn(numbered(turn), prepared=prepared)
                await orchestration.hint(branch, policy)
            if await within(0.1, done):
                return

    began = time.monotonic()
    async with start_worker(Told()):
        talking = asyncio.create_task(talk())
        result = await rebuilds.run(policy=policy, within=LONG)
        upgraded = time.monotonic() - began
        done.set()
        await talking
        await orchestration.compact(branch, policy)
    state, nodes = await branch.inspect(), await branch.summaries()
    assert not any(node.degraded for node in nodes)
    assert result.replaced >= len(before) and (result.left, result.degraded) == (0, 0)
    assert {node.summary_id for node in nodes}.isdisjoint(node.summary_id for node in before)
    assert state.checkpoint is not None and state.checkpoint.turn_no == state.head_turn - 1
    assert [node.summary_id for node in state.frontier] == list(state.checkpoint.frontier)
    await prompt(branch)
    prepared_in.sort()
    with capsys.disabled():
        print(  # noqa: T201
            f"\n{result.replaced:,} summaries replaced in {upgraded:.1f} s;"
            f" {state.head_turn - 760} turns recorded and {len(prepared_in)} prompts prepared"
            f" beside it, each whole: p50 {1000 * prepared_in[len(prepared_in) // 2]:.0f} ms,"
            f" max {1000 * prepared_in[-1]:.0f} ms"
        )


async def within(seconds: float, event: asyncio.Event) -> bool:
    """Whether it happens so soon."""
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return False
    return True


async def degraded_at_once(
    branch: Branch, pool: Pool, turns: int, policy: CompactionPolicy
) -> None:
    """As many leaves and merges as compaction would have made, turn by turn, in one publication."""
    await record(branch, turns)
    store = CompactionStore(pool, "default", branch.branch_uuid)
    last = turns - policy.keep_raw_turns
    frontier: tuple[NodeRange, ...] = ()
    made: list[NodeRange] = []
    for turn in range(1, last + 1):
        leaf = NodeRange(level=0, from_turn=turn, to_turn=turn)
        nodes = completed_nodes(frontier, leaf, policy.fan_out)
        frontier = next_frontier(frontier, nodes)
        made += nodes
    async with pool.acquire() as connection:
        rows = await connection.fetch(
            "with made as (select *, 'Shipments' as headline, 'Shipments of turns ' || from_turn"
            " as text from unnest($2::integer[], $3::integer[], $4::integer[]) with ordinality"
            " n (level, from_turn, to_turn, nth))"
            " insert into durable_context.summaries (tenant, branch_uuid, level, from_turn,"
            " to_turn, recipe, input_hash, headline, text, token_count, input_tokens,"
            " covered_tokens, made_by, degraded)"
            " select 'default', $1, n.level, n.from_turn, n.to_turn,"
            f" 'model:told/1', coalesce((select {NODES_HASH} from made c"
            " where c.level = n.level - 1 and c.from_turn >= n.from_turn"
            " and c.to_turn <= n.to_turn), sha256(n.nth::text::bytea)), n.headline, n.text,"
            " 10, 60, 60 * (n.to_turn - n.from_turn + 1), 'extractive/1', true"
            " from made n returning summary_id, level, from_turn",
            branch.branch_uuid,
            [node.level for node in made],
            [node.from_turn for node in made],
            [node.to_turn for node in made],
        )
    ids = {(row["level"], row["from_turn"]): row["summary_id"] for row in rows}
    shown = [ids[node.level, node.from_turn] for node in frontier]
    counter = token_counter(branch.encoding)
    rendered = render_checkpoint(await store.summaries(shown), (), counter=counter, policy=policy)
    await store.publish(
        await store.join_compaction(made[0], 60, "turn", RunId()),
        NewCheckpoint(
            previous=None,
            publication=0,
            turn_no=last,
            summary_ids=[row["summary_id"] for row in rows],
            frontier=shown,
            rendered=rendered,
            token_usage={"covered_tokens": 60 * last},
            tokens_before=60,
            tokens_after=10,
            figures=Figures(0, 0),
            policy=policy,
        ),
    )
