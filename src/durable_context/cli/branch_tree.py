"""The branches of a conversation on the terminal, as the tree they form."""

from collections.abc import Sequence

from rich.console import Group
from rich.text import Text
from rich.tree import Tree

from durable_context.cli.output import Line, one_line
from durable_context.cli.pause_view import pause_text
from durable_context.cli.times import moment
from durable_context.models import BranchInfo


def branch_trees(branches: Sequence[BranchInfo], *, iso: bool = False) -> Group:
    """A tree for each root. `branches`: parents before their children."""
    roots: list[Tree] = []
    trees: dict[str, Tree] = {}
    for branch in branches:
        line = Line(_branch_text(branch, iso=iso))
        if branch.parent_id is None:
            roots.append(Tree(line))
            trees[branch.branch_id] = roots[-1]
        else:
            trees[branch.branch_id] = trees[branch.parent_id].add(line)
    return Group(*roots)


def _branch_text(branch: BranchInfo, *, iso: bool) -> Text:
    text = one_line(branch.branch_id, style="bold")
    if branch.fork_turn is not None:
        text.append(f" · forked at turn {branch.fork_turn}", style="not bold")
    text.append(f" · head {branch.head_turn} · checkpoint {branch.checkpoint_turn}", "not bold")
    if branch.last_turn_at is not None:
        time = moment(branch.last_turn_at, iso=iso)
        text.append(f" · last turn {time}", style="not bold dim")
    for pause in branch.pauses:
        text.append(" · ", style="not bold").append_text(pause_text(pause, iso=iso))
    return text
