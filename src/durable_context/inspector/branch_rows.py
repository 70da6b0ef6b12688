"""Branches of a conversation, each below the one it was forked from, with lines that join them."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from durable_context.models import BranchInfo
from durable_context.policy import CompactionPolicy

LANE: Final = 14
HEIGHT: Final = 30
LANES: Final = 12
"""Forks of forks that are drawn beside each other; those below share the last lane."""
BAR: Final = 150


class Bar(NamedTuple):
    """Turns of a branch along an axis of all turns of the conversation, in pixels: inherited ones
    end at `fork`, its own at `head`, and those compacted at `checkpoint`.
    """

    fork: float
    head: float
    checkpoint: float


class BranchRow(NamedTuple):
    """`path` draws the lines that lead to its dot, at `dot` pixels from the left. `waiting` turns
    and tokens need not stay raw, about; `is_behind`: a segment is due of them.
    """

    info: BranchInfo
    depth: int
    path: str
    dot: int
    width: int
    bar: Bar
    own_turns: int
    waiting: int
    waiting_tokens: int
    is_behind: bool


class _Place(NamedTuple):
    """`lanes`: for each ancestor below its root whether more children of its parent follow."""

    info: BranchInfo
    lanes: tuple[bool, ...]
    has_children: bool


def branch_rows(branches: Sequence[BranchInfo], policy: CompactionPolicy) -> list[BranchRow]:
    """Depth first, forks of a branch by the turn they were made at. Reads nothing."""
    most = max((info.head_turn for info in branches), default=0) or 1
    return [_row(place, most, policy) for place in _places(branches)]


def _places(branches: Sequence[BranchInfo]) -> Iterator[_Place]:
    children: dict[str | None, list[BranchInfo]] = {}
    for info in sorted(branches, key=lambda one: (one.fork_turn or 0, one.created_at)):
        children.setdefault(info.parent_id, []).append(info)
    # A stack of its own: a chain of forks may be longer than calls may be nested.
    waiting = [(root, tuple[bool, ...]()) for root in reversed(children.get(None, []))]
    while waiting:
        info, lanes = waiting.pop()
        below = children.get(info.branch_id, [])
        yield _Place(info, lanes, bool(below))
        waiting += [(fork, (*lanes, fork is not below[-1])) for fork in reversed(below)]


def _row(place: _Place, most: int, policy: CompactionPolicy) -> BranchRow:
    info, depth = place.info, len(place.lanes)
    lane = min(depth, LANES)
    turns, tokens = _waiting(info, policy)
    fork = info.fork_turn or 0
    return BranchRow(
        info=info,
        depth=depth,
        path=_lines(place.lanes, lane, has_children=place.has_children),
        dot=_middle(lane),
        width=(lane + 1) * LANE,
        bar=Bar(
            *(round(turn * BAR / most, 1) for turn in (fork, info.head_turn, info.checkpoint_turn))
        ),
        own_turns=info.head_turn - fork,
        waiting=turns,
        waiting_tokens=tokens,
        is_behind=turns >= policy.segment_turns or tokens >= policy.segment_tokens,
    )


def _waiting(info: BranchInfo, policy: CompactionPolicy) -> tuple[int, int]:
    """By what the branch counts: of its newest turns as many tokens stay raw as on average."""
    tail = info.head_turn - info.checkpoint_turn
    turns = max(0, tail - policy.keep_raw_turns)
    tokens = (info.head_tokens - info.checkpoint_tokens) * turns // tail if tail else 0
    return turns, max(0, tokens)


def _lines(lanes: tuple[bool, ...], lane: int, *, has_children: bool) -> str:
    """An SVG path: ancestors that go on past the row, the way in, and the way on to children."""
    middle = HEIGHT // 2
    drawn = [f"M{_middle(at)} 0V{HEIGHT}" for at in range(lane - 1) if lanes[at]]
    if lane:
        end = HEIGHT if lanes[-1] else middle
        drawn.append(f"M{_middle(lane - 1)} 0V{end}M{_middle(lane - 1)} {middle}H{_middle(lane)}")
    if has_children and lane < LANES:
        drawn.append(f"M{_middle(lane)} {middle}V{HEIGHT}")
    return "".join(drawn)


def _middle(lane: int) -> int:
    return lane * LANE + LANE // 2
