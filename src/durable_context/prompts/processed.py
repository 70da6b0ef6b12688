"""The prompt and its manifest after a pipeline: tokens, blocks and references as they are then."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from durable_context.calibration import WHOLE, Learned, extent, in_model_tokens, token_factor
from durable_context.models import Message
from durable_context.processors.context import Context
from durable_context.prompts.manifest import Block
from durable_context.prompts.model_counting import ModelCount
from durable_context.prompts.places import Place
from durable_context.prompts.prepared import (
    Breakpoint,
    PartReference,
    PreparedContext,
    ReasoningReference,
)
from durable_context.prompts.traced import Kept, as_message, is_untouched
from durable_context.text import message_text
from durable_context.tokens import REPLY_OVERHEAD, token_counter


class Processed(NamedTuple):
    """What a pipeline left of a prompt whose messages stood at `places`, and how it is counted."""

    kept: Sequence[Kept]
    places: Sequence[Place]
    processors: tuple[str, ...]
    counting: ModelCount
    calibration: Sequence[Learned]


def processed_prompt(
    prepared: PreparedContext, processed: Processed, context: Context
) -> PreparedContext:
    """The prompt of what is left."""
    manifest = prepared.manifest.model_copy(update={"processors": processed.processors})
    kept, before = processed.kept, prepared.messages
    if is_untouched(kept, before):
        return prepared.model_copy(update={"manifest": manifest}).with_context(context)
    where = {one.origin: position for position, one in enumerate(kept) if one.origin is not None}
    same = {one.origin: position for position, one in enumerate(kept) if not one.changed}
    parts = tuple(_parts(prepared, where, kept))
    sure = {one.origin: n for n, one in enumerate(kept) if one.origin is not None and one.sure}
    reasoning = tuple(_reasoning(prepared, sure, same))
    tokens = _tokens(prepared, processed, parts, reasoning)
    blocks = tuple(_blocks(prepared.manifest.blocks, processed, tokens))
    counted = sum(block.token_count for block in blocks) + REPLY_OVERHEAD
    factor = _factor(prepared, processed)
    update: dict[str, Any] = {
        "messages": tuple(one.message for one in kept),
        "parts": parts,
        "reasoning": reasoning,
        "breakpoints": tuple(
            Breakpoint(message=same[mark.message], cuts=mark.cuts)
            for mark in prepared.breakpoints
            if mark.message in same
        ),
        "token_count": in_model_tokens(counted, factor),
        "manifest": manifest.model_copy(
            update={
                "blocks": blocks,
                "omitted": (*manifest.omitted, *_omitted(prepared, processed, tokens)),
                "stable_prefix_tokens": _stable_tokens(prepared, processed),
                "token_factor": factor / WHOLE,
            }
        ),
    }
    return prepared.model_copy(update=update).moved_media(same).with_context(context)


def _tokens(
    prepared: PreparedContext,
    processed: Processed,
    parts: Sequence[PartReference],
    reasoning: Sequence[ReasoningReference],
) -> list[int]:
    """Of each message that is left, as its block pays for it: with what its references cost."""
    counter = token_counter(prepared.manifest.encoding)
    messages = [as_message(one.message) for one in processed.kept]
    for said in reasoning:
        update = {"reasoning": said.blocks}
        messages[said.message] = messages[said.message].model_copy(update=update)
    for part in parts:
        messages[part.message] = _with_stored(messages[part.message], part)
    differences = processed.counting.differences(messages)
    return [
        counter.count_message(message) + difference
        if one.changed or one.origin is None
        else processed.places[one.origin].tokens
        for one, message, difference in zip(processed.kept, messages, differences, strict=True)
    ]


def _with_stored(message: Message, part: PartReference) -> Message:
    content = list(message.content if isinstance(message.content, tuple) else ())
    content[part.part] = part.stored
    return message.model_copy(update={"content": tuple(content)})


def _blocks(
    blocks: Sequence[Block], processed: Processed, tokens: Sequence[int]
) -> Iterator[Block]:
    """Those of which something is left. What was added counts to the block before it."""
    paid = [block.token_count for block in blocks]
    alone = [place for place in processed.places if place.first == place.last]
    for place in alone:
        paid[place.first] -= place.tokens
    held = {place.first for place in alone}
    left = {number for number, count in enumerate(paid) if count or number not in held}
    number = processed.places[0].first
    for one, count in zip(processed.kept, tokens, strict=True):
        if one.origin is not None:
            place = processed.places[one.origin]
            number = place.last
            if place.first != place.last:
                continue
        paid[number] += count
        left.add(number)
    for number in sorted(left):
        yield blocks[number].model_copy(update={"token_count": paid[number]})


def _factor(prepared: PreparedContext, processed: Processed) -> int:
    """What is left may be of another kind than what there was."""
    factor = processed.counting.factor
    if processed.counting.model is None or (factor == WHOLE and processed.counting.escapes):
        return factor
    messages = [as_message(one.message) for one in processed.kept]
    counter = token_counter(prepared.manifest.encoding)
    texts = [message_text(message) for message in messages]
    texts += [call.arguments for message in messages for call in message.tool_calls]
    tokens = sum(map(counter.count_message, messages))
    found = token_factor(
        extent(texts), tokens, prepared.manifest.encoding, tuple(processed.calibration)
    )
    return max(factor, found)


def _parts(
    prepared: PreparedContext, where: Mapping[int, int], kept: Sequence[Kept]
) -> Iterator[PartReference]:
    """References whose text still stands where it stood."""
    for part in prepared.parts:
        position = where.get(part.message)
        if position is None:
            continue
        before = prepared.messages[part.message]["content"]
        after = kept[position].message["content"]
        if isinstance(after, list) and after[part.part : part.part + 1] == [before[part.part]]:
            yield part.model_copy(update={"message": position})


def _reasoning(
    prepared: PreparedContext, where: Mapping[int, int], same: Mapping[int | None, int]
) -> Iterator[ReasoningReference]:
    """With its message; what belongs to a part of one, only where it says what it said."""
    for one in prepared.reasoning:
        if one.message not in where:
            continue
        changed = one.message not in same
        blocks = tuple(block for block in one.blocks if block.part is None or not changed)
        if blocks:
            yield ReasoningReference(message=where[one.message], blocks=blocks)


def _omitted(
    prepared: PreparedContext, processed: Processed, tokens: Sequence[int]
) -> Iterator[str]:
    after = {
        one.origin: count for one, count in zip(processed.kept, tokens, strict=True) if one.changed
    }
    left = {one.origin for one in processed.kept}
    for position, place in enumerate(processed.places):
        block = prepared.manifest.blocks[place.first]
        role = prepared.messages[position]["role"]
        where = f"turn {block.from_turn}" if block.kind == "raw" else block.kind
        if position not in left:
            yield f"{where}: a message ({role}) of {place.tokens} tokens, by the pipeline"
        elif (shown := after.get(position, place.tokens)) < place.tokens:
            yield f"{where}: a message ({role}) of {place.tokens} tokens in {shown} by the pipeline"


def _stable_tokens(prepared: PreparedContext, processed: Processed) -> int:
    """Not beyond the first message that the pipeline touched."""
    stable = prepared.manifest.stable_prefix_tokens
    tools = prepared.manifest.counted_tokens - REPLY_OVERHEAD
    tools -= sum(place.tokens for place in processed.places)
    tokens = tools
    for position, one in enumerate(processed.kept):
        if one.changed or one.origin != position:
            break
        tokens += processed.places[position].tokens
    return min(stable, tokens)
