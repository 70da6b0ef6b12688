"""A replay in figures: the JSON object that commands and the demo end with."""

from collections.abc import Sequence
from typing import Any

from durable_context.cli.history_figures import HistoryFigures
from durable_context.cli.replay_model import ReplayedTurn
from durable_context.models import Compaction


def figures_of(
    turns: Sequence[ReplayedTurn],
    compactions: Sequence[Compaction],
    histories: Sequence[HistoryFigures],
    artifacts: int,
) -> dict[str, Any]:
    """Absent figures are null: percentiles of nothing, histories that Temporal does not know.

    Turns are those of forks, too. `invalid`: prompts that something is wrong with.
    """
    conversations = {turn.conversation_id for turn in turns}
    branches = {(turn.conversation_id, turn.branch_id) for turn in turns}
    times = [turn.prepare_ms for turn in turns if turn.prepare_ms is not None]
    return {
        "conversations": len(conversations),
        "forks": len(branches) - len(conversations),
        "turns": len(turns),
        "repeated": sum(turn.repeated for turn in turns),
        "artifacts": artifacts,
        "compactions": sum(compaction.status == "completed" for compaction in compactions),
        "failed": sum(compaction.status == "failed" for compaction in compactions),
        "over_budget": sum(turn.exceeded is not None for turn in turns),
        "invalid": sum(bool(turn.problems) for turn in turns),
        "prompt_tokens_max": max((turn.prompt_tokens or 0 for turn in turns), default=0),
        "raw_tokens": sum(turn.tokens for turn in turns),
        "prepare_ms": {"p50": percentile(times, 50), "p99": percentile(times, 99)},
        "history_events": _p50_and_max([history.events for history in histories]),
        "history_bytes": _p50_and_max([history.bytes for history in histories]),
    }


def percentile(values: Sequence[float], percent: int) -> float | None:
    """By nearest rank."""
    if not values:
        return None
    rank = -(-len(values) * percent // 100)
    return round(sorted(values)[max(rank, 1) - 1], 2)


def _p50_and_max(values: Sequence[float]) -> dict[str, float | None]:
    return {"p50": percentile(values, 50), "max": percentile(values, 100)}
