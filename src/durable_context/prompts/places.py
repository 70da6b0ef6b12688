"""Where each message of a prompt stands: in which blocks, and with how many tokens."""

from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple

from durable_context.prompts.block_tokens import message_overhead
from durable_context.prompts.blocks import Exchange, Parts
from durable_context.prompts.pinned import pinned_turns
from durable_context.text import clean
from durable_context.tokens import token_counter


class Place(NamedTuple):
    """A message's blocks, by their numbers in the manifest: several stand in one message of ours.
    `tokens` are all that the blocks pay for it.
    """

    first: int
    last: int
    tokens: int


def places(parts: Parts) -> list[Place]:
    """One for each message, in order."""
    return list(_places(parts))


def _places(parts: Parts) -> Iterator[Place]:
    block = 0
    if parts.instructions:
        counted = token_counter(parts.encoding).count(clean(parts.instructions))
        yield Place(block, block, message_overhead(parts.encoding) + counted)
    block += bool(parts.instruction_tokens)
    if parts.checkpoint is not None:
        yield Place(block, block, parts.checkpoint.tokens)
        block += 1
    pinned = pinned_turns(parts)
    if pinned:
        yield Place(block, block + len(pinned) - 1, parts.pinned_tokens(parts.first_raw))
        block += len(pinned)
    if parts.lines:
        facts = parts.ledger_tokens - parts.viewed_fact_tokens
        last = block + bool(parts.facts)
        yield Place(block, last, parts.digest_tokens + facts)
        block = last + 1
    block = yield from _of_exchanges(parts.raw_before_run, block)
    if parts.task:
        yield from (Place(block, block, tokens) for _, tokens in parts.task)
        block += 1
    block = yield from _of_exchanges(parts.older_steps, block)
    if parts.viewed_facts:
        yield Place(block, block, parts.viewed_fact_tokens)
        block += 1
    if parts.retrieved:
        last = block + len(parts.retrieved) - 1
        yield Place(block, last, parts.retrieved_tokens)
        block = last + 1
    block = yield from _of_exchanges(parts.newest_steps, block)
    yield from (Place(block, block, tokens) for _, tokens in parts.user)


def _of_exchanges(exchanges: Sequence[Exchange], block: int) -> Generator[Place, None, int]:
    for exchange in exchanges:
        for position in range(exchange.skip, len(exchange.messages)):
            yield Place(block, block, exchange.shown_tokens(position))
        block += 1
    return block
