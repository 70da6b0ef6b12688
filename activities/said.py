"""What spans of activities say of what was asked and of what came of it: ids, ranges, counts."""

from typing import Protocol

from durable_context.contracts import (
    ArtifactsResult,
    CommitResult,
    OffloadedMessages,
    Plan,
    SummarizeRequest,
    SummarizeResult,
)
from durable_context.contracts.rebuild import RebuildPlan, ReplaceResult
from durable_context.contracts.sweep import SweepCounts
from durable_context.telemetry import spans, steps
from durable_context.telemetry.spans import Said


class Turns(Protocol):
    @property
    def from_turn(self) -> int: ...

    @property
    def to_turn(self) -> int: ...


def of_turns(turns: Turns) -> dict[str, Said]:
    return {spans.FROM_TURN: turns.from_turn, spans.TO_TURN: turns.to_turn}


def of_plan(plan: Plan) -> dict[str, Said]:
    said: dict[str, Said] = {
        spans.CHECKPOINT_TURN: plan.checkpoint_turn,
        steps.NODES: len(plan.nodes),
        steps.ARTIFACTS: plan.artifacts,
        steps.PAUSED: plan.paused,
    }
    if plan.nodes:
        said |= {**of_turns(plan.turns), spans.TOKENS_BEFORE: plan.tokens_before}
        said[steps.COMPACTION_ID] = str(plan.compaction_id)
    return said


def of_node(request: SummarizeRequest) -> dict[str, Said]:
    return {
        steps.COMPACTION_ID: str(request.compaction_id),
        steps.LEVEL: request.node.level,
        **of_turns(request.node),
    }


def of_summary(result: SummarizeResult) -> dict[str, Said]:
    return {
        spans.RECIPE: result.recipe,
        steps.MADE_BY: result.made_by,
        spans.DEGRADED: int(result.degraded),
        steps.REUSED: result.reused,
        spans.TOKENS_BEFORE: result.tokens_before,
        spans.TOKENS_AFTER: result.tokens_after,
    }


def of_artifacts(result: ArtifactsResult) -> dict[str, Said]:
    return {
        steps.ARTIFACTS: result.summarized,
        spans.DEGRADED: result.degraded,
        steps.FAILED: result.failed,
        steps.MORE: result.more,
    }


def of_commit(result: CommitResult) -> dict[str, Said]:
    return {
        steps.CHECKPOINT_ID: str(result.checkpoint_id),
        spans.CHECKPOINT_TURN: result.checkpoint_turn,
        spans.TOKENS_BEFORE: result.tokens_before,
        spans.TOKENS_AFTER: result.tokens_after,
        steps.MORE: result.more,
    }


def of_rebuild_plan(plan: RebuildPlan) -> dict[str, Said]:
    return {
        spans.CHECKPOINT_TURN: plan.checkpoint_turn,
        steps.LEVEL: plan.level,
        steps.NODES: len(plan.nodes),
        spans.LEFT: plan.left,
        steps.SKIPPED: plan.skipped,
        steps.PAUSED: plan.paused,
        steps.MORE: plan.more,
    }


def of_replacement(result: ReplaceResult) -> dict[str, Said]:
    return {
        spans.CHECKPOINT_TURN: result.checkpoint_turn,
        spans.REPLACED: result.replaced,
        spans.MERGED: result.merged,
        **of_turns(result),
    }


def of_sweep(counts: SweepCounts) -> dict[str, Said]:
    return {
        steps.SCANNED: counts.scanned,
        steps.DUE: counts.due,
        steps.STARTED: counts.started,
        steps.SKIPPED: counts.skipped,
        steps.FAILED: counts.failed,
    }


def of_offload(result: OffloadedMessages) -> dict[str, Said]:
    return {
        spans.TOKENS_BEFORE: result.tokens_before,
        spans.TOKENS_AFTER: result.tokens_after,
        steps.COMPACTED: result.compacted,
        steps.COMPRESSED: result.compressed,
        steps.FAILED: result.failed,
    }
