"""What operators read in Temporal: ranges, counts and reasons, never content. Details are Markdown:
the phase, then a table.
"""

from collections.abc import Sequence
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from durable_context.compaction.run_texts import in_markdown
    from durable_context.contracts import (
        CompactionRequest,
        CompactionResult,
        NodeRange,
        Plan,
        Spending,
        SummarizeResult,
    )

# Temporal refuses a summary that is too long, and with it the whole workflow task.
RECIPE_CHARACTERS = 60
# The UI draws a frame that is too low by a line.
END = "\u00a0"

Row = tuple[str, str]
"""Without a value it is left out."""


def turns_text(from_turn: int, to_turn: int) -> str:
    return f"turns {from_turn}–{to_turn}"


def recipe_text(recipe: str) -> str:
    """` with …`; nothing where it is not known, as in histories of older versions."""
    if len(recipe) > RECIPE_CHARACTERS:
        recipe = f"{recipe[:RECIPE_CHARACTERS]}…"
    return f" with {recipe}" if recipe else ""


def work_text(node: NodeRange, plan: Plan) -> str:
    turns, recipe = turns_text(node.from_turn, node.to_turn), recipe_text(plan.recipe)
    if node.level:
        return f"merge {turns}{recipe} (level {node.level})"
    return f"summarize {turns}{recipe}, {plan.tokens_before:,} tokens"


def artifacts_text(plan: Plan) -> str:
    return f"summarize artifacts{recipe_text(plan.recipe)}, {plan.artifacts:,} due"


def details(phase: str, rows: Sequence[Row], error: str | None = None) -> str:
    """The first row is the head of the table."""
    shown = [f"| {name} | {_cell(value)} |" for name, value in rows if value]
    if error:
        shown.insert(1, f"| error | {_cell(error)} |")
    return "\n".join([f"**{_cell(phase)}**", "", shown[0], "|:--|:--|", *shown[1:], "", END])


def compaction_details(
    phase: str,
    request: CompactionRequest,
    result: CompactionResult,
    plan: Plan | None,
    made: Sequence[SummarizeResult],
    elapsed: timedelta,
    error: str | None = None,
) -> str:
    """The last segment's figures stay in view while the next one is worked on."""
    now: list[Row] = [] if plan is None else _segment_rows(plan, made)
    last: list[Row] = _result_rows(result) if result.passes else []
    rows: list[Row] = [
        ("reason", request.reason),
        *now,
        *last,
        ("artifacts summarized", _count(result.artifacts)),
        ("checkpoint", f"turn {result.checkpoint_turn}"),
        ("elapsed", duration_text(elapsed)),
    ]
    return details(phase, rows, error)


def _segment_rows(plan: Plan, made: Sequence[SummarizeResult]) -> list[Row]:
    """Of what is worked on."""
    turns = turns_text(plan.turns.from_turn, plan.turns.to_turn) if plan.nodes else ""
    return [
        ("now", turns),
        ("tokens of these", _count(plan.tokens_before)),
        ("nodes made", f"{len(made)} of {len(plan.nodes)}" if plan.nodes else ""),
        ("attempts at these", _count(sum(node.attempts for node in made))),
        ("degraded of these", _count(sum(node.degraded for node in made))),
        ("artifacts due", _count(plan.artifacts)),
        ("asked", plan.recipe),
    ]


def _result_rows(result: CompactionResult) -> list[Row]:
    made_by = result.made_by if result.made_by != result.recipe else ""
    return [
        ("last segment", turns_text(result.from_turn, result.checkpoint_turn)),
        ("tokens before, after", f"{result.tokens_before:,} → {result.tokens_after:,}"),
        ("recipe", result.recipe),
        ("made by", made_by),
        ("segments", f"{result.passes:,}"),
        ("attempts", f"{result.attempts:,}"),
        ("degraded", f"{result.degraded:,}"),
        *spending_rows(result.spending),
    ]


def spending_rows(spending: Spending) -> list[Row]:
    return [
        ("tokens of models", f"{spending.input_tokens:,} read, {spending.output_tokens:,} written"),
        ("cost", "not known" if spending.price is None else f"${spending.price:.4f}"),
    ]


def duration_text(duration: timedelta) -> str:
    seconds = duration.total_seconds()
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _count(count: int) -> str:
    return f"{count:,}" if count else ""


def _cell(text: str) -> str:
    """One line, that neither ends a cell nor is read as Markdown."""
    return in_markdown(text)


def type_of(error: ActivityError) -> str | None:
    cause = error.cause
    return cause.type if isinstance(cause, ApplicationError) else None


def reason_of(error: ActivityError) -> str:
    cause = error.cause
    if isinstance(cause, ApplicationError):
        return f"{error.activity_type}: {cause.type}: {cause.message}"
    return f"{error.activity_type}: {cause or error.message}"
