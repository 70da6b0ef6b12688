"""Pauses of branches that Temporal compacts: who is refused, what ends, and how it goes on."""

import asyncio

import pytest
from temporalio.service import RPCError, RPCStatusCode

from durable_context import Branch, Budget, ContextClient
from durable_context.errors import CompactionPaused
from tests.compaction.scripted import ScriptedSummarizer
from tests.workflows.orchestration import PATIENCE, Orchestration, StartWorker, record


@pytest.fixture
async def branch(client: ContextClient, orchestration: Orchestration) -> Branch:
    return orchestration.asking(client, await client.open_branch("orders"))


async def test_a_paused_branch_is_not_compacted_on_request(branch: Branch) -> None:
    await record(branch, 8)
    await branch.pause("the model is being changed")
    with pytest.raises(CompactionPaused) as refused:  # no worker runs, and nobody waits for one
        await branch.compact(timeout=PATIENCE)
    message = str(refused.value)
    assert message.startswith("branch 'main' of 'orders' is paused since 20")
    assert message.endswith(" UTC (the model is being changed): nothing is compacted")


async def test_nor_is_a_branch_of_a_paused_tenant(client: ContextClient, branch: Branch) -> None:
    await client.pause()
    with pytest.raises(CompactionPaused, match="the tenant of branch 'main' of 'orders' is paused"):
        await branch.compact(timeout=PATIENCE)


async def test_turns_of_a_paused_branch_send_no_hints(
    branch: Branch, orchestration: Orchestration
) -> None:
    await branch.pause()
    await record(branch, 8)
    await orchestration.requests.close()
    with pytest.raises(RPCError) as missing:
        await orchestration.handle(branch).describe()
    assert missing.value.status == RPCStatusCode.NOT_FOUND


async def test_a_branch_that_is_resumed_goes_on_at_once(
    branch: Branch, start_worker: StartWorker
) -> None:
    await branch.pause()
    await record(branch, 14)
    async with start_worker():
        assert await branch.resume()
        await branch.wait_until_compacted(timeout=PATIENCE)
    assert (await branch.inspect()).checkpoint is not None
    assert len(await branch.checkpoints()) == 2


async def test_a_pause_lets_the_segment_that_is_under_way_end_and_no_other_begin(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    summarizer = ScriptedSummarizer()
    summarizer.gate.clear()
    await record(branch, 14)
    async with start_worker(summarizer):
        await orchestration.hint(branch)
        await summarizer.arrived.wait()
        await branch.pause()
        summarizer.gate.set()
        result = await orchestration.result(branch)
    assert (result.passes, result.checkpoint_turn, result.paused) == (1, 6, True)
    assert [checkpoint.turn_no for checkpoint in await branch.checkpoints()] == [6]
    assert len(summarizer.asked) == 1
    assert [one.status for one in await branch.compactions()] == ["completed"]


async def test_who_waits_for_a_compaction_that_is_paused_meanwhile_is_told(
    branch: Branch, start_worker: StartWorker
) -> None:
    summarizer = ScriptedSummarizer()
    summarizer.gate.clear()
    await record(branch, 14)
    async with start_worker(summarizer):
        asked = asyncio.create_task(branch.compact(timeout=PATIENCE))
        await summarizer.arrived.wait()
        await branch.pause()
        summarizer.gate.set()
        with pytest.raises(CompactionPaused):
            await asked
    assert len(await branch.checkpoints()) == 1


async def test_a_prompt_does_not_wait_for_a_paused_branch(branch: Branch) -> None:
    await record(branch, 40)
    await branch.pause()
    loop = asyncio.get_running_loop()
    begun = loop.time()
    prepared = await branch.prepare(
        "And now?", budget=Budget(max_tokens=1_500), compact_within=PATIENCE
    )
    assert prepared
    assert loop.time() - begun < 5
