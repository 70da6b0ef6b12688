"""Compaction on request with a focus: what is due then is made with it, and nothing after that."""

import asyncio

import pytest

from durable_context import Branch, ContextClient
from durable_context.compaction.focus import focused_recipe
from durable_context.compaction.requests import CompactionRequests
from durable_context.contracts import COMPACT_NOW, CompactionResult
from durable_context.errors import InvalidArgument
from tests.compaction.scripted import ScriptedSummarizer
from tests.workflows.orchestration import (
    PATIENCE,
    QUICK,
    Orchestration,
    StartWorker,
    events_of,
    record,
)

FOCUS = "which depot each shipment has left"
FOCUSED = focused_recipe("scripted/1", FOCUS)


@pytest.fixture
async def silent(client: ContextClient) -> Branch:
    """The branch, as a client without Temporal holds it: its turns lead to no compaction."""
    return await client.open_branch("orders")


@pytest.fixture
async def branch(client: ContextClient, silent: Branch, orchestration: Orchestration) -> Branch:
    return orchestration.asking(client, silent)


async def recipes(branch: Branch) -> list[tuple[int, int, str]]:
    return [(node.level, node.from_turn, node.recipe) for node in await branch.summaries()]


async def test_what_is_due_is_made_with_the_focus_merges_too_and_nothing_later(
    branch: Branch, silent: Branch, start_worker: StartWorker
) -> None:
    summarizer = ScriptedSummarizer()
    await record(silent, 26)
    async with start_worker(summarizer):
        result = await branch.compact(focus=FOCUS, timeout=PATIENCE)
        assert (result.passes, result.checkpoint_turn, result.recipe) == (4, 24, FOCUSED)
        await record(silent, 6)
        plain = await branch.compact(timeout=PATIENCE)
    assert (plain.passes, plain.recipe) == (1, "scripted/1")
    assert [asked.focus for asked in summarizer.asked] == [FOCUS] * 5 + [None]
    assert await recipes(branch) == [
        (0, 1, FOCUSED),
        (1, 1, FOCUSED),
        (0, 7, FOCUSED),
        (0, 13, FOCUSED),
        (0, 19, FOCUSED),
        (0, 25, "scripted/1"),
    ]


async def test_the_text_never_gets_into_temporal(
    branch: Branch, silent: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    await record(silent, 8)
    async with start_worker():
        await branch.compact(focus=FOCUS, timeout=PATIENCE)
        history = await orchestration.history(branch)
    [accepted] = events_of(history, "WORKFLOW_EXECUTION_UPDATE_ACCEPTED")
    update = accepted.workflow_execution_update_accepted_event_attributes.accepted_request
    assert "focus_id" in update.input.args.payloads[0].data.decode()
    assert "depot" not in history.to_json()
    whole = b"".join(event.SerializeToString() for event in history.events)
    assert b"depot" not in whole


async def test_where_nothing_is_due_there_are_no_passes(
    branch: Branch, silent: Branch, start_worker: StartWorker
) -> None:
    summarizer = ScriptedSummarizer()
    await record(silent, 3)
    async with start_worker(summarizer):
        result = await branch.compact(focus=FOCUS, timeout=PATIENCE)
    assert (result.passes, result.recipe, summarizer.asked) == (0, "", [])


async def test_a_long_run_keeps_the_focus_as_it_goes_on_in_others(
    client: ContextClient, silent: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    policy = QUICK.model_copy(update={"passes_per_run": 2})
    branch = orchestration.asking(client, silent, policy)
    summarizer = ScriptedSummarizer()
    await record(silent, 44)
    async with start_worker(summarizer):
        result = await branch.compact(focus=FOCUS, timeout=PATIENCE)
    assert result.checkpoint_turn == 42
    assert {asked.focus for asked in summarizer.asked} == {FOCUS}


async def test_what_is_being_summarized_already_ends_without_the_focus(
    branch: Branch, silent: Branch, start_worker: StartWorker
) -> None:
    summarizer = ScriptedSummarizer()
    summarizer.gate.clear()
    await record(silent, 8)
    async with start_worker(summarizer):
        first = asyncio.create_task(branch.compact(timeout=PATIENCE))
        await summarizer.arrived.wait()
        await record(silent, 6)
        second = asyncio.create_task(branch.compact(focus=FOCUS, timeout=PATIENCE))
        await _asked_twice(branch)
        summarizer.gate.set()
        await asyncio.gather(first, second)
    assert [asked.focus for asked in summarizer.asked] == [None, FOCUS]


async def _asked_twice(branch: Branch) -> None:
    async with asyncio.timeout(PATIENCE.total_seconds()):
        # Only the workflow knows when a request has come in.
        while (found := await branch.compacting()) is None or found.requested < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_callers_that_know_of_no_focus_are_answered_as_before(
    branch: Branch, silent: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    await record(silent, 8)
    summarizer = ScriptedSummarizer()
    summarizer.gate.clear()
    async with start_worker(summarizer):
        await orchestration.hint(branch)
        await summarizer.arrived.wait()
        asked = asyncio.create_task(
            orchestration.handle(branch).execute_update(  # pyright: ignore[reportUnknownMemberType]
                COMPACT_NOW, result_type=CompactionResult
            )
        )
        summarizer.gate.set()
        assert (await asked).checkpoint_turn == 6


async def test_a_focus_that_is_none_asks_nobody(branch: Branch) -> None:
    with pytest.raises(InvalidArgument, match="allowed is text of 1 to 500 characters"):
        await branch.compact(focus="x" * 501)


async def test_how_far_it_is_is_known_while_it_is_under_way_alone(
    branch: Branch, silent: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    summarizer = ScriptedSummarizer()
    summarizer.gate.clear()
    await record(silent, 8)
    assert await branch.compacting() is None
    async with start_worker(summarizer):
        compacting = asyncio.create_task(branch.compact(timeout=PATIENCE))
        await summarizer.arrived.wait()
        progress = await branch.compacting()
        assert progress is not None
        assert (progress.passes, progress.covered) == (0, 0)
        assert progress.phase.startswith("summarize turns 1–6")
        summarizer.gate.set()
        await compacting
        await orchestration.result(branch)
        assert await branch.compacting() is None
    nowhere = CompactionRequests("127.0.0.1:1")
    assert await nowhere.progress(branch.branch_uuid) is None
