"""Where the summary tree is cut: pure functions of stored turns and policy, so that it is the same
tree however late or often compaction runs.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeVar

from durable_context.contracts import NodeRange
from durable_context.policy import CompactionPolicy


class TurnSize(NamedTuple):
    """What of a turn decides where segments end. `token_count`: its size as it is stored and as a
    summarizer reads it; `raw_tokens`: as a raw turn shows it.
    """

    turn_no: int
    token_count: int
    raw_tokens: int


class Node(Protocol):
    """A summary or the range of one."""

    @property
    def level(self) -> int: ...

    @property
    def from_turn(self) -> int: ...

    @property
    def to_turn(self) -> int: ...


N = TypeVar("N", bound=Node)


def segment_ends(turns: Iterable[TurnSize], policy: CompactionPolicy) -> Iterator[int]:
    """Last turns of the segments that `turns`, the first of which begins one, fill up."""
    length = tokens = 0
    for turn in turns:
        length += 1
        tokens += turn.token_count
        if length >= policy.segment_turns or tokens >= policy.segment_tokens:
            yield turn.turn_no
            length = tokens = 0


def compactable_turn(head: int, open_run: Sequence[TurnSize], policy: CompactionPolicy) -> int:
    """The last turn that need not stay raw. `open_run`: the open run's turns, newest first."""
    return min(head - policy.keep_raw_turns, head - _raw_window(open_run, policy.run_raw_tokens))


def due_segment(
    turns: Iterable[TurnSize], compactable: int, policy: CompactionPolicy
) -> int | None:
    """The last turn of the segment that begins with the first of `turns`, if it is due."""
    end = next(segment_ends(turns, policy), None)
    return end if end is not None and end <= compactable else None


def completed_nodes(
    frontier: Sequence[NodeRange], leaf: NodeRange, fan_out: int
) -> tuple[NodeRange, ...]:
    """The leaf and the merges it completes, level by level.

    With a constant fan-out the frontier is a counter of leaves in that base. Should the fan-out
    change, nodes of one level that pile up behind a checkpoint merge together.
    """
    nodes = [leaf]
    older = list(frontier)
    while (merged := _merged(older, nodes[-1], fan_out)) is not None:
        while older and older[-1].from_turn >= merged.from_turn:
            older.pop()
        nodes.append(merged)
    return tuple(nodes)


def next_frontier(frontier: Sequence[N], nodes: Sequence[N]) -> tuple[N, ...]:
    """The frontier after `nodes` of `completed_nodes`: the coarsest stands for all it covers."""
    top = nodes[-1]
    return (*(node for node in frontier if node.to_turn < top.from_turn), top)


def _merged(older: Sequence[NodeRange], newest: NodeRange, fan_out: int) -> NodeRange | None:
    count, first = 1, newest
    for node in reversed(older):
        if node.level != newest.level:
            break
        count, first = count + 1, node
    if count < fan_out:
        return None
    return NodeRange(level=newest.level + 1, from_turn=first.from_turn, to_turn=newest.to_turn)


def _raw_window(newest_first: Iterable[TurnSize], tokens: int) -> int:
    """How many of the newest turns stay within `tokens` together."""
    count = 0
    for turn in newest_first:
        tokens -= turn.raw_tokens
        if tokens < 0:
            break
        count += 1
    return count
