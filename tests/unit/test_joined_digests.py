"""Many digests as few lines: what compaction that has not run for long leaves."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, overload

from durable_context import CompactionPolicy
from durable_context.prompts.blocks import Line
from durable_context.prompts.digesting import joined_states
from durable_context.tokens import token_counter

POLICY = CompactionPolicy()


class _Counted(Sequence[Line]):
    """Lines that count how many of them were taken."""

    def __init__(self, lines: list[Line]) -> None:
        self.lines = lines
        self.taken = 0

    def __len__(self) -> int:
        return len(self.lines)

    @overload
    def __getitem__(self, index: int) -> Line: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Line]: ...
    def __getitem__(self, index: Any) -> Any:
        self.taken += len(range(*index.indices(len(self)))) if isinstance(index, slice) else 1
        return self.lines[index]


def _lines(count: int) -> list[Line]:
    said = "Asked about a shipment; it is late."
    return [Line(turn, turn, f"[turn {turn}] {said}\n", 14, said, said) for turn in range(1, count)]


def test_joining_takes_each_line_a_few_times_however_many_there_are() -> None:
    lines = _Counted(_lines(3_000))
    states = list(joined_states(lines, POLICY, token_counter("o200k_base")))
    assert len(states) > 500
    assert lines.taken < 5 * len(lines)


def test_a_state_that_was_passed_by_still_has_its_own_lines() -> None:
    lines = _lines(400)
    states = list(joined_states(lines, POLICY, token_counter("o200k_base")))
    whole = sum(line.tokens for line in lines)
    for state in states:
        shown = state.lines()
        assert (shown[0].from_turn, shown[-1].to_turn) == (1, 399)
        assert all(a.to_turn + 1 == b.from_turn for a, b in pairwise(shown))
        assert whole - sum(line.tokens for line in shown) == state.saved
    assert len(states[-1].lines()) == 1
