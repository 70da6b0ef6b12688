"""Whom a hint belongs to, which is sent in the background, after others; and compactions that are
waited for.
"""

from collections.abc import AsyncIterator
from contextvars import ContextVar
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.trace import SpanKind, StatusCode
from temporalio.client import Client

from durable_context import Branch, Budget, CompactionPolicy, ContextClient
from durable_context.compaction import requests
from durable_context.compaction.requests import CompactionRequests
from durable_context.contracts import compaction_workflow_id
from durable_context.database import Pool
from durable_context.errors import CompactionUnavailable
from tests.captured_telemetry import CapturedTelemetry, is_child
from tests.turns import numbered
from tests.workflows.orchestration import QUICK, Orchestration
from worker.free_ports import LOOPBACK, free_ports

RECORD = "durable_context.record_turn"
HINT = "durable_context.hint"
SIGNAL = "SignalWorkflow:turn_committed"
START = "SignalWithStartWorkflow:Compaction"
LATER = CompactionPolicy(debounce=timedelta(minutes=5), segment_turns=1, keep_raw_turns=0)
"""Each turn is worth a hint, and the second hint waits for longer than a test."""

AGENT: ContextVar[str] = ContextVar("agent")


@pytest.fixture
async def orchestration(temporal: Client, temporal_address: str) -> AsyncIterator[Orchestration]:
    """With requests that connect by themselves, as those of a process that names an address do."""
    task_queue = f"test-{uuid4().hex}"
    asking = CompactionRequests(temporal_address, task_queue=task_queue)
    yield Orchestration(temporal, asking, task_queue)
    await asking.close()


@pytest.fixture
async def branch(
    client: ContextClient, orchestration: Orchestration, monkeypatch: pytest.MonkeyPatch
) -> Branch:
    """Its hints have time, however busy the machine is."""
    monkeypatch.setattr(requests, "HINT_SECONDS", 30)
    return orchestration.asking(client, await client.open_branch("conversation"), LATER)


async def test_a_hint_belongs_to_the_turn_that_it_is_about(
    branch: Branch, telemetry: CapturedTelemetry
) -> None:
    await branch.record_turn(numbered(1))
    (hint,) = await telemetry.ended(HINT)
    assert is_child(hint, telemetry.span(RECORD))
    assert hint.kind is SpanKind.PRODUCER
    assert dict(hint.attributes or {}) == {
        "gen_ai.conversation.id": str(branch.branch_uuid),
        "durable_context.branch.uuid": str(branch.branch_uuid),
        "durable_context.turn": 1,
        "durable_context.outcome": "sent",
        "durable_context.hint.started": True,
    }
    assert telemetry.value("durable_context.hints", outcome="sent") == 1
    assert [span.name for span in telemetry.children(hint)] == [SIGNAL, START]


async def test_hints_of_a_burst_are_one_which_belongs_to_the_newest_turn_and_names_the_others(
    branch: Branch, orchestration: Orchestration, telemetry: CapturedTelemetry
) -> None:
    tracer = trace.get_tracer("agent")
    for number in range(1, 6):
        with tracer.start_as_current_span(f"step {number}"):
            await branch.record_turn(numbered(number))
        if number == 1:
            await telemetry.ended(HINT)
    await orchestration.requests.close()
    _, last = telemetry.spans(HINT)
    turns = telemetry.spans(RECORD)
    assert is_child(last, turns[4])
    assert [link.context.span_id for link in last.links] == [
        turn.context.span_id for turn in turns[1:4] if turn.context
    ]
    told = dict(last.attributes or {})
    assert (told["durable_context.turn"], told["durable_context.hint.folded"]) == (5, 3)
    assert told["durable_context.hint.started"] is False
    assert telemetry.value("durable_context.hints", outcome="sent") == 2


