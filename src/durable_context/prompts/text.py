"""The last step of assembly: messages and the manifest of what they are made of."""

import json
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, cast

from durable_context.artifacts.media import is_stored_part
from durable_context.models import Message
from durable_context.prompts.block_tokens import frame_tokens, label_tokens
from durable_context.prompts.blocks import Exchange, Parts
from durable_context.prompts.ledger_lines import FactLine
from durable_context.prompts.manifest import Block, Manifest, Reduction
from durable_context.prompts.model_counting import ModelCount
from durable_context.prompts.pinned import pinned_turns, settled_pins
from durable_context.prompts.prepared import (
    Breakpoint,
    Budget,
    PartReference,
    PreparedContext,
    ReasoningReference,
)
from durable_context.prompts.rendering import (
    FOOT,
    LEDGER_TAIL_HEAD,
    PINNED_HEAD,
    RETRIEVED_HEAD,
    record_message,
)
from durable_context.prompts.state import PromptState
from durable_context.providers.outgoing.media import media_of
from durable_context.text import clean, message_text
from durable_context.turns.sendable import to_openai


def prompt(
    parts: Parts,
    reductions: Sequence[Reduction],
    state: PromptState,
    budget: Budget,
    count: ModelCount,
) -> PreparedContext:
    """The request and its manifest."""
    blocks = tuple(blocks_of(parts))
    said = list(_said(parts))
    messages = [_rendered(one.content) for one in said]
    beside = {n: message for n, message in enumerate(messages) if _holds_media(message)}
    prepared = PreparedContext(
        messages=tuple(
            _for_chat(message) if n in beside else message for n, message in enumerate(messages)
        ),
        parts=tuple(_references(said, count)),
        reasoning=tuple(_reasoning(said)),
        breakpoints=tuple(_breakpoints(said)),
        manifest=Manifest(
            blocks=blocks,
            omitted=tuple(_omitted(parts, reductions)),
            reductions=tuple(reductions),
            stable_prefix_tokens=_stable_tokens(parts, state, reductions),
            branch_uuid=state.branch_uuid,
            head_turn=state.head_turn,
            encoding=state.encoding,
            model=budget.model,
            token_factor=count.token_factor,
        ),
        token_count=count.tokens(parts.tokens),
        budget=budget,
    )
    return prepared.with_media(beside) if beside else prepared


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
    yield from _pinned_blocks(parts)
    if parts.lines:
        first, last = parts.lines[0].from_turn, parts.lines[-1].to_turn
        yield Block(kind="digest", token_count=parts.digest_tokens, from_turn=first, to_turn=last)
    yield from _ledger_block(parts.facts, parts.ledger_tokens - parts.viewed_fact_tokens)
    yield from _raw_blocks(parts.raw_before_run)
    if parts.task:
        yield Block(kind="task", token_count=sum(tokens for _, tokens in parts.task))
    yield from _raw_blocks(parts.older_steps)
    yield from _ledger_block(parts.viewed_facts, parts.viewed_fact_tokens)
    yield from _retrieved_blocks(parts)
    yield from _raw_blocks(parts.newest_steps)
    if parts.user:
        yield Block(kind="user", token_count=sum(tokens for _, tokens in parts.user))


def _pinned_blocks(parts: Parts) -> Iterator[Block]:
    """The first counts their common frame."""
    frame = frame_tokens(parts.encoding, PINNED_HEAD)
    for turn_no, tokens in pinned_turns(parts).items():
        yield Block(
            kind="pinned",
            token_count=frame + tokens,
            from_turn=turn_no,
            to_turn=turn_no,
            source_ids=(str(turn_no),),
        )
        frame = 0


def _ledger_block(facts: Sequence[FactLine], tokens: int) -> Iterator[Block]:
    if facts:
        first, last = facts[0].turn_no, facts[-1].turn_no
        yield Block(kind="ledger", token_count=tokens, from_turn=first, to_turn=last)


def _raw_blocks(exchanges: Sequence[Exchange]) -> Iterator[Block]:
    for exchange in exchanges:
        turn_no = exchange.turn_no
        kind = "pending" if turn_no is None else "raw"
        yield Block(kind=kind, token_count=exchange.tokens, from_turn=turn_no, to_turn=turn_no)


def _retrieved_blocks(parts: Parts) -> Iterator[Block]:
    """The first counts their common frame."""
    frame = frame_tokens(parts.encoding, RETRIEVED_HEAD)
    for block in parts.retrieved:
        yield Block(
            kind="retrieved",
            token_count=frame + block.tokens,
            from_turn=block.from_turn,
            to_turn=block.to_turn,
            source_ids=block.source_ids,
        )
        frame = 0


def shown_texts(parts: Parts, budget: Budget) -> Iterator[str]:
    """All that a prompt of these parts says."""
    if budget.tools:
        yield json.dumps(budget.tools, ensure_ascii=False, default=str)
    for content, _ in _said(parts):
        if isinstance(content, Message):
            yield message_text(content)
            yield from (call.arguments for call in content.tool_calls)
        else:
            yield "".join(content)


