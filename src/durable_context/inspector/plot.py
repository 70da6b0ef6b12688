"""The plot of a branch: where everything stands in a drawing of fixed size, in its units.

Above is what each turn brought; below, on a logarithmic scale, what all turns come to and what a
checkpoint and the turns after it do. Between the two are the compactions, one row for each outcome.
"""

from collections.abc import Callable, Iterable, Sequence
from math import ceil, floor, log10
from typing import Final, NamedTuple, get_args

from durable_context.inspector.formats import turns
from durable_context.looks.sizes import BranchSizes, CompactionMark, MarkOutcome, SizeBucket

WIDTH: Final = 960
LEFT: Final = 62
RIGHT: Final = 950
BARS: Final = (18, 108)
"""Top and bottom of the bars, top of the first row of marks, height of the lines."""
MARKS: Final = 126
LINES: Final = 134
BUCKETS: Final = 200
"""More would be narrower than they can be told apart."""

ROW: Final = 12
"""Height of a row of marks."""
_FEW: Final = 20
"""Of so few bars none is cut off."""
_OUTLIER: Final = 10
"""Bars more than this many times as high as nearly all others are cut off ..."""
_CUT: Final = 4
"""... at so many times the height of those."""


class Tick(NamedTuple):
    at: float
    label: str


class Bar(NamedTuple):
    """`top` is the bar's, `peak` that of the bucket's largest turn; `is_cut`: it is higher than the
    drawing.
    """

    x: float
    width: float
    top: float
    peak: float
    is_cut: bool
    bucket: SizeBucket

    @property
    def title(self) -> str:
        bucket = self.bucket
        text = f"{turns(bucket.from_turn, bucket.to_turn)}: {bucket.tokens:,} tokens"
        if bucket.from_turn < bucket.to_turn:
            text += f", the largest turn {bucket.largest:,}"
        return f"{text}; all turns {bucket.whole:,}, carried {bucket.carried:,}"


class MarkPlace(NamedTuple):
    x: float
    y: float
    mark: CompactionMark

    @property
    def title(self) -> str:
        mark = self.mark
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in mark.reasons)
        if mark.count == 1:
            reasons = mark.reasons[0][0]
        counted = "" if mark.count == 1 else f"{mark.count:,} "
        return (
            f"{counted}{mark.outcome}, {turns(mark.from_turn, mark.to_turn)}, by reason: {reasons}"
        )


class Plot(NamedTuple):
    """`inherited` is where the ancestors' turns end, None where there are none."""

    bars: tuple[Bar, ...]
    marks: tuple[MarkPlace, ...]
    whole: str
    carried: str
    inherited: float | None
    turn_ticks: tuple[Tick, ...]
    size_ticks: tuple[Tick, ...]
    sum_ticks: tuple[Tick, ...]
    head_turn: int
    outcomes: tuple[str, ...]
    lines_top: int
    lines_bottom: int
    height: int
    width: int = WIDTH
    left: int = LEFT
    right: int = RIGHT
    top: int = BARS[0]
    bars_bottom: int = BARS[1]
    marks_top: int = MARKS - 3

    @property
    def is_bucketed(self) -> bool:
        """Whether a bar stands for several turns."""
        return len(self.bars) < self.head_turn

    @property
    def is_cut(self) -> bool:
        """Whether a bar is higher than the drawing."""
        return any(bar.is_cut for bar in self.bars)

    @property
    def highest(self) -> Bar:
        """That of the largest turn."""
        return max(self.bars, key=lambda bar: bar.bucket.largest)

    @property
    def described(self) -> str:
        """The drawing in a sentence."""
        last = self.bars[-1].bucket
        text = f"{turns(1, self.head_turn)}: {last.whole:,} tokens in all"
        return f"{text}; checkpoint and the turns after it come to {last.carried:,}"


def plot_of(sizes: BranchSizes) -> Plot | None:
    """None where there is no turn to draw."""
    if not sizes.buckets:
        return None
    across = _across(sizes.head_turn)
    bars_top = _bars_top(sizes.buckets)
    outcomes = _outcomes(sizes.marks)
    top = MARKS + ROW * len(outcomes) + (20 if outcomes else 8)
    sums = _sums(sizes.buckets)
    up = _logarithmic(*sums, (top, top + LINES))
    return Plot(
        bars=tuple(_bar(bucket, across, bars_top) for bucket in sizes.buckets),
        marks=tuple(_mark(mark, across, outcomes) for mark in sizes.marks),
        whole=_steps(((bucket, up(bucket.whole)) for bucket in sizes.buckets), across),
        carried=_steps(((bucket, up(bucket.carried)) for bucket in sizes.buckets), across),
        inherited=across(sizes.inherited_turn + 0.5) if sizes.inherited_turn else None,
        turn_ticks=_turn_ticks(sizes.head_turn, across),
        size_ticks=tuple(
            Tick(_linear(value, bars_top, BARS), f"{value:,}") for value in _round_numbers(bars_top)
        ),
        sum_ticks=tuple(
            Tick(up(10**power), _power(power)) for power in range(sums[0], sums[1] + 1)
        ),
        head_turn=sizes.head_turn,
        outcomes=outcomes,
        lines_top=top,
        lines_bottom=top + LINES,
        height=top + LINES + 22,
    )


