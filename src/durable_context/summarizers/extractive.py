"""Summaries without a model or network: the same input always gives the same text.

Per turn what the user wanted, what was called with which outcome, and what was answered, in their
own words and language; over all turns the sentences that say most, those first that say something
of what the request is to keep in view.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final

from durable_context.models import Turn
from durable_context.redaction import redact
from durable_context.summarizers import Attempt, SummaryDraft, SummaryRequest
from durable_context.summarizers.attributed import TOOLS, Said, turn_label
from durable_context.summarizers.calls import calls_line
from durable_context.summarizers.documents import condense
from durable_context.summarizers.headlines import goal_headline
from durable_context.summarizers.limits import headline_cap, text_cap
from durable_context.summarizers.merging import merge
from durable_context.summarizers.selection import Selection, select
from durable_context.summarizers.spoken import ASKED, MESSAGE_PLACES, ends, said_in, shape
from durable_context.text import clean
from durable_context.tokens import TokenCounter, token_counter

RECIPE: Final = "extractive/1"

_TOOLS_SHARE: Final = 0.4
_FEWEST_TOOL_TOKENS: Final = 20
_LATER: Final = 3
_WISH: Final = 5
"""For the headline, places in the order of salience that a later turn costs and a wish gains."""


class ExtractiveSummarizer:
    """The summarizer that is always there. What it makes is labelled by its recipe."""

    @property
    def recipe(self) -> str:
        return RECIPE

    async def summarize(self, request: SummaryRequest) -> SummaryDraft:
        counter = token_counter(request.encoding)
        if request.artifact:
            headline, text = await asyncio.to_thread(condense, request, counter)
        else:
            headline, text = (_merge if request.nodes else _leaf)(request, counter)
        if not any(map(str.isalnum, headline)):
            turns = f"Turns {request.from_turn}-{request.to_turn}, without words"
            headline = request.artifact or turns
        attempts = (Attempt(made_by=RECIPE, outcome="ok"),)
        return SummaryDraft(headline=headline, text=text, made_by=RECIPE, attempts=attempts)


def _merge(request: SummaryRequest, counter: TokenCounter) -> tuple[str, str]:
    caps = text_cap(request), headline_cap(request)
    return merge(request.nodes, *caps, counter, focus=request.focus or "")


def _leaf(request: SummaryRequest, counter: TokenCounter) -> tuple[str, str]:
    turns, cap = request.turns, text_cap(request)
    tools = list(_tools(turns, cap, counter))
    said = said_in(turns)
    if not said and not tools:
        said = [_wordless(turns)]
    acting = bool(tools) or not any(m.name for turn in turns for m in turn.messages)
    selection = Selection(said, fixed=tools, acting=acting, focus=request.focus or "")
    selected = select(selection, cap, counter)
    about = _about(selected.chosen, acting=acting)
    texts = [one.text for one in selected.chosen]
    headline = goal_headline(about, texts, headline_cap(request), counter)
    return headline, selected.text


def _about(chosen: Sequence[Said], *, acting: bool) -> str:
    """The best early wish of a user, or between people the best statement and whose it is."""
    stated = [one for one in chosen if "?" not in one.text and not one.text.startswith("[")]
    if not acting:
        return next((f"{one.speaker}: {one.text}" for one in stated), "")
    asked = [
        (place + _LATER * one.group - (_WISH if one.bonus > ASKED else 0), one.text)
        for place, one in enumerate(chosen)
        if one.rank == 0
    ]
    return min(asked)[1] if asked else stated[0].text if stated else ""


def _tools(turns: Sequence[Turn], cap: int, counter: TokenCounter) -> Iterator[Said]:
    """One line per turn that called something, all together within their share of the cap."""
    called = [(i, turn) for i, turn in enumerate(turns) if any(m.tool_calls for m in turn.messages)]
    room = int(cap * _TOOLS_SHARE)
    called = ends(called, max(1, room // _FEWEST_TOOL_TOKENS))
    share = max(_FEWEST_TOOL_TOKENS, room // max(1, len(called)))
    for group, turn in called:
        last = max(index for index, m in enumerate(turn.messages) if m.tool_calls)
        line = shape(redact(clean(calls_line(turn.messages, share, counter))))
        day = turn.occurred_at.date().isoformat()
        place = MESSAGE_PLACES * (last + 1) - 1
        yield Said(group, place, turn_label(turn), day, TOOLS, line)


def _wordless(turns: Sequence[Turn]) -> Said:
    messages = sum(len(turn.messages) for turn in turns)
    day = turns[0].occurred_at.date().isoformat() if turns else ""
    label = turn_label(turns[0]) if turns else ""
    return Said(0, 0, label, day, "", f"{messages} messages without text", rank=0)
