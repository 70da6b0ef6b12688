"""The checkpoint that follows from the previous one and the nodes of the next segment."""

from collections.abc import Iterable, Sequence
from typing import Any

from durable_context.compaction.accounting import figures
from durable_context.compaction.publishing import NewCheckpoint
from durable_context.compaction.segments import next_frontier
from durable_context.errors import StalePlan
from durable_context.models import Checkpoint, LedgerEntry, Summary
from durable_context.policy import CompactionPolicy
from durable_context.prompts.rendering import render_checkpoint
from durable_context.tokens import TokenCounter
from durable_context.turns.ledger import merge_ledgers


def checkpoint_after(
    previous: Checkpoint | None,
    publication: int,
    older: Sequence[Summary],
    nodes: Sequence[Summary],
    ledger: Sequence[LedgerEntry],
    counter: TokenCounter,
    policy: CompactionPolicy,
) -> NewCheckpoint:
    """`older`: the previous frontier, as it is by now, at `publication` of the branch. `nodes`: the
    leaf, then its merges. `ledger`: the leaf's.
    """
    leaf, covered = nodes[0], previous.turn_no if previous else 0
    if leaf.level != 0 or leaf.from_turn != covered + 1:
        raise StalePlan(f"the node of turns {leaf.from_turn}-{leaf.to_turn} follows {covered}")
    frontier = next_frontier(older, nodes)
    check_cover(frontier)
    entries = merge_ledgers(previous.ledger if previous else (), ledger)
    rendered = render_checkpoint(frontier, entries, counter=counter, policy=policy)
    return NewCheckpoint(
        previous=previous,
        publication=publication,
        turn_no=leaf.to_turn,
        summary_ids=[node.summary_id for node in nodes],
        frontier=[node.summary_id for node in frontier],
        rendered=rendered,
        token_usage=_token_usage(previous, nodes, frontier),
        tokens_before=leaf.covered_tokens,
        tokens_after=leaf.token_count,
        figures=figures(previous, rendered, leaf.covered_tokens, counter),
        policy=policy,
    )


def check_cover(frontier: Sequence[Summary]) -> None:
    """Raises StalePlan unless each turn up to the last is there once."""
    next_turn = 1
    for node in frontier:
        if node.from_turn != next_turn:
            raise StalePlan(f"no node of the frontier begins with turn {next_turn}")
        next_turn = node.to_turn + 1


def _token_usage(
    previous: Checkpoint | None, nodes: Sequence[Summary], frontier: Iterable[Summary]
) -> dict[str, int]:
    """Totals since turn 1: raw tokens covered, tokens read to summarize them, and what models
    reported of the calls behind the published nodes.
    """
    before: dict[str, int] = previous.token_usage if previous else {}
    calls: list[dict[str, Any]] = [
        call for node in nodes for call in (node.usage or {}).get("attempts", ())
    ]
    added = {
        "covered_tokens": nodes[0].covered_tokens,
        "read_tokens": sum(node.input_tokens for node in nodes),
        "model_calls": len(calls),
        "model_input_tokens": sum(call.get("input_tokens", 0) for call in calls),
        "model_output_tokens": sum(call.get("output_tokens", 0) for call in calls),
    }
    totals = {name: before.get(name, 0) + count for name, count in added.items()}
    return totals | {"frontier_tokens": sum(node.token_count for node in frontier)}
