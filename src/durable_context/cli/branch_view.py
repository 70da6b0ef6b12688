"""A branch on the terminal: the summary tree, checkpoints, tail, lag, compactions."""

from collections.abc import Iterator, Sequence
from datetime import UTC

from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from durable_context.cli.output import Line, one_line, visible
from durable_context.cli.replay_view import turn_range
from durable_context.contracts import compaction_workflow_id
from durable_context.models import BranchState, Checkpoint, Compaction, Summary, Turn
from durable_context.policy import CompactionPolicy
from durable_context.segments import TurnSize, due_segment

_NEWEST_CHECKPOINTS = 5
_SHORT_LINE = 100


def print_branch(
    out: Console,
    state: BranchState,
    summaries: Sequence[Summary],
    checkpoints: Sequence[Checkpoint],
    policy: CompactionPolicy,
) -> None:
    out.print(_title(state))
    out.print(_lag(state, policy), soft_wrap=True)
    out.print()
    out.print(frontier_tree(state, summaries))
    if checkpoints:
        out.print()
        out.print(_checkpoint_table(checkpoints))
    if state.tail:
        out.print()
        out.print(Text("tail: turns after the checkpoint", style="bold"))
        for turn in state.tail:
            out.print(Line(_tail_line(turn)))
    if state.compactions:
        out.print()
        out.print(_compaction_table(state.compactions))


def frontier_tree(state: BranchState, summaries: Sequence[Summary]) -> Tree:
    """The frontier's nodes, coarse to fine, each over the nodes it was made from."""
    if state.checkpoint is None:
        return Tree(Text("no checkpoint yet: every turn is in the tail"))
    count = len(state.frontier)
    nodes = "1 node covers" if count == 1 else f"{count} nodes cover"
    tree = Tree(Text(f"frontier: {nodes} turns {turn_range(1, state.checkpoint.turn_no)}"))
    for node in state.frontier:
        _grow(tree, node, summaries)
    return tree


def _grow(tree: Tree, node: Summary, summaries: Sequence[Summary]) -> None:
    branch = tree.add(Line(_node_text(node)))
    for child in _children(node, summaries):
        _grow(branch, child, summaries)


def _children(node: Summary, summaries: Sequence[Summary]) -> Iterator[Summary]:
    return (
        child
        for child in summaries
        if child.level == node.level - 1
        and node.from_turn <= child.from_turn
        and child.to_turn <= node.to_turn
    )


def _node_text(node: Summary) -> Text:
    text = Text()
    word = "turn" if node.from_turn == node.to_turn else "turns"
    text.append(f"{word} {turn_range(node.from_turn, node.to_turn)}", style="bold")
    text.append(f" · level {node.level} · {node.covered_tokens:,} → {node.token_count:,} tokens · ")
    text.append(visible(node.made_by), style="dim")
    if node.degraded:
        text.append(" · degraded", style="yellow")
    return text.append(" · ").append_text(one_line(node.headline))


def _title(state: BranchState) -> Text:
    turns = "turn" if state.head_turn == 1 else "turns"
    title = one_line(f"{state.conversation_id} / {state.branch_id}", style="bold")
    title.append(f": {state.head_turn:,} {turns}, {state.head_tokens:,} tokens", style="not bold")
    title.append(f" ({state.encoding})", style="not bold dim")
    return title


def _lag(state: BranchState, policy: CompactionPolicy) -> Text:
    lag = state.lag
    text = Text(f"workflow {compaction_workflow_id(state.branch_uuid)} · ", style="dim")
    if state.open_run_turn is not None:
        text.append(f"long run open since turn {state.open_run_turn} · ", style="not dim")
    if not lag.turns:
        return text.append("no lag", style="not dim")
    turns = "1 turn" if lag.turns == 1 else f"{lag.turns} turns"
    text.append(f"lag {turns}, {lag.tokens:,} tokens", style="not dim")
    if _segment_is_due(state, policy):
        return text.append(f", {lag.seconds:.0f} s; a segment is due", style="not dim")
    full = f"{policy.segment_turns} turns or {policy.segment_tokens:,} tokens"
    return text.append(f"; nothing due until a segment of {full} is full", style="not dim")


def _segment_is_due(state: BranchState, policy: CompactionPolicy) -> bool:
    behind = [
        TurnSize(turn.turn_no, turn.token_count, turn.token_count)
        for turn in state.tail[: state.lag.turns]
    ]
    return due_segment(behind, behind[-1].turn_no, policy) is not None


def _checkpoint_table(checkpoints: Sequence[Checkpoint]) -> Table:
    newest = checkpoints[-_NEWEST_CHECKPOINTS:]
    shown = f"newest {len(newest)} of " if len(newest) < len(checkpoints) else ""
    table = _table(f"checkpoints: {shown}{len(checkpoints)}, newest last")
    for name in ("at turn", "nodes", "ledger", "tokens"):
        table.add_column(name, justify="right")
    table.add_column("made (UTC)")
    for checkpoint in newest:
        table.add_row(
            str(checkpoint.turn_no),
            str(len(checkpoint.frontier)),
            str(len(checkpoint.ledger)),
            f"{checkpoint.token_count:,}",
            f"{checkpoint.created_at.astimezone(UTC):%Y-%m-%d %H:%M:%S}",
        )
    return table


def _tail_line(turn: Turn) -> Text:
    line = Text.assemble((f"{turn.turn_no:>5}", "bold"), f"  {turn.token_count:,} tokens · ")
    if turn.outcome != "complete":
        line.append(f"{turn.outcome} · ", style="yellow")
    if turn.continues:
        line.append("continues · ")
    return line.append_text(one_line(turn.digest, style="dim"))


def _compaction_table(compactions: Sequence[Compaction]) -> Table:
    table = _table("compactions, newest first")
    for name in ("turns", "status", "reason"):
        table.add_column(name)
    for name in ("attempts", "tokens"):
        table.add_column(name, justify="right")
    table.add_column("error", overflow="fold", ratio=1)
    for compaction in compactions:
        table.add_row(
            turn_range(compaction.from_turn, compaction.to_turn),
            Text(compaction.status, style="red" if compaction.status == "failed" else ""),
            one_line(compaction.reason),
            str(compaction.attempts),
            f"{_tokens(compaction.tokens_before)} → {_tokens(compaction.tokens_after)}",
            one_line((compaction.error or "")[:_SHORT_LINE]),
        )
    return table


def _tokens(count: int | None) -> str:
    return "?" if count is None else f"{count:,}"


def _table(title: str) -> Table:
    return Table(
        title=Text(title, style="bold"),
        title_justify="left",
        box=None,
        pad_edge=False,
        header_style="dim",
    )
