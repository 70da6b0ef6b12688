"""Lines of a summary that say where a sentence stands and who said it, written and read back.

`[turn 12] (2024-05-15) User: …`, then further speakers of that turn on lines of their own.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from durable_context.models import Turn

TOOLS: Final = "Tools"
FILLER: Final = 0.1
"""Bonus of a courtesy."""

_LINE: Final = re.compile(
    r"(?:(?P<label>\[turns? [\d-]{1,24}\](?: \(\w+\))?) )?(?:\((?P<day>\d{4}-\d\d-\d\d)\) )?"
    r"(?:(?P<speaker>[^:\n]{1,40}): )?(?P<text>.*)"
)
_ENDED: Final = tuple(".!?:;…。！？؟।)")


class Said(NamedTuple):
    """A sentence with its place. `group`: the turn or node it belongs to; `place` orders it there.

    `bonus` and `rank` are those of a Unit.
    """

    group: int
    place: int
    label: str
    day: str
    speaker: str
    text: str
    bonus: float = 1.0
    rank: int = 2


def turn_label(turn: Turn) -> str:
    label = f"[turn {turn.turn_no}]"
    return label if turn.outcome == "complete" else f"{label} ({turn.outcome})"


def render(said: Sequence[Said]) -> str:
    """In order of groups and places; a date where it changes."""
    ordered = sorted(said, key=lambda one: (one.group, one.place))
    lines: list[str] = []
    day = ""
    for label, under in groupby(ordered, key=lambda one: one.label):
        head = f"{label} " if label else ""
        for (spoken_on, speaker), run in groupby(under, key=lambda one: (one.day, one.speaker)):
            if spoken_on and spoken_on != day:
                head += f"({spoken_on}) "
                day = spoken_on
            name = f"{speaker}: " if speaker else ""
            lines.append(head + name + _joined([one.text for one in run]))
            head = ""
    return "\n".join(lines)


def read_lines(text: str, group: int) -> Iterator[Said]:
    """The lines of a summary that `render` wrote, each as one Said."""
    label = day = ""
    for place, line in enumerate(text.splitlines()):
        match = _LINE.fullmatch(line.strip())
        assert match is not None
        label, day = match["label"] or label, match["day"] or day
        speaker, said = match["speaker"] or "", match["text"]
        said_on = day
        if label.startswith("[turns"):
            said_on, speaker, said = "", "", f"{speaker}: {said}" if speaker else said
        if said.strip():
            yield Said(group, place, label, said_on, speaker, said.strip())


def _joined(sentences: Sequence[str]) -> str:
    *before, last = sentences
    return " ".join([*(one if one.endswith(_ENDED) else f"{one}." for one in before), last])
