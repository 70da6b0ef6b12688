"""Messages of Anthropic's Messages API: requests and responses alike.

Texts that stand in several blocks stay parts; a single one is the content itself. A mark for the
cache is a request's and is not kept.
"""

from collections.abc import Sequence
from typing import Any, Final

from durable_context.artifacts.encoded_data import fields_of
from durable_context.providers.incoming.media import data_uri, encoded_text
from durable_context.providers.incoming.reading import (
    ChatMessage,
    Content,
    Fields,
    Unreadable,
    arguments_text,
    is_fields,
    is_items,
    optional_text,
    rest_of,
    wanted,
)
from durable_context.showing import shown

THINKING: Final = ("thinking", "redacted_thinking")
SERVER_BLOCKS: Final = (
    "search_result",
    "container_upload",
    "server_tool_use",
    "web_search_tool_result",
    "web_fetch_tool_result",
    "code_execution_tool_result",
    "bash_code_execution_tool_result",
    "text_editor_code_execution_tool_result",
    "tool_search_tool_result",
    "tool_reference",
    "mcp_tool_use",
    "mcp_tool_result",
    "browser_state",
)
"""Blocks that stay as they are for Anthropic, with a text for others."""
BLOCKS: Final = (
    "text",
    "image",
    "document",
    "tool_use",
    "tool_result",
    *THINKING,
    *SERVER_BLOCKS,
)
MARKS: Final = frozenset(BLOCKS) - {"text"}
"""Blocks that only this format has."""
_ENVELOPE: Final = ("type", "role", "content")


def to_chat(message: Fields) -> list[ChatMessage]:
    """One message; a user message with tool results gives a tool message for each, then the rest of
    it.
    """
    role, content = message.get("role"), message.get("content")
    if role not in ("user", "assistant") or not is_items(content):
        return [dict(message)]
    blocks = [_block(block) for block in content]
    more = rest_of(message, *_ENVELOPE)
    if role == "assistant":
        return [_assistant(blocks) | more]
    results = [_result(block) for block in blocks if block["type"] == "tool_result"]
    rest = [block for block in blocks if block["type"] != "tool_result"]
    return [*results, _content(rest).message("user") | more] if rest else results


def text_of(blocks: Sequence[Any]) -> str:
    """Text blocks as one text: the form a top-level `system` may have."""
    return "\n\n".join(_text(_block(block)) for block in blocks)


def _block(block: object) -> Fields:
    if isinstance(block, str):
        return {"type": "text", "text": block}
    if not is_fields(block) or block.get("type") not in BLOCKS:
        kind = block.get("type") if is_fields(block) else block
        raise Unreadable(f"content block {shown(kind)} is not one of {', '.join(BLOCKS)}")
    return block


def _assistant(blocks: Sequence[Fields]) -> ChatMessage:
    content = Content("anthropic")
    thoughts: list[Fields] = []
    for block in blocks:
        kind = block["type"]
        if kind in THINKING:
            thoughts.append(block)
            continue
        call_id = wanted(block, "id", "tool_use block") if kind == "tool_use" else None
        for thought in thoughts:
            content.keep(thought, call_id=call_id if content.calls or content.parts else None)
        thoughts = []
        if call_id is not None:
            _call(block, call_id, content)
        elif kind in ("text", *SERVER_BLOCKS):
            _say(block, content)
        else:
            raise Unreadable(f"a {kind} block cannot stand in an assistant's message")
    for thought in thoughts:
        content.keep(thought)
    return content.message("assistant")


def _call(block: Fields, call_id: str, content: Content) -> None:
    name = wanted(block, "name", "tool_use block")
    content.call(call_id, name, arguments_text(block.get("input"), name))
    caller = fields_of(block.get("caller"))
    fields = {"caller": caller} if caller.get("type", "direct") != "direct" else {}
    if block.get("toolset_name"):
        fields["toolset_name"] = block["toolset_name"]
    if fields:
        content.keep({"type": "tool_use", **fields}, call_id=call_id)


def _result(block: Fields) -> ChatMessage:
    call_id = wanted(block, "tool_use_id", "tool_result block")
    content: Any = block.get("content")
    if content is None:
        content = ""
    reasoning: list[Any] = []
    if is_items(content):
        read = _content([_block(inner) for inner in content])
        message = read.message("tool")
        content, reasoning = message["content"] or "", message.get("reasoning", [])
    elif not isinstance(content, str):
        raise Unreadable(f"tool_result content {shown(content)} is neither text nor blocks")
    result: ChatMessage = {"role": "tool", "tool_call_id": call_id, "content": content}
    if block.get("is_error"):
        result["is_error"] = True
    return result | ({"reasoning": reasoning} if reasoning else {})


def _content(blocks: Sequence[Fields]) -> Content:
    """What a user or a tool says."""
    content = Content("anthropic")
    for block in blocks:
        kind = block["type"]
        part = _part(block) if kind in ("image", "document") else None
        if part is not None:
            content.parts.append(part)
            if own := rest_of(block, "type", "source", "title", "cache_control"):
                content.keep_at(len(content.parts) - 1, {"type": kind, **own})
        elif kind == "text":
            _say(block, content)
        elif kind in ("image", "document", *SERVER_BLOCKS):
            content.stand_in({k: v for k, v in block.items() if k != "cache_control"})
        else:
            raise Unreadable(f"a {kind} block cannot stand here")
    return content


def _say(block: Fields, content: Content) -> None:
    if block["type"] != "text":
        content.stand_in({k: v for k, v in block.items() if k != "cache_control"})
        return
    content.say(_text(block))
    if block.get("citations"):
        content.extra.setdefault("citations", []).append(
            {"part": len(content.parts) - 1, "citations": block["citations"]}
        )


def _text(block: Fields) -> str:
    if block["type"] != "text":
        raise Unreadable(f"{shown(block)} is not a text block")
    return wanted(block, "text", "text block")


def _part(block: Fields) -> dict[str, Any] | None:
    """An image or document as a content part; None where it stands in Anthropic's store."""
    source = fields_of(block.get("source"))
    if not any(isinstance(source.get(key), str) for key in ("data", "url", "file_id", "content")):
        if not is_items(source.get("content")):
            raise Unreadable(f"the source of the {block['type']} block has neither data nor a url")
        return None
    url = source.get("url")
    if block["type"] == "image" and isinstance(url, str):
        return {"type": "image_url", "image_url": {"url": url}}
    data = source.get("data")
    if not isinstance(data, str):
        return None
    media_type = optional_text(source, "media_type", "application/octet-stream")
    uri = data_uri(media_type, encoded_text(data) if source.get("type") == "text" else data)
    if block["type"] == "image":
        return {"type": "image_url", "image_url": {"url": uri}}
    name = optional_text(block, "title", "document")
    return {"type": "file", "file": {"filename": name, "file_data": uri}}
