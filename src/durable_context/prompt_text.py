"""The last step of assembly: messages and the manifest of what they are made of."""

from collections.abc import Iterator, Sequence
from typing import Any

from durable_context.blocks import Exchange, Parts, message_overhead
from durable_context.models import Message
from durable_context.prepared import Block, Budget, Manifest, PreparedContext, Reduction
from durable_context.prompt_state import PromptState
from durable_context.rendering import DIGEST_HEAD, FOOT, LEDGER_TAIL_HEAD, record_message
from durable_context.sendable import to_openai
from durable_context.text import clean

_STABLE = ("instructions", "checkpoint")


def prompt(
    parts: Parts, reductions: Sequence[Reduction], state: PromptState, budget: Budget
) -> PreparedContext:
    """The request and its manifest."""
    blocks = tuple(blocks_of(parts))
    return PreparedContext(
        messages=tuple(_messages(parts)),
        manifest=Manifest(
            blocks=blocks,
            omitted=tuple(_omitted(parts, reductions)),
            reductions=tuple(reductions),
            stable_prefix_tokens=sum(b.token_count for b in blocks if b.kind in _STABLE),
            branch_uuid=state.branch_uuid,
            head_turn=state.head_turn,
            encoding=state.encoding,
        ),
        token_count=parts.tokens,
        budget=budget,
    )


def blocks_of(parts: Parts) -> Iterator[Block]:
    """One block per part, in the order of the messages."""
    if parts.instruction_tokens:
        yield Block(kind="instructions", token_count=parts.instruction_tokens)
    if parts.checkpoint is not None:
        stored = parts.checkpoint.stored
        yield Block(
            kind="checkpoint",
            token_count=parts.checkpoint.tokens,
            from_turn=1,
            to_turn=stored.turn_no,
            source_ids=(stored.checkpoint_id, *(node["id"] for node in parts.checkpoint.nodes)),
        )
    if parts.lines:
        first, last = parts.lines[0].from_turn, parts.lines[-1].to_turn
        yield Block(kind="digest", token_count=parts.digest_tokens, from_turn=first, to_turn=last)
    if parts.facts:
        first, last = parts.facts[0].turn_no, parts.facts[-1].turn_no
        yield Block(kind="ledger", token_count=parts.ledger_tokens, from_turn=first, to_turn=last)
    yield from _raw_blocks(parts.raw_before_run)
    if parts.task:
        yield Block(kind="task", token_count=sum(tokens for _, tokens in parts.task))
    yield from _retrieved_blocks(parts)
    yield from _raw_blocks(parts.raw_of_run)
    if parts.pending is not None:
        yield Block(kind="pending", token_count=parts.pending.tokens)
    if parts.user:
        yield Block(kind="user", token_count=sum(tokens for _, tokens in parts.user))


def _raw_blocks(exchanges: Sequence[Exchange]) -> Iterator[Block]:
    for exchange in exchanges:
        assert exchange.turn is not None
        turn_no = exchange.turn.turn_no
        yield Block(kind="raw", token_count=exchange.tokens, from_turn=turn_no, to_turn=turn_no)


def _retrieved_blocks(parts: Parts) -> Iterator[Block]:
    for block in parts.retrieved:
        yield Block(
            kind="retrieved",
            token_count=block.tokens + message_overhead(parts.encoding),
            from_turn=block.leaf.from_turn,
            to_turn=block.leaf.to_turn,
            source_ids=(block.leaf.summary_id,),
        )


def _messages(parts: Parts) -> Iterator[dict[str, Any]]:
    if parts.instructions:
        yield {"role": "system", "content": clean(parts.instructions)}
    if parts.checkpoint is not None:
        yield record_message(parts.checkpoint.text)
    if parts.lines:
        yield record_message(DIGEST_HEAD + "".join(line.text for line in parts.lines) + FOOT)
    if parts.facts:
        yield record_message(LEDGER_TAIL_HEAD + "".join(fact.text for fact in parts.facts) + FOOT)
    for exchange in parts.raw_before_run:
        yield from exchange.rendered()
    yield from _said(parts.task)
    for block in parts.retrieved:
        yield record_message(block.text)
    for exchange in parts.raw_of_run:
        yield from exchange.rendered()
    if parts.pending is not None:
        yield from parts.pending.rendered()
    yield from _said(parts.user)


def _said(messages: Sequence[tuple[Message, int]]) -> Iterator[dict[str, Any]]:
    for message, _ in messages:
        yield to_openai(message)


def _omitted(parts: Parts, reductions: Sequence[Reduction]) -> Iterator[str]:
    """What the prompt does not show whole, in words."""
    for exchange in parts.raw:
        yield from _viewed(exchange, f"turn {exchange.turn.turn_no}" if exchange.turn else "")
    if parts.pending is not None:
        yield from _viewed(parts.pending, "pending")
    for reduction in reductions:
        if reduction.kind == "retrieved_dropped":
            yield f"retrieved turns {reduction.from_turn}-{reduction.to_turn}: over budget"


def _viewed(exchange: Exchange, where: str) -> Iterator[str]:
    for position in sorted(exchange.viewed):
        whole, shown = exchange.message_tokens[position], exchange.views[position].tokens
        yield f"{where} message {position}: a view of {shown} of {whole} tokens"
