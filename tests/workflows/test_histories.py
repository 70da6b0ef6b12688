"""What a run leaves in Temporal: few events, small payloads, no content; what operators read."""

from google.protobuf.message import Message
from temporalio.api.common.v1 import Payload
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import WorkflowExecutionStatus, WorkflowHistory

from durable_context import Branch
from durable_context.contracts import PROGRESS, CompactionProgress
from tests.compaction.scripted import ScriptedSummarizer
from tests.workflows.orchestration import Orchestration, StartWorker, record

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


async def test_operators_see_what_a_run_does_and_did(
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
        assert progress.phase.startswith("summarize turns 1\u20136 (")
        summarizer.gate.set()
        await orchestration.result(branch)
        details = await _current_details(orchestration, branch)
        description = await handle.describe()
    assert description.status is WorkflowExecutionStatus.COMPLETED
    assert await description.static_summary() == f"compact {branch.branch_uuid}"
    [summary] = await branch.summaries()
    assert "**done**" in details
    assert f"{summary.covered_tokens:,} \u2192 {summary.token_count:,} tokens" in details
    assert "scripted/1" in details
    history = await orchestration.history(branch)
    shown = [event.user_metadata.summary.data.decode() for event in history.events]
    assert any(f"summarize turns 1\u20136 ({summary.covered_tokens:,} tokens)" in s for s in shown)


async def test_search_attributes_find_the_runs_of_a_branch(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    await record(branch, 8)
    async with start_worker():
        await orchestration.hint(branch)
        await orchestration.result(branch)
    description = await orchestration.handle(branch).describe()
    found = {pair.key.name: pair.value for pair in description.typed_search_attributes}
    assert found["CompactionTenant"] == "default"
    assert found["CompactionBranch"] == str(branch.branch_uuid)
    assert found["CompactionReason"] == "turn"


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


async def _current_details(orchestration: Orchestration, branch: Branch) -> str:
    metadata = await orchestration.handle(branch).query(
        "__temporal_workflow_metadata", result_type=WorkflowMetadata
    )
    return metadata.current_details
