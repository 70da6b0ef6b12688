"""What holds for every prompt, whatever the conversation and the budget."""

import json
from typing import Any

from durable_context import CompactionPolicy, Message, PreparedContext
from durable_context.artifacts.image_rules import image_rule
from durable_context.calibration import WHOLE
from durable_context.model_tokens import counted_as
from durable_context.prompts.model_counting import ModelCount
from durable_context.tokens import REPLY_OVERHEAD, token_counter
from durable_context.tool_tokens import count_tools
from durable_context.turns.messages import parse_message


def check_prompt(prepared: PreparedContext, head_turn: int, policy: CompactionPolicy) -> None:
    """Invariants 2, 4 and 5 of the design, from the outside."""
    check_tokens(prepared)
    check_coverage(prepared, head_turn)
    check_pairing(prepared.messages)
    for message in prepared.messages:
        json.dumps(message, ensure_ascii=False).encode()


def check_tokens(prepared: PreparedContext) -> None:
    """Within budget, and the count is that of the messages as they are sent."""
    assert prepared.token_count <= prepared.budget.limit
    manifest, model = prepared.manifest, prepared.budget.model
    blocks = sum(block.token_count for block in manifest.blocks) + REPLY_OVERHEAD
    assert blocks == manifest.counted_tokens
    assert manifest.model == model
    assert prepared.token_count == manifest.token_count >= manifest.counted_tokens
    assert (prepared.token_count == manifest.counted_tokens) or manifest.token_factor > 1
    counter, messages = token_counter(manifest.encoding), _countable(prepared)
    known = counted_as(model) if model else None
    rule = image_rule(known) if known else None
    exact = known is not None and known.is_exact(manifest.encoding)
    count = ModelCount(model, round(manifest.token_factor * WHOLE), rule, exact)
    counted = sum(map(counter.count_message, messages)) + sum(count.differences(messages))
    counted += count_tools(prepared.budget.tools, counter, known) + REPLY_OVERHEAD
    assert counted == manifest.counted_tokens


def _countable(prepared: PreparedContext) -> list[Message]:
    """What the count is of: binary parts count as what they cost whole, and reasoning counts."""
    messages = [_parsed(message) for message in prepared._whole_messages]
    for said in prepared.reasoning:
        message = messages[said.message]
        messages[said.message] = message.model_copy(update={"reasoning": said.blocks})
    for part in prepared.parts:
        message = messages[part.message]
        content = [*(message.content or ())]
        content[part.part] = part.stored
        messages[part.message] = message.model_copy(update={"content": tuple(content)})
    return messages


def _parsed(message: dict[str, Any]) -> Message:
    if message["role"] == "system":
        return Message(role="user", content=message["content"])
    return parse_message(message, 0)


def check_coverage(prepared: PreparedContext, head_turn: int) -> None:
    """Each turn of the branch is there exactly once along the main line, in order."""
    covered: list[int] = []
    for block in prepared.manifest.blocks:
        if block.kind in ("checkpoint", "digest", "raw"):
            assert block.from_turn is not None
            assert block.to_turn is not None
            covered.extend(range(block.from_turn, block.to_turn + 1))
    assert covered == list(range(1, head_turn + 1))


def check_pairing(messages: tuple[dict[str, Any], ...]) -> None:
    """Each tool call has its result right after it, and no result is without its call."""
    waiting: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] in waiting
            waiting.remove(message["tool_call_id"])
            continue
        assert not waiting, f"calls without a result: {waiting}"
        for call in message.get("tool_calls", ()):
            waiting.add(call["id"])
    assert not waiting


def raw_turns(prepared: PreparedContext) -> list[int]:
    return [b.from_turn for b in prepared.manifest.blocks if b.kind == "raw" and b.from_turn]


def kinds(prepared: PreparedContext) -> list[str]:
    return [block.kind for block in prepared.manifest.blocks]
