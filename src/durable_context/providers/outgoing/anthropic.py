"""A prompt as Anthropic's Messages API takes it.

Rules kept, with where they are stated:
- Messages begin with the user. They may not end with an assistant message: newer models refuse a
  prefill, older ones one that ends in white space (`messages` in the API reference;
  langchain-ai/langchain#35071). Neighbours of one role are one message.
- A text block has a text that is not blank (crewAIInc/crewAI#4542).
- Results of a message's calls come first in the user message after it, all of them.
- Thinking blocks come back unchanged and first (`ThinkingBlockParam` in the anthropic package;
  platform.claude.com/docs/en/build-with-claude/extended-thinking), and cannot be marked for the
  cache. At most 4 blocks of a request can (coder/mux#3112).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from durable_context.providers.outgoing.media import Media, media_of
from durable_context.providers.outgoing.names import CallIds, arguments_object, safe_name
from durable_context.providers.outgoing.spoken import Blocks, Slot, Spoken, part_text, spoken
from durable_context.providers.outgoing.tools import anthropic_tools

Block = dict[str, Any]

START: Final = "(start)"
"""Stands before an assistant message that opens the conversation."""
GO_ON: Final = "(go on)"
"""Stands after an assistant message that ends it."""
MOST_BREAKPOINTS: Final = 4
_IMAGES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")
_THINKING: Final = ("thinking", "redacted_thinking")


def to_anthropic(
    messages: Sequence[Mapping[str, Any]],
    *,
    tools: Sequence[Mapping[str, Any]] = (),
    blocks: Blocks | None = None,
    breakpoints: Mapping[int, Sequence[int]] | None = None,
) -> dict[str, Any]:
    """`messages`, and `system` and `tools` where there are any.

    `breakpoints`: messages in which a stable block ends, with the characters at which pieces of it
    do. Each piece is a block of its own, so that a prompt with more of them begins with the same.
    """
    request = _Request(breakpoints or {})
    for one in spoken(messages, blocks or {}, "anthropic"):
        request.add(one)
    return request.closed(anthropic_tools(tools))


class _Request:
    """A request under construction, and the blocks in it after which the cache may end."""

    def __init__(self, breakpoints: Mapping[int, Sequence[int]]) -> None:
        self._breakpoints = breakpoints
        self._ids = CallIds()
        self._system: list[Block] = []
        self._messages: list[dict[str, Any]] = []
        self._marked: list[Block] = []

    def add(self, one: Spoken) -> None:
        cuts = self._breakpoints.get(one.position, ())
        blocks = self._blocks(one, cuts)
        if one.role == "system":
            self._system += blocks
        else:
            self._say("assistant" if one.role == "assistant" else "user", blocks)
        if one.position in self._breakpoints:
            self._mark(blocks[:-1] if cuts and len(blocks) > 1 else blocks)

    def _blocks(self, one: Spoken, cuts: Sequence[int]) -> list[Block]:
        if one.role == "assistant":
            return list(_assistant(one, self._ids))
        if one.role == "tool":
            return [_result(one, self._ids)]
        if cuts and one.text is not None:
            return [_text(piece) for piece in _pieces(one.text, cuts)]
        return list(_user(one))

    def _say(self, role: str, blocks: list[Block]) -> None:
        if not blocks:
            return
        last = self._messages[-1] if self._messages else None
        if last is None and role == "assistant":
            self._say("user", [_text(START)])
        elif last and role == last["role"]:
            if not _thinks_late(last["content"], blocks):
                last["content"] += blocks
                return
            self._say("user", [_text(GO_ON)])
        self._messages.append({"role": role, "content": blocks})

    def _mark(self, blocks: Sequence[Block]) -> None:
        able = [block for block in blocks if block["type"] not in _THINKING]
        self._marked += able[-1:]

    def closed(self, tools: list[dict[str, Any]]) -> dict[str, Any]:
        if not self._messages:
            self._say("user", [_text(START)])
        if self._messages[-1]["role"] == "assistant":
            self._say("user", [_text(GO_ON)])
        # The first ends what hardly ever changes, the last what the next call finds again.
        for block in [*self._marked[:1], *self._marked[1:][1 - MOST_BREAKPOINTS :]]:
            block["cache_control"] = {"type": "ephemeral"}
        system = {"system": self._system} if self._system else {}
        return {**system, "messages": self._messages, **({"tools": tools} if tools else {})}


def _pieces(text: str, cuts: Sequence[int]) -> Iterator[str]:
    """The text in pieces that are not blank."""
    start = 0
    for end in (*cuts, len(text)):
        if text[start:end].strip():
            yield text[start:end]
            start = end


def _thinks_late(said: Sequence[Block], more: Sequence[Block]) -> bool:
    """Whether one message of both would have its thinking after something else."""
    thinks = any(block["type"] in _THINKING for block in more)
    return thinks and said[0]["type"] not in _THINKING


def _assistant(one: Spoken, call_ids: CallIds) -> Iterator[Block]:
    yield from one.head.before
    halves = _server_calls(one)
    for slot in [*one.parts, one.tail]:
        yield from slot.before
        if slot.part is not None:
            whole = all(
                not _server_id(block) or halves[_server_id(block)] > 1 for block in slot.instead
            )
            yield from (slot.instead if whole and slot.instead else _said(slot))
    for slot in one.calls:
        yield from slot.before
        assert slot.call is not None
        function = slot.call["function"]
        yield {
            "type": "tool_use",
            "id": call_ids.call(slot.call["id"]),
            "name": safe_name(function["name"]),
            "input": arguments_object(function["arguments"]),
            **slot.frame,
        }


def _server_calls(one: Spoken) -> Counter[str]:
    """How often each call of a server's tool is named: once where a stream broke off before its
    result, and the API refuses either half alone.
    """
    return Counter(_server_id(block) for slot in one.parts for block in slot.instead)


def _server_id(block: Block) -> str:
    """Of a call or its result; empty for other blocks."""
    if block["type"].endswith("_tool_use"):
        return str(block.get("id"))
    return str(block.get("tool_use_id", ""))


def _said(slot: Slot) -> list[Block]:
    """An assistant's message holds text alone."""
    assert slot.part is not None
    text = part_text(slot.part)
    if text is None:
        text = media_of(slot.part).reference()
    return [_text(text)] if text.strip() else []


