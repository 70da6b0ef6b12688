"""Fits attributed sentences into a cap: the most salient ones, beside lines that stand anyway."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from durable_context.summarizers.attributed import FILLER, Said, render
from durable_context.summarizers.salience import Unit, choose
from durable_context.text import shorten
from durable_context.tokens import TokenCounter

_SENTENCE_TOKENS: Final = 60


class Selection(NamedTuple):
    """What there is to choose from. `fixed` lines are never left out; `acting`, `told` and `focus`
    are those of `choose`.
    """

    said: Sequence[Said]
    fixed: Sequence[Said] = ()
    acting: bool = False
    told: Sequence[str] = ()
    focus: str = ""


class Selected(NamedTuple):
    """`chosen`: best first."""

    chosen: Sequence[Said]
    text: str


def select(selection: Selection, cap: int, counter: TokenCounter) -> Selected:
    longest = min(_SENTENCE_TOKENS, max(8, cap // 2))
    said = [
        one._replace(text=shorten(one.text, longest, counter)) for one in _telling(selection.said)
    ]
    units = [
        Unit(one.text, one.group, counter.count(one.text) + 1, one.bonus, one.rank) for one in said
    ]
    room = cap - sum(counter.count(one.text) + 3 for one in selection.fixed)
    acting, told, focus = selection.acting, selection.told, selection.focus
    chosen = choose(units, room, acting=acting, told=told, focus=focus)
    best = [said[i] for i in chosen]
    chosen = list(best)
    text = render([*chosen, *selection.fixed])
    while chosen and counter.count(text) > cap:
        chosen.pop()
        text = render([*chosen, *selection.fixed])
    if not text and best:
        text = best[0].text  # its mark, date and speaker alone were over the cap
    return Selected(best, shorten(text, cap, counter))


def _telling(said: Sequence[Said]) -> list[Said]:
    """Each sentence of a speaker once, and courtesies only where nothing else was said."""
    first: dict[tuple[str, str], Said] = {}
    for one in said:
        first.setdefault((one.speaker, one.text.casefold()), one)
    telling = [one for one in first.values() if one.bonus > FILLER]
    return telling or list(first.values())
