"""Search hits as text: all headings that fit, then each hit's first excerpt, then its second."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from durable_context.history_search import SearchHit
from durable_context.tools.answering.bound import DATA, Bound

_HEADLINE_TOKENS: Final = 40


class _Excerpt(NamedTuple):
    rank: int
    place: int
    text: str


def search_hits(query: str, hits: Sequence[SearchHit], bound: Bound) -> str:
    asked = bound.label(query)
    if not hits:
        return (
            f'Nothing in this conversation matches "{asked}". Words are compared, not meanings: try'
            " other words, or fewer. New artifacts cannot be found yet: list_artifacts has them."
        )
    shown, _ = bound.longest(lambda count: _text(asked, hits, count, (), bound), len(hits))
    chosen: list[_Excerpt] = []
    for excerpt in _by_place(hits[:shown]):
        if bound.holds(_text(asked, hits, shown, [*chosen, excerpt], bound)):
            chosen.append(excerpt)
    return bound.cut(_text(asked, hits, shown, chosen, bound))


def _by_place(hits: Sequence[SearchHit]) -> list[_Excerpt]:
    excerpts = [
        _Excerpt(rank, index, text)
        for rank, hit in enumerate(hits)
        for index, text in enumerate(hit.excerpts)
    ]
    return sorted(excerpts, key=lambda excerpt: (excerpt.place, excerpt.rank))


def _text(
    asked: str, hits: Sequence[SearchHit], shown: int, excerpts: Sequence[_Excerpt], bound: Bound
) -> str:
    here = f", here the best {shown}" if shown < len(hits) else ""
    lines = [
        f'[{len(hits)} hits for "{asked}"{here}. expand_summary shows turns whole, reload_artifact'
        f" an artifact. {DATA}]"
    ]
    for rank, hit in enumerate(hits[:shown]):
        lines.append(f"{rank + 1}. {_heading(hit)}: {bound.label(hit.headline, _HEADLINE_TOKENS)}")
        lines += [f"   {excerpt.text}" for excerpt in sorted(excerpts) if excerpt.rank == rank]
    return "\n".join(lines)


def _heading(hit: SearchHit) -> str:
    if hit.handle is not None:
        return f"artifact {hit.handle}, turn {hit.to_turn}"
    if hit.from_turn == hit.to_turn:
        return f"turn {hit.to_turn}"
    return f"turns {hit.from_turn}-{hit.to_turn}"