def _user(one: Spoken) -> Iterator[Block]:
    blocks = [block for slot in one.parts for block in slot.instead or _shown(slot)]
    if one.name and blocks:
        if blocks[0]["type"] == "text":
            blocks[0] = _text(f"{one.name}: {blocks[0]['text']}")
        else:
            yield _text(f"{one.name}:")
    yield from blocks


def _result(one: Spoken, ids: CallIds) -> Block:
    result: Block = {"type": "tool_result", "tool_use_id": ids.answer(one.answers)}
    if one.text is not None:
        content: Any = one.text if one.text.strip() else None
    else:
        content = [block for slot in one.parts for block in slot.instead or _shown(slot)]
    return result | ({"content": content} if content else {}) | one.head.frame


def _shown(slot: Slot) -> list[Block]:
    assert slot.part is not None
    text = part_text(slot.part)
    if text is None:
        block = _media(media_of(slot.part))
        return [block | slot.frame if slot.frame.get("type") == block["type"] else block]
    return [_text(text)] if text.strip() else []


def _media(media: Media) -> Block:
    if media.data is not None and media.media_type in _IMAGES:
        source = {"type": "base64", "media_type": media.media_type, "data": media.base64}
        return {"type": "image", "source": source}
    if media.kind == "image" and media.url:
        return {"type": "image", "source": {"type": "url", "url": media.url}}
    if media.data is not None and media.media_type == "application/pdf":
        source = {"type": "base64", "media_type": media.media_type, "data": media.base64}
        return _document(source, media.name)
    if media.text is not None:
        return _document(
            {"type": "text", "media_type": "text/plain", "data": media.text}, media.name
        )
    return _text(media.reference())


def _document(source: dict[str, str], name: str | None) -> Block:
    titled = {"title": name} if name and name != "document" else {}
    return {"type": "document", "source": source, **titled}


def _text(text: str) -> Block:
    return {"type": "text", "text": text}
