"""Which facts of the ledger the parts of a prompt show, whole or once it was cut."""

from collections.abc import Iterator

from durable_context.prompts.block_tokens import frame_tokens
from durable_context.prompts.blocks import Exchange, Parts
from durable_context.prompts.ledger_choice import Candidate, chosen
from durable_context.prompts.ledger_lines import (
    FactLine,
    digested_facts,
    first_turn_with_facts,
    newest_facts,
)
from durable_context.prompts.rendering import LEDGER_TAIL_HEAD
from durable_context.text import message_text
from durable_context.turns.ledger import ledger_line

_LOOKED_AT = 200
"""Digested turns whose facts may stand in a ledger that is cut."""


def show_ledger(parts: Parts) -> None:
    """The facts that the lines and views of `parts`, as they are now, do not say."""
    first = first_turn_with_facts(parts.digested, parts.policy)
    before = first - parts.digested[0].turn_no if parts.digested else 0
    parts.facts = digested_facts(parts.digested[before:], _said_from(parts, first), parts.policy)
    parts.viewed_facts = newest_facts(
        (exchange.shortened() for exchange in reversed(_viewed(parts))),
        parts.policy.ledger_max_tokens // 2,
    )


def cut_ledger(parts: Parts) -> None:
    """Leave no facts: what room there is in the end is for the best of them."""
    parts.facts, parts.viewed_facts = [], []
    if parts.checkpoint is not None:
        parts.checkpoint.cut = True


def fill_ledger(parts: Parts, max_tokens: int) -> None:
    """As much of a ledger that was cut as fits, in a block of its own: it is chosen anew for each
    prompt, and what stands before it stays as it is.
    """
    newest = parts.newest_turn
    room = max_tokens - frame_tokens(parts.encoding, LEDGER_TAIL_HEAD)
    parts.viewed_facts = [
        FactLine(fact.turn_no, ledger_line(fact.kind, fact.value), fact.tokens)
        for fact in chosen(_candidates(parts), _said(parts), newest, room)
    ]


def _viewed(parts: Parts) -> list[Exchange]:
    return [exchange for exchange in parts.raw_and_pending if exchange.viewed]


def _said_from(parts: Parts, first: int) -> dict[int, str]:
    """What is said of each turn by the line it stands in."""
    said: dict[int, str] = {}
    for line in reversed(parts.lines):
        if line.to_turn < first:
            break
        said |= dict.fromkeys(range(max(line.from_turn, first), line.to_turn + 1), line.text)
    return said


def _candidates(parts: Parts) -> Iterator[Candidate]:
    for exchange in _viewed(parts):
        for fact in exchange.facts:
            yield Candidate(exchange.turn_no or parts.newest_turn, *fact)
    for turn in parts.digested[-_LOOKED_AT:]:
        for fact in turn.facts:
            yield Candidate(turn.turn_no, *fact)
    if parts.checkpoint is not None:
        yield from parts.checkpoint.facts()


def _said(parts: Parts) -> str:
    """All that the prompt says besides its ledger."""
    texts = [exchange.shortened().text for exchange in parts.raw_and_pending]
    texts += [message_text(message) for message, _ in [*parts.task, *parts.user]]
    texts += [line.text for line in parts.lines]
    texts += [section.text for section in parts.pinned_from(parts.first_raw)]
    return "\n".join([*texts, *(parts.checkpoint.node_texts() if parts.checkpoint else ())])