def _across(head: int) -> Callable[[float], float]:
    """Where a turn stands: its middle at its number, half a turn to each side."""

    def place(turn: float) -> float:
        return round(LEFT + (turn - 0.5) * (RIGHT - LEFT) / head, 2)

    return place


def _bars_top(buckets: Sequence[SizeBucket]) -> float:
    """Size of the highest bar that is drawn whole."""
    largest = sorted(bucket.largest for bucket in buckets)
    usual = largest[floor(0.9 * (len(largest) - 1))]
    is_far = len(largest) > _FEW and largest[-1] > usual * _OUTLIER
    return max(1.0, usual * _CUT if is_far else largest[-1])


def _average(bucket: SizeBucket) -> float:
    return bucket.tokens / (bucket.to_turn - bucket.from_turn + 1)


def _bar(bucket: SizeBucket, across: Callable[[float], float], most: float) -> Bar:
    x, end = across(bucket.from_turn - 0.5), across(bucket.to_turn + 0.5)
    gap = min(1.0, (end - x) * 0.15)
    return Bar(
        x=x,
        width=round(end - x - gap, 2),
        top=_linear(min(_average(bucket), most), most, BARS),
        peak=_linear(min(bucket.largest, most), most, BARS),
        is_cut=bucket.largest > most,
        bucket=bucket,
    )


def _outcomes(marks: Iterable[CompactionMark]) -> tuple[str, ...]:
    """Those that are drawn, a row for each."""
    drawn = {mark.outcome for mark in marks}
    return tuple(outcome for outcome in get_args(MarkOutcome) if outcome in drawn)


def _mark(
    mark: CompactionMark, across: Callable[[float], float], outcomes: tuple[str, ...]
) -> MarkPlace:
    row = outcomes.index(mark.outcome)
    return MarkPlace(across(mark.to_turn), MARKS + ROW // 2 + ROW * row, mark)


def _steps(values: Iterable[tuple[SizeBucket, float]], across: Callable[[float], float]) -> str:
    """A line that is level over each bucket, so that one turn is seen, too."""
    return " ".join(
        f"{across(bucket.from_turn - 0.5)},{y} {across(bucket.to_turn + 0.5)},{y}"
        for bucket, y in values
    )


def _linear(value: float, most: float, span: tuple[int, int]) -> float:
    top, bottom = span
    return round(bottom - value / most * (bottom - top), 2)


def _sums(buckets: Sequence[SizeBucket]) -> tuple[int, int]:
    """Powers of ten around all sums: a decade at least."""
    least = min(min(bucket.whole, bucket.carried) for bucket in buckets)
    most = max(max(bucket.whole, bucket.carried) for bucket in buckets)
    low = floor(log10(max(1, least)))
    return low, max(low + 1, ceil(log10(max(1, most))))


def _logarithmic(low: int, high: int, span: tuple[int, int]) -> Callable[[float], float]:
    def place(value: float) -> float:
        return _linear(log10(max(value, 10**low)) - low, high - low, span)

    return place


def _round_numbers(most: float) -> tuple[int, ...]:
    """Two to five of them up to `most`, from 0."""
    step = _step(most, 3)
    return tuple(range(0, floor(most) + 1, step))


def _turn_ticks(head: int, across: Callable[[float], float]) -> tuple[Tick, ...]:
    step = _step(head, 8)
    numbers = [1, *(turn for turn in range(step, head + 1, step) if turn > 1)]
    if step > 1 and head > 2 and step - 1 < 0.04 * head:
        numbers = numbers[1:]
    return tuple(Tick(across(turn), f"{turn:,}") for turn in numbers)


def _step(most: float, parts: int) -> int:
    """1, 2 or 5 times a power of ten."""
    rough = max(1.0, most / parts)
    power = 10 ** floor(log10(rough))
    return int(next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough))


def _power(power: int) -> str:
    value = 10**power
    return f"{value // 1_000_000:,} M" if power >= 6 else f"{value:,}"
