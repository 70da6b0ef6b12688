"""What a run leaves in Temporal: few events, small payloads, no content; summaries of its steps."""

from datetime import timedelta
from json import loads

from google.protobuf.message import Message
from temporalio.api.common.v1 import Payload
from temporalio.client import WorkflowExecutionStatus, WorkflowHistory

from durable_context import Branch
from durable_context.contracts import PROGRESS, CompactionProgress
from tests.compaction.scripted import ScriptedSummarizer
from tests.workflows.orchestration import QUICK, Orchestration, StartWorker, events_of, record

EVENTS_OF_A_PASS = 40
EVENTS_OF_A_MERGE = 12
PAYLOAD_BYTES = 2_048


async def test_a_pass_takes_few_events_and_a_merge_few_more(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    async with start_worker():
        await record(branch, 8)
        await orchestration.hint(branch)
        await orchestration.result(branch)
        plain = len((await orchestration.history(branch)).events)
        await record(branch, 12)
        await orchestration.compact(branch)
        await record(branch, 6)
        await orchestration.hint(branch)
        assert (await orchestration.result(branch)).checkpoint_turn == 24
        merging = len((await orchestration.history(branch)).events)
    assert plain <= EVENTS_OF_A_PASS
    assert merging - plain <= EVENTS_OF_A_MERGE


async def test_no_payload_of_a_history_holds_content_or_is_large(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    await record(branch, 26)
    async with start_worker():
        await orchestration.hint(branch)
        await orchestration.result(branch)
    history = await orchestration.history(branch)
    sizes = [len(payload) for payload in payloads(history)]
    assert sizes and max(sizes) < PAYLOAD_BYTES
    text = history.to_json()
    assert "Rotterdam" not in text and "SHP-" not in text


async def test_activity_summaries_say_who_is_asked_for_what(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    summarizer = ScriptedSummarizer()
    summarizer.gate.clear()
    await record(branch, 8)
    async with start_worker(summarizer):
        await orchestration.hint(branch)
        await summarizer.arrived.wait()
        handle = orchestration.handle(branch)
        progress = await handle.query(PROGRESS, result_type=CompactionProgress)
        assert progress.phase.startswith("summarize turns 1\u20136 with scripted/1, ")
        summarizer.gate.set()
        await orchestration.result(branch)
        description = await handle.describe()
    assert description.status is WorkflowExecutionStatus.COMPLETED
    assert await description.static_summary() == f"compact {branch.branch_uuid}"
    [summary] = await branch.summaries()
    history = await orchestration.history(branch)
    scheduled = events_of(history, "ACTIVITY_TASK_SCHEDULED")
    shown = [loads(event.user_metadata.summary.data) for event in scheduled]
    tokens = f"{summary.covered_tokens:,}"
    assert shown == [
        "plan the next segment",
        f"summarize turns 1\u20136 with scripted/1, {tokens} tokens",
        "commit checkpoint 6",
        "index turns 1\u20136",
    ]


async def test_every_timer_says_what_it_waits_for(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    """After its first segment a run waits for more turns of the burst that it was told of."""
    policy = QUICK.model_copy(update={"debounce": timedelta(seconds=1)})
    summarizer = ScriptedSummarizer()
    summarizer.gate.clear()
    await record(branch, 8)
    async with start_worker(summarizer):
        await orchestration.hint(branch, policy)
        await summarizer.arrived.wait()
        await record(branch, 6)
        await orchestration.hint(branch, policy)
        summarizer.gate.set()
        await orchestration.result(branch)
    timers = events_of(await orchestration.history(branch), "TIMER_STARTED")
    named = [loads(timer.user_metadata.summary.data) for timer in timers]
    assert named and set(named) == {"wait for more turns of the same burst"}


def payloads(history: WorkflowHistory) -> list[bytes]:
    """Every payload, wherever in an event it stands."""

    def of(message: Message) -> list[bytes]:
        if isinstance(message, Payload):
            return [message.data]
        found: list[bytes] = []
        for field, value in message.ListFields():
            if field.message_type is None:
                continue
            if field.message_type.GetOptions().map_entry:
                values = [item for item in value.values() if isinstance(item, Message)]
            else:
                values = value if field.is_repeated else [value]
            for item in values:
                found += of(item)
        return found

    return [payload for event in history.events for payload in of(event)]
