"""What operators read in Temporal of rebuilds and sweeps; compactions are in `details`."""

from collections.abc import Sequence
from datetime import timedelta

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from durable_context.contracts import NodeRange
    from durable_context.contracts.rebuild import RebuildPlan, RebuildRequest, RebuildResult
    from durable_context.contracts.sweep import SweepCounts, SweepPosition, SweepRequest
    from workflows.details import (
        Row,
        details,
        duration_text,
        recipe_text,
        spending_rows,
        turns_text,
    )


def node_text(node: NodeRange, recipe: str, tokens: int) -> str:
    """Of a node that is made beside, or instead of, a published one."""
    turns = turns_text(node.from_turn, node.to_turn)
    verb = f"merge {turns} (level {node.level})" if node.level else f"summarize {turns} again"
    return f"{verb}{recipe_text(recipe)}, {tokens:,} tokens"


def rebuild_details(
    phase: str,
    request: RebuildRequest,
    result: RebuildResult,
    plan: RebuildPlan | None,
    elapsed: timedelta,
    error: str | None = None,
) -> str:
    budget = f"{result.tokens_read:,} of {request.max_tokens:,}" if request.max_tokens else ""
    left = f"{result.left:,}" if result.left else ""
    rows: list[Row] = [
        ("reason", request.reason),
        ("turns", _asked_turns(request)),
        *([] if plan is None else _batch_rows(plan)),
        ("nodes replaced", f"{result.replaced:,}"),
        ("nodes merged", f"{result.merged:,}"),
        ("could not pay", f"{result.skipped:,}"),
        ("could not be made", f"{result.degraded:,}"),
        ("still due", left),
        ("budget of tokens", budget),
        *spending_rows(result.spending),
        ("checkpoint", f"turn {result.checkpoint_turn}"),
        ("elapsed", duration_text(elapsed)),
    ]
    return details(phase, rows, error)


def _asked_turns(request: RebuildRequest) -> str:
    """Where somebody named any."""
    if request.reason != "rebuild":
        return ""
    return f"{request.from_turn}–{request.to_turn or 'newest checkpoint'}"


def _batch_rows(plan: RebuildPlan) -> Sequence[Row]:
    if not plan.nodes:
        return []
    return [
        ("now", f"{len(plan.nodes)} nodes of level {plan.level}"),
        ("after these", f"{plan.left:,} nodes"),
        ("asked", plan.recipe),
    ]


def sweep_details(
    phase: str,
    request: SweepRequest,
    position: SweepPosition,
    elapsed: timedelta,
    error: str | None = None,
) -> str:
    rows: list[Row] = [
        ("sweep", request.kind),
        *[(name, f"{count:,}") for name, count in _figures(position.counts).items()],
        ("goes on after", "" if position.is_done else position.after),
        ("elapsed", duration_text(elapsed)),
    ]
    return details(phase, rows, error)


def _figures(counts: SweepCounts) -> dict[str, int]:
    """Those that say something, and how many were looked at."""
    figures = counts.model_dump(exclude={"found"}) | counts.found
    return {name: count for name, count in figures.items() if count or name == "scanned"}
