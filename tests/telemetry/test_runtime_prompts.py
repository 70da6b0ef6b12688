"""What a prepared prompt leaves in a trace and in the metrics."""

from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import StatusCode

from durable_context import Branch, Budget, CompactionPolicy, ContextClient, PreparedContext
from durable_context.database import Pool
from durable_context.errors import InvalidArgument
from tests.captured_telemetry import CapturedTelemetry
from tests.compacting import compact_all
from tests.turns import chat, numbered

PREPARE = "durable_context.prepare"
DURATION = "durable_context.prepare.duration"
AMPLE = Budget(max_tokens=100_000, instructions="Answer briefly.")
TINY = Budget(max_tokens=40)
POLICY = CompactionPolicy(segment_turns=2, keep_raw_turns=1)


async def talk(branch: Branch, turns: int) -> None:
    for number in range(1, turns + 1):
        await branch.record_turn(numbered(number))


async def test_a_prompt_is_a_span_with_its_figures(
    client: ContextClient, telemetry: CapturedTelemetry
) -> None:
    branch = await client.open_branch("conversation")
    await talk(branch, 3)
    prompt = await branch.prepare("And now?", budget=AMPLE)
    assert isinstance(prompt, PreparedContext)
    assert dict(telemetry.span(PREPARE).attributes or {}) == {
        "gen_ai.conversation.id": str(branch.branch_uuid),
        "durable_context.branch.uuid": str(branch.branch_uuid),
        "durable_context.outcome": "prepared",
        "durable_context.head_turn": 3,
        "durable_context.prompt.tokens": prompt.token_count,
        "durable_context.prompt.limit": 100_000,
        "durable_context.prompt.blocks": len(prompt.manifest.blocks),
        "durable_context.prompt.reductions": 0,
        "durable_context.prompt.stable_tokens": prompt.manifest.stable_prefix_tokens,
        "compaction.tail": 3,
    }


async def test_a_prompt_is_measured(client: ContextClient, telemetry: CapturedTelemetry) -> None:
    branch = await client.open_branch("conversation")
    await talk(branch, 3)
    prompt = await branch.prepare("And now?", budget=AMPLE)
    assert isinstance(prompt, PreparedContext)
    share = prompt.manifest.stable_prefix_tokens / prompt.manifest.counted_tokens
    assert telemetry.count(DURATION, outcome="prepared") == 1
    assert telemetry.value(DURATION) > 0
    assert telemetry.value("durable_context.prepare.tokens") == prompt.token_count
    assert telemetry.value("durable_context.prepare.tail") == 3
    assert telemetry.value("durable_context.prepare.stable_share") == pytest.approx(share)
    assert 0 < share < 1


async def test_a_prompt_says_that_it_is_compacted_once_it_is(
    make_client: Callable[..., Any], pool: Pool, telemetry: CapturedTelemetry
) -> None:
    client = await make_client(POLICY)
    branch = await client.open_branch("conversation")
    await talk(branch, 6)
    await branch.prepare("And now?", budget=AMPLE)
    before = dict(telemetry.span(PREPARE).attributes or {})
    assert await compact_all(pool, branch.branch_uuid, POLICY)
    telemetry.clear()
    await branch.prepare("And now?", budget=AMPLE)
    after = dict(telemetry.span(PREPARE).attributes or {})
    assert "gen_ai.conversation.compacted" not in before
    assert after["gen_ai.conversation.compacted"] is True
    checkpoint = (await branch.checkpoints())[-1].turn_no
    assert after["compaction.checkpoint_turn"] == checkpoint
    assert after["compaction.tail"] == 6 - checkpoint
    assert telemetry.value("durable_context.prepare.tail") == 6 - checkpoint


async def test_a_prompt_that_was_cut_tells_how_often(
    client: ContextClient, telemetry: CapturedTelemetry
) -> None:
    branch = await client.open_branch("conversation")
    for number in range(4):
        await branch.record_turn(chat("What do the pumps do?", f"Pump {number} is idle. " * 100))
    prompt = await branch.prepare("And now?", budget=Budget(max_tokens=1_500, model="gpt-4o"))
    assert isinstance(prompt, PreparedContext)
    told = dict(telemetry.span(PREPARE).attributes or {})
    assert told["durable_context.prompt.reductions"] == len(prompt.manifest.reductions) > 0
    assert told["gen_ai.request.model"] == "gpt-4o"


async def test_a_prompt_that_fits_nowhere_is_an_outcome_and_no_error(
    client: ContextClient, telemetry: CapturedTelemetry
) -> None:
    branch = await client.open_branch("conversation")
    await talk(branch, 3)
    exceeded = await branch.prepare("And now? " * 50, budget=TINY)
    assert not exceeded
    span = telemetry.span(PREPARE)
    told = dict(span.attributes or {})
    assert told["durable_context.outcome"] == "over_budget"
    assert told["durable_context.prompt.limit"] == 40
    assert told["durable_context.prompt.smallest"] == exceeded.smallest
    assert told["durable_context.prompt.required"] == exceeded.required
    assert span.status.status_code is StatusCode.UNSET
    assert telemetry.count(DURATION, outcome="over_budget") == 1
    assert not telemetry.points("durable_context.prepare.tokens")


async def test_a_prompt_that_cannot_be_made_is_an_error(
    client: ContextClient, telemetry: CapturedTelemetry
) -> None:
    branch = await client.open_branch("conversation")
    with pytest.raises(InvalidArgument):
        await branch.prepare("And now?", budget=AMPLE, at_turn=7)
    span = telemetry.span(PREPARE)
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description is None
    assert not span.events
    assert (span.attributes or {})["error.type"] == "InvalidArgument"
    assert (span.attributes or {})["durable_context.outcome"] == "error"
    assert telemetry.count(DURATION, outcome="error") == 1


async def test_a_prompt_is_one_read_of_its_callers_and_asks_nobody_else(
    client: ContextClient, telemetry: CapturedTelemetry
) -> None:
    branch = await client.open_branch("conversation")
    await talk(branch, 3)
    telemetry.clear()
    with trace.get_tracer("agent").start_as_current_span("agent step"):
        await branch.prepare("And now?", budget=TINY)
        await branch.prepare("And now?", budget=AMPLE)
    prepared = telemetry.spans(PREPARE)
    assert telemetry.children(telemetry.span("agent step")) == prepared
    assert telemetry.spans() == (*prepared, telemetry.span("agent step"))


async def test_a_fork_tells_the_checkpoint_that_it_inherited(
    make_client: Callable[..., Any], pool: Pool, telemetry: CapturedTelemetry
) -> None:
    client = await make_client(POLICY)
    branch = await client.open_branch("conversation")
    await talk(branch, 6)
    assert await compact_all(pool, branch.branch_uuid, POLICY)
    fork = await branch.fork("other")
    await fork.prepare("And now?", budget=AMPLE)
    told = dict(telemetry.span(PREPARE).attributes or {})
    assert told["durable_context.branch.uuid"] == str(fork.branch_uuid)
    assert told["gen_ai.conversation.compacted"] is True
    assert told["durable_context.head_turn"] == 6