class NotingRequests(CompactionRequests):
    """The real ones, with a note of whose context a hint runs in."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.noted: list[str | None] = []

    async def hint(self, *arguments: Any) -> bool:
        self.noted.append(AGENT.get(None))
        return await super().hint(*arguments)


async def test_hints_hold_on_to_nothing_of_the_call_that_was_first(
    client: ContextClient, orchestration: Orchestration, temporal: Client
) -> None:
    noting = NotingRequests(temporal, task_queue=orchestration.task_queue)
    opened = await client.open_branch("conversation")
    branch = orchestration.asking(client, opened, LATER, noting)
    AGENT.set("the first")
    await branch.record_turn(numbered(1))
    AGENT.set("the second")
    await branch.record_turn(numbered(2))
    await noting.close()
    assert set(noting.noted) == {None}


async def test_a_hint_takes_the_trace_along_and_nothing_else_of_its_callers(
    branch: Branch, orchestration: Orchestration, telemetry: CapturedTelemetry
) -> None:
    token = context.attach(baggage.set_baggage("user", "SECRET"))
    try:
        await branch.record_turn(numbered(1))
    finally:
        context.detach(token)
    await telemetry.ended(HINT)
    handle = orchestration.client.get_workflow_handle(compaction_workflow_id(branch.branch_uuid))
    history = await handle.fetch_history()
    assert "SECRET" not in str(history.events)
    fields = history.events[0].workflow_execution_started_event_attributes.header.fields
    started = telemetry.span(START).context
    assert started is not None
    assert trace.format_trace_id(started.trace_id) in str(fields["_tracer-data"])
    assert telemetry.span(RECORD).context.trace_id == started.trace_id  # type: ignore[union-attr]


async def test_a_hint_that_is_lost_counts_and_tells_the_kind_of_its_error(
    client: ContextClient, orchestration: Orchestration, telemetry: CapturedTelemetry
) -> None:
    [nobody] = free_ports(1)
    unheard = CompactionRequests(f"{LOOPBACK}:{nobody}")
    opened = await client.open_branch("conversation")
    branch = orchestration.asking(client, opened, LATER, unheard)
    await branch.record_turn(numbered(1))
    (hint,) = await telemetry.ended(HINT)
    assert hint.status.status_code is StatusCode.ERROR
    assert hint.status.description is None
    assert not hint.events
    told = dict(hint.attributes or {})
    assert told["durable_context.outcome"] == "lost"
    assert told["error.type"] in ("CompactionUnavailable", "TimeoutError")
    assert telemetry.value("durable_context.hints", outcome="lost") == 1
    assert str(nobody) not in telemetry.everything()
    await branch.resume()  # at once, for now nobody is asked
    assert telemetry.value("durable_context.hints", outcome="lost") == 2
    await unheard.close()


async def test_a_compaction_that_is_waited_for_is_a_span_with_what_came_of_it(
    client: ContextClient, orchestration: Orchestration, pool: Pool, telemetry: CapturedTelemetry
) -> None:
    opened = await client.open_branch("conversation")
    for number in range(1, 9):
        await opened.record_turn(numbered(number))
    branch = orchestration.asking(client, opened, QUICK)
    async with orchestration.worker(pool):
        result = await branch.compact(focus="SECRET pumps")
        rebuilt = await branch.rebuild()
    compact, rebuild = (
        telemetry.span("durable_context.compact"),
        telemetry.span("durable_context.rebuild"),
    )
    told = dict(compact.attributes or {})
    assert told["durable_context.outcome"] == "compacted"
    assert told["compaction.checkpoint_turn"] == result.checkpoint_turn == 6
    assert told["compaction.tokens_before"] == result.tokens_before
    assert told["compaction.tokens_after"] == result.tokens_after
    assert told["compaction.passes"] == 1
    assert (rebuild.attributes or {})["compaction.replaced"] == rebuilt.replaced > 0
    assert "SECRET" not in telemetry.everything()
    assert telemetry.children(compact)[0].name.startswith("StartUpdateWithStartWorkflow:")


async def test_a_prompt_shows_the_compaction_it_waited_for(
    client: ContextClient, orchestration: Orchestration, pool: Pool, telemetry: CapturedTelemetry
) -> None:
    opened = await client.open_branch("conversation")
    for number in range(1, 13):
        await opened.record_turn(numbered(number))
    branch = orchestration.asking(client, opened, QUICK)
    async with orchestration.worker(pool):
        await branch.prepare("And now?", budget=Budget(max_tokens=300), compact_within=30)
    prepare = telemetry.span("durable_context.prepare")
    (compact,) = telemetry.children(prepare)
    assert compact.name == "durable_context.compact"
    assert (compact.attributes or {})["durable_context.outcome"] == "compacted"
    assert (prepare.attributes or {})["gen_ai.conversation.compacted"] is True


async def test_a_compaction_that_nobody_can_be_asked_for_is_an_error(
    client: ContextClient, telemetry: CapturedTelemetry
) -> None:
    branch = await client.open_branch("conversation")
    with pytest.raises(CompactionUnavailable):
        await branch.compact()
    with pytest.raises(CompactionUnavailable):
        await branch.rebuild()
    for span in telemetry.spans():
        assert span.status.status_code is StatusCode.ERROR
        assert (span.attributes or {})["error.type"] == "CompactionUnavailable"
    assert len(telemetry.spans()) == 2
