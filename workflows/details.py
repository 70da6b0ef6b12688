"""What operators read in Temporal: ranges, counts and reasons, never content."""

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from durable_context.contracts import CompactionResult, NodeRange, Plan
    from durable_context.contracts.rebuild import RebuildPlan, RebuildRequest, RebuildResult


def turns_text(from_turn: int, to_turn: int) -> str:
    return f"turns {from_turn}\u2013{to_turn}"


def work_text(node: NodeRange, plan: Plan) -> str:
    turns = turns_text(node.from_turn, node.to_turn)
    if node.level:
        return f"merge {turns} (level {node.level})"
    return f"summarize {turns} ({plan.tokens_before:,} tokens)"


def artifacts_text(plan: Plan) -> str:
    return f"summarize artifacts ({plan.artifacts:,} due)"


def progress_text(phase: str, result: CompactionResult, plan: Plan | None) -> str:
    """Markdown. The last segment's figures stay in view while the next one is worked on."""
    lines = [f"**{phase}**"]
    if plan is not None and plan.nodes:
        lines.append(f"- now: {turns_text(plan.turns.from_turn, plan.turns.to_turn)}")
    if plan is not None and plan.artifacts:
        lines.append(f"- artifacts: {plan.artifacts:,} due")
    if result.passes:
        lines += [
            f"- last: {turns_text(result.from_turn, result.checkpoint_turn)},"
            f" {result.tokens_before:,} \u2192 {result.tokens_after:,} tokens",
            f"- recipe: {result.recipe}; made by: {result.made_by}",
            f"- passes: {result.passes}; attempts: {result.attempts}; degraded: {result.degraded}",
        ]
    if result.artifacts:
        lines.append(f"- artifacts summarized: {result.artifacts:,}")
    lines.append(f"- checkpoint: turn {result.checkpoint_turn}")
    return "\n".join(lines)


def type_of(error: ActivityError) -> str | None:
    cause = error.cause
    return cause.type if isinstance(cause, ApplicationError) else None


def reason_of(error: ActivityError) -> str:
    cause = error.cause
    if isinstance(cause, ApplicationError):
        return f"{error.activity_type}: {cause.type}: {cause.message}"
    return f"{error.activity_type}: {cause or error.message}"


def rebuild_text(
    phase: str, request: RebuildRequest, result: RebuildResult, plan: RebuildPlan | None
) -> str:
    lines = [f"**{phase}** ({request.reason})"]
    if plan is not None and plan.nodes:
        lines.append(f"- now: {len(plan.nodes)} nodes of level {plan.level}; {plan.left:,} left")
    lines += [
        f"- replaced: {result.replaced:,}; merged: {result.merged:,}",
        f"- could not pay: {result.skipped:,}; could not be made: {result.degraded:,}",
        f"- read: {result.tokens_read:,} tokens"
        + (f" of {request.max_tokens:,}" if request.max_tokens else ""),
        f"- checkpoint: turn {result.checkpoint_turn}",
    ]
    return "\n".join(lines)
