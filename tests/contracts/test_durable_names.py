"""Names that histories, schedules and other processes refer to: changing one breaks what runs."""

from uuid import UUID

import pytest
from pydantic import BaseModel
from temporalio import activity, workflow

from activities.compaction import CompactionActivities
from activities.offload import OffloadActivities
from durable_context import contracts
from durable_context.offload import OffloadParameters
from workflows.compaction import Compaction

FIELDS = {
    "CompactionRequest": "tenant branch_uuid policy reason label pending summary_task_queue"
    " focus_id conversation",
    "Spending": "input_tokens output_tokens price",
    "CompactNow": "focus_id",
    "CompactionResult": "passes checkpoint_turn tokens_before tokens_after degraded from_turn"
    " recipe made_by attempts more artifacts paused spending",
    "CompactionProgress": "phase passes checkpoint_turn requested covered",
    "TurnHint": "turn_no",
    "PlanRequest": "tenant branch_uuid policy reason focus_id",
    "NodeRange": "level from_turn to_turn",
    "TurnRange": "from_turn to_turn",
    "Plan": "nodes compaction_id checkpoint_turn tokens_before artifacts paused unindexed recipe",
    "ArtifactsRequest": "tenant branch_uuid turns policy compaction_id skip",
    "ArtifactsResult": "summarized degraded failed more",
    "SummarizeRequest": "tenant branch_uuid compaction_id node policy drafts anew may_degrade"
    " summarizers",
    "SummarizeResult": "summary_id made_by recipe degraded reused tokens_before tokens_after"
    " attempts spending",
    "CommitRequest": "tenant branch_uuid compaction_id checkpoint_turn summary_ids policy",
    "CommitResult": "checkpoint_id checkpoint_turn tokens_before tokens_after more spending",
    "IndexRequest": "tenant branch_uuid from_turn to_turn",
    "OffloadRequest": "tenant branch_uuid messages parameters chat_id",
    "OffloadedMessages": "messages tokens_before tokens_after compacted compressed failed changed",
}
OFFLOAD_FIELDS = (
    "context_manage_mode max_total_tokens max_tool_message_tokens group_token_threshold"
    " keep_recent_count preview_chars compact_ratio_threshold summary_role encoding"
)
POLICY_FIELDS = (
    "segment_turns segment_tokens keep_raw_turns fan_out summary_max_tokens headline_max_tokens"
    " checkpoint_max_tokens ledger_max_tokens digest_tokens view_tokens offload_tokens"
    " offload_messages raw_result_tokens run_raw_tokens retrieved_blocks retrieved_tokens debounce"
    " degrade_after summarizer_timeout retry_interval worker_lost_after passes_per_run expose_ids"
)


def test_names_are_what_they_were() -> None:
    assert (contracts.COMPACTION_TASK_QUEUE, contracts.SUMMARY_TASK_QUEUE) == (
        "durable-context-compaction",
        "durable-context-summaries",
    )
    assert contracts.COMPACTION_WORKFLOW == "Compaction"
    assert (contracts.TURN_COMMITTED, contracts.COMPACT_NOW, contracts.PROGRESS) == (
        "turn_committed",
        "compact_now",
        "progress",
    )
    assert (contracts.PLAN, contracts.SUMMARIZE, contracts.COMMIT, contracts.INDEX) == (
        "plan",
        "summarize",
        "commit",
        "index",
    )
    assert contracts.SUMMARIZE_ARTIFACTS == "summarize_artifacts"
    assert contracts.OFFLOAD_CONTEXT == "offload_context"
    assert contracts.SEARCH_ATTRIBUTES == (
        "CompactionTenant",
        "CompactionConversation",
        "CompactionBranch",
        "CompactionReason",
    )
    assert (contracts.STALE_PLAN, contracts.COMPACTION_FAILED) == ("StalePlan", "CompactionFailed")
    branch_uuid = UUID(int=7)
    assert contracts.compaction_workflow_id(branch_uuid) == f"compaction-{branch_uuid}"


def test_workflow_and_activities_answer_to_these_names() -> None:
    definition = workflow._Definition.must_from_class(Compaction)
    assert definition.name == contracts.COMPACTION_WORKFLOW
    assert set(definition.signals) == {contracts.TURN_COMMITTED}
    assert set(definition.updates) == {contracts.COMPACT_NOW}
    assert contracts.PROGRESS in definition.queries
    methods = [
        CompactionActivities.plan,
        CompactionActivities.summarize,
        CompactionActivities.commit,
        CompactionActivities.index,
        CompactionActivities.summarize_artifacts,
        OffloadActivities.offload,
    ]
    names = [activity._Definition.must_from_callable(method).name for method in methods]
    assert names == [
        "plan",
        "summarize",
        "commit",
        "index",
        "summarize_artifacts",
        "offload_context",
    ]


@pytest.mark.parametrize("name", FIELDS)
def test_payload_fields_are_added_never_renamed(name: str) -> None:
    model: type[BaseModel] = getattr(contracts, name)
    assert " ".join(model.model_fields) == FIELDS[name]


def test_policy_fields_are_added_never_renamed() -> None:
    """The policy travels in requests: an old run's is read by a new worker."""
    assert " ".join(contracts.CompactionPolicy.model_fields) == POLICY_FIELDS


def test_parameters_of_an_offload_are_added_never_renamed() -> None:
    assert " ".join(OffloadParameters.model_fields) == OFFLOAD_FIELDS


def test_an_old_request_is_read_by_a_new_worker() -> None:
    """What was added since the first version has a default."""
    request = {"tenant": "t", "branch_uuid": str(UUID(int=7)), "policy": {"segment_turns": 6}}
    read = contracts.CompactionRequest.model_validate(request)
    assert read.pending == 1 and read.summary_task_queue == contracts.SUMMARY_TASK_QUEUE
