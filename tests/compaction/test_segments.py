"""Where segments end and nodes merge depends on stored turns and policy alone."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from durable_context import CompactionPolicy
from durable_context.compaction.segments import (
    TurnSize,
    compactable_turn,
    completed_nodes,
    due_segment,
    next_frontier,
    segment_ends,
)
from durable_context.contracts import NodeRange

policies = st.builds(
    CompactionPolicy,
    segment_turns=st.integers(1, 8),
    segment_tokens=st.integers(200, 3_000),
    keep_raw_turns=st.integers(0, 4),
    run_raw_tokens=st.integers(0, 4_000),
)
recorded = st.lists(
    st.tuples(st.integers(4, 2_000), st.integers(4, 2_000), st.booleans()), max_size=60
)


class Branch:
    """A branch in memory: turns with their sizes, and where its segments end."""

    def __init__(self, policy: CompactionPolicy) -> None:
        self.policy = policy
        self.turns: list[TurnSize] = []
        self.open_run_turn: int | None = None
        self.ends: list[int] = []

    def record(self, tokens: int, raw: int, continues: bool) -> None:
        turn = TurnSize(len(self.turns) + 1, tokens, min(tokens, raw))
        self.turns.append(turn)
        self.open_run_turn = (self.open_run_turn or turn.turn_no) if continues else None

    def compact(self, passes: int | None = None) -> None:
        while passes is None or passes > 0:
            run = self.turns[self.open_run_turn - 1 :][::-1] if self.open_run_turn else []
            limit = compactable_turn(len(self.turns), run, self.policy)
            done = self.ends[-1] if self.ends else 0
            end = due_segment(self.turns[done:], limit, self.policy)
            if end is None:
                return
            self.ends.append(end)
            passes = None if passes is None else passes - 1


@given(policies, recorded, st.data())
def test_compacting_late_or_often_gives_the_same_leaves(
    policy: CompactionPolicy, turns: Sequence[tuple[int, int, bool]], data: st.DataObject
) -> None:
    often, late, now_and_then = Branch(policy), Branch(policy), Branch(policy)
    for tokens, raw, continues in turns:
        for branch in (often, late, now_and_then):
            branch.record(tokens, raw, continues)
        often.compact()
        now_and_then.compact(data.draw(st.integers(0, 2)))
    for branch in (late, now_and_then):
        branch.compact()
    assert often.ends == late.ends == now_and_then.ends
    assert late.ends == list(segment_ends(late.turns, policy))[: len(late.ends)]


@given(policies, recorded)
def test_no_segment_reaches_into_the_turns_that_stay_raw(
    policy: CompactionPolicy, turns: Sequence[tuple[int, int, bool]]
) -> None:
    branch = Branch(policy)
    for turn in turns:
        branch.record(*turn)
        before = len(branch.ends)
        branch.compact()
        if len(branch.ends) > before:
            assert branch.ends[-1] <= len(branch.turns) - policy.keep_raw_turns


@given(st.integers(0, 300), st.integers(2, 6))
def test_the_frontier_counts_leaves_in_base_fan_out(leaves: int, fan_out: int) -> None:
    frontier: tuple[NodeRange, ...] = ()
    for number in range(1, leaves + 1):
        leaf = NodeRange(level=0, from_turn=2 * number - 1, to_turn=2 * number)
        nodes = completed_nodes(frontier, leaf, fan_out)
        frontier = next_frontier(frontier, nodes)
        assert [node.level for node in nodes] == list(range(len(nodes)))
        assert number % fan_out ** (len(nodes) - 1) == 0
        assert number % fan_out ** len(nodes) != 0
    assert _digits([node.level for node in frontier]) == _in_base(leaves, fan_out)
    assert _covered(frontier) == list(range(1, 2 * leaves + 1))


@given(st.lists(st.integers(2, 5), min_size=1, max_size=120))
def test_a_changed_fan_out_leaves_no_gap_and_no_overlap(fan_outs: list[int]) -> None:
    frontier: tuple[NodeRange, ...] = ()
    for number, fan_out in enumerate(fan_outs, start=1):
        leaf = NodeRange(level=0, from_turn=number, to_turn=number)
        frontier = next_frontier(frontier, completed_nodes(frontier, leaf, fan_out))
        assert _covered(frontier) == list(range(1, number + 1))
        levels = [node.level for node in frontier]
        assert levels == sorted(levels, reverse=True)


def test_eight_turns_make_one_segment_of_six() -> None:
    branch = Branch(CompactionPolicy())
    for _ in range(7):
        branch.record(100, 100, False)
        branch.compact()
        assert branch.ends == []
    branch.record(100, 100, False)
    branch.compact()
    assert branch.ends == [6]


def test_a_large_turn_ends_its_segment() -> None:
    branch = Branch(CompactionPolicy(segment_tokens=1_000))
    for tokens in (100, 900, 2_000, 10, 10):
        branch.record(tokens, tokens, False)
    branch.compact()
    assert branch.ends == [2, 3]


def test_the_newest_stretches_of_an_open_run_stay_raw() -> None:
    branch = Branch(CompactionPolicy(segment_turns=2, keep_raw_turns=1, run_raw_tokens=1_000))
    branch.record(50, 50, False)
    branch.record(50, 50, False)
    for _ in range(6):
        branch.record(300, 300, True)
    branch.compact()
    # Turns 6 to 8 are 900 tokens; with turn 5 they would be 1,200.
    assert branch.ends == [2, 4]
    branch.record(5, 5, False)
    branch.compact()
    assert branch.ends == [2, 4, 6, 8]


def _covered(frontier: Sequence[NodeRange]) -> list[int]:
    return [turn for node in frontier for turn in range(node.from_turn, node.to_turn + 1)]


def _digits(levels: Sequence[int]) -> dict[int, int]:
    return {level: levels.count(level) for level in levels}


def _in_base(number: int, base: int) -> dict[int, int]:
    digits: dict[int, int] = {}
    level = 0
    while number:
        number, digit = divmod(number, base)
        if digit:
            digits[level] = digit
        level += 1
    return digits
