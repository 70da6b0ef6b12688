"""A branch on the terminal: summary tree, checkpoints, artifacts, tail, lag, compactions."""

from collections.abc import Collection, Iterator, Sequence
from uuid import UUID

from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from durable_context.cli.artifact_view import artifact_table
from durable_context.cli.branch_reading import BranchReading
from durable_context.cli.output import Line, one_line, titled_table, visible
from durable_context.cli.pause_view import pause_text
from durable_context.cli.replay_view import turn_range
from durable_context.cli.times import moment
from durable_context.contracts import compaction_workflow_id
from durable_context.models import Ancestor, BranchState, Checkpoint, Compaction, Summary, Turn

_NEWEST_CHECKPOINTS = 5
_SHORT_LINE = 100


def print_branch(out: Console, read: BranchReading, *, iso: bool) -> None:
    state = read.state
    out.print(_title(state))
    if len(state.lineage) > 1:
        out.print(_lineage(state.lineage), soft_wrap=True)
    out.print(_lag(read), soft_wrap=True)
    for pause in state.pauses:
        out.print(pause_text(pause, iso=iso), soft_wrap=True)
    out.print()
    out.print(frontier_tree(state, read.summaries))
    if read.checkpoints:
        out.print()
        out.print(_checkpoint_table(read.checkpoints, read.inherited, iso=iso))
    if state.artifacts:
        out.print()
        out.print(artifact_table(state.artifacts))
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


def _lineage(lineage: Sequence[Ancestor]) -> Text:
    """Which turns are whose, from the branch itself to its root."""
    text = Text("lineage: ")
    for number, ancestor in enumerate(lineage):
        text.append(" ← " if number else "").append_text(one_line(ancestor.branch_id))
        text.append(f" {_own_turns(ancestor)}", style="dim")
    return text


def _own_turns(ancestor: Ancestor) -> str:
    if ancestor.to_turn < ancestor.from_turn:
        return "no turns"
    word = "turn" if ancestor.from_turn == ancestor.to_turn else "turns"
    return f"{word} {turn_range(ancestor.from_turn, ancestor.to_turn)}"


def _lag(read: BranchReading) -> Text:
    state, policy = read.state, read.policy
    lag = state.lag
    text = Text(f"workflow {compaction_workflow_id(state.branch_uuid)} · ", style="dim")
    if state.open_run_turn is not None:
        text.append(f"long run open since turn {state.open_run_turn} · ", style="not dim")
    if not lag.turns:
        return text.append("no lag", style="not dim")
    turns = "1 turn" if lag.turns == 1 else f"{lag.turns} turns"
    text.append(f"lag {turns}, {lag.tokens:,} tokens", style="not dim")
    if read.due:
        return text.append(f", {lag.seconds:.0f} s; a segment is due", style="not dim")
    full = f"{policy.segment_turns} turns or {policy.segment_tokens:,} tokens"
    return text.append(f"; nothing due until a segment of {full} is full", style="not dim")


def _checkpoint_table(
    checkpoints: Sequence[Checkpoint], inherited: Collection[UUID], *, iso: bool
) -> Table:
    newest = checkpoints[-_NEWEST_CHECKPOINTS:]
    shown = f"newest {len(newest)} of " if len(newest) < len(checkpoints) else ""
    table = titled_table(f"checkpoints: {shown}{len(checkpoints)}, newest last")
    for name in ("at turn", "nodes", "ledger", "tokens"):
        table.add_column(name, justify="right")
    table.add_column("made", no_wrap=True)
    if inherited:
        table.add_column("by")
    for checkpoint in newest:
        table.add_row(
            str(checkpoint.turn_no),
            str(len(checkpoint.frontier)),
            str(len(checkpoint.ledger)),
            f"{checkpoint.token_count:,}",
            moment(checkpoint.created_at, iso=iso),
            *([_maker(checkpoint, inherited)] if inherited else []),
        )
    return table


def _maker(checkpoint: Checkpoint, inherited: Collection[UUID]) -> Text:
    if checkpoint.checkpoint_id in inherited:
        return Text("inherited", style="dim")
    return Text("this branch")


def _tail_line(turn: Turn) -> Text:
    line = Text.assemble((f"{turn.turn_no:>5}", "bold"), f"  {turn.token_count:,} tokens · ")
    if turn.outcome != "complete":
        line.append(f"{turn.outcome} · ", style="yellow")
    if turn.continues:
        line.append("continues · ")
    return line.append_text(one_line(turn.digest, style="dim"))


def _compaction_table(compactions: Sequence[Compaction]) -> Table:
    table = titled_table("compactions, newest first")
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
