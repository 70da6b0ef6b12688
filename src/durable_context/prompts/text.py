"""The last step of assembly: messages and the manifest of what they are made of."""

from collections.abc import Iterator, Sequence

from durable_context.artifacts.media import is_stored_part
from durable_context.models import Message
from durable_context.prompts.blocks import Exchange, Parts, message_overhead
from durable_context.prompts.prepared import (
    Block,
    Budget,
    Manifest,
    PartReference,
    PreparedContext,
    Reduction,
)
from durable_context.prompts.rendering import DIGEST_HEAD, FOOT, LEDGER_TAIL_HEAD, record_message
from durable_context.prompts.state import PromptState
from durable_context.text import clean
from durable_context.turns.sendable import to_openai

_STABLE = ("instructions", "checkpoint")


def prompt(
    parts: Parts, reductions: Sequence[Reduction], state: PromptState, budget: Budget
) -> PreparedContext:
    """The request and its manifest."""
    blocks = tuple(blocks_of(parts))
    said = list(_messages(parts))
    messages = [record_message(one) if isinstance(one, str) else to_openai(one) for one in said]
    if parts.instructions:
        messages.insert(0, {"role": "system", "content": clean(parts.instructions)})
    return PreparedContext(
        messages=tuple(messages),
        parts=tuple(_references(said, len(messages) - len(said))),
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
            from_turn=block.from_turn,
            to_turn=block.to_turn,
            source_ids=(block.source_id,),
        )


def _messages(parts: Parts) -> Iterator[Message | str]:
    """Messages of the conversation, and our own blocks as text."""
    if parts.checkpoint is not None:
        yield parts.checkpoint.text
    if parts.lines:
        yield DIGEST_HEAD + "".join(line.text for line in parts.lines) + FOOT
    if parts.facts:
        yield LEDGER_TAIL_HEAD + "".join(fact.text for fact in parts.facts) + FOOT
    for exchange in parts.raw_before_run:
        yield from exchange.shown()
    yield from (message for message, _ in parts.task)
    yield from (block.text for block in parts.retrieved)
    for exchange in parts.raw_of_run:
        yield from exchange.shown()
    if parts.pending is not None:
        yield from parts.pending.shown()
    yield from (message for message, _ in parts.user)


def _references(said: Sequence[Message | str], first: int) -> Iterator[PartReference]:
    """What stands for binary parts, by place. `first`: messages before these."""
    for position, message in enumerate(said, first):
        content = None if isinstance(message, str) else message.content
        for part_no, part in enumerate(content if isinstance(content, tuple) else ()):
            if is_stored_part(part):
                stored = part["artifact"]
                yield PartReference(
                    message=position,
                    part=part_no,
                    handle=stored["handle"],
                    media_type=stored["media_type"],
                    token_count=stored["tokens"],
                    stored=part,
                )


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