class _Said(NamedTuple):
    """A message of the prompt: one of the conversation, one of our own blocks in pieces, or the
    instructions. `stable`: a stable block ends in it.
    """

    content: Message | list[str] | str
    stable: bool = False


def _said(parts: Parts) -> Iterator[_Said]:
    if parts.instructions:
        yield _Said(clean(parts.instructions), stable=True)
    if parts.checkpoint is not None:
        yield _Said(parts.checkpoint.pieces(), stable=True)
    if pinned := parts.pinned_from(parts.first_raw):
        yield _Said([PINNED_HEAD, *(section.text for section in pinned), FOOT], stable=True)
    if parts.lines:
        yield _Said(parts.record(), stable=True)
    volatile = list(_volatile(parts))
    stays = [_Said(message) for message in _staying(parts)]
    if stays and (parts.all_raw or parts.task):
        stays[-1] = stays[-1]._replace(stable=True)
    newest = [_Said(message) for exchange in parts.newest_steps for message in exchange.shown()]
    if newest and parts.task and not volatile:
        newest[-1] = newest[-1]._replace(stable=True)
    yield from (*stays, *volatile, *newest)
    yield from (_Said(message) for message, _ in parts.user)


def _staying(parts: Parts) -> Iterator[Message]:
    for exchange in parts.raw_before_run:
        yield from exchange.shown()
    yield from (message for message, _ in parts.task)
    for exchange in parts.older_steps:
        yield from exchange.shown()


def _volatile(parts: Parts) -> Iterator[_Said]:
    """What is chosen anew for each prompt."""
    if parts.viewed_facts:
        yield _Said([LEDGER_TAIL_HEAD, *(fact.text for fact in parts.viewed_facts), FOOT])
    if parts.retrieved:
        yield _Said([RETRIEVED_HEAD, *(block.text for block in parts.retrieved), FOOT])


def _holds_media(message: dict[str, Any]) -> bool:
    """Whether a tool's or an assistant's message has parts that chat takes from users alone."""
    content = message["content"]
    if message["role"] not in ("assistant", "tool") or not isinstance(content, list):
        return False
    parts = cast(list[dict[str, Any]], content)
    return any(part["type"] not in ("text", "refusal") for part in parts)


def _for_chat(message: dict[str, Any]) -> dict[str, Any]:
    content = [
        part
        if part["type"] in ("text", "refusal")
        else {"type": "text", "text": media_of(part).reference()}
        for part in message["content"]
    ]
    return message | {"content": content}


def _rendered(content: Message | list[str] | str) -> dict[str, Any]:
    if isinstance(content, str):
        return {"role": "system", "content": content}
    return record_message("".join(content)) if isinstance(content, list) else to_openai(content)


def _breakpoints(said: Sequence[_Said]) -> Iterator[Breakpoint]:
    for position, (content, stable) in enumerate(said):
        if stable:
            pieces = content[:-1] if isinstance(content, list) else ()
            yield Breakpoint(message=position, cuts=tuple(accumulate(map(len, pieces))))


def _stable_tokens(parts: Parts, state: PromptState, reductions: Sequence[Reduction]) -> int:
    """Up to the raw turns: these become digests, unless the branch is young. What gave way to the
    budget may stand otherwise in the next prompt.
    """
    if reductions:
        return parts.instruction_tokens
    first = parts.policy.segment_turns + parts.policy.keep_raw_turns
    tokens = parts.instruction_tokens + (parts.checkpoint.tokens if parts.checkpoint else 0)
    young = parts.all_raw and not parts.task and state.head_turn + 1 < first
    settled, rest_stays = settled_pins(parts, young=young)
    tokens += settled
    if not rest_stays:
        return tokens
    if parts.lines:
        foot = label_tokens(parts.encoding, FOOT)
        tokens += parts.digest_tokens - foot + parts.ledger_tokens - parts.viewed_fact_tokens
    if young:
        tokens += sum(exchange.tokens for exchange in parts.raw)
    return tokens


def _reasoning(said: Sequence[_Said]) -> Iterator[ReasoningReference]:
    for position, (content, _) in enumerate(said):
        if isinstance(content, Message) and content.reasoning:
            yield ReasoningReference(message=position, blocks=content.reasoning)


def _references(said: Sequence[_Said], count: ModelCount) -> Iterator[PartReference]:
    """What stands for binary parts, by place."""
    for position, (message, _) in enumerate(said):
        content = message.content if isinstance(message, Message) else None
        for part_no, part in enumerate(content if isinstance(content, tuple) else ()):
            if is_stored_part(part):
                stored = part["artifact"]
                yield PartReference(
                    message=position,
                    part=part_no,
                    handle=stored["handle"],
                    media_type=stored["media_type"],
                    token_count=count.part_tokens(part),
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
