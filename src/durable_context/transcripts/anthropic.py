"""Messages in Anthropic's format as OpenAI chat-format messages: content blocks become content
parts, tool calls and tool messages.
"""

import json
from typing import Any

from durable_context.transcripts.model import JsonObject, Located, is_list, is_object, shown
from durable_context.transcripts.openai import checked

_THINKING = ("thinking", "redacted_thinking")
_BLOCKS = ("text", "image", "document", "tool_use", "tool_result", *_THINKING)
# Blocks that only this format has: "text" is in both.
_MARKS = frozenset(_BLOCKS) - {"text"}


def speaks(message: JsonObject) -> bool:
    content = message.get("content")
    return is_list(content) and any(
        is_object(block) and block.get("type") in _MARKS for block in content
    )


def to_openai(found: Located) -> list[JsonObject]:
    """One message; a user message with tool results gives a tool message for each, then the rest of
    it.
    """
    message: JsonObject = found.value
    if not is_list(message.get("content")):
        return checked(found)
    blocks = [_block(block, found) for block in message["content"]]
    if message.get("role") == "assistant":
        return [_assistant(message, blocks, found)]
    if message.get("role") != "user":
        return checked(found)
    results = [_result(b, found) for b in blocks if b["type"] == "tool_result"]
    rest = [b for b in blocks if b["type"] != "tool_result"]
    return [*results, {**message, "content": _content(rest, found)}] if rest else results


def text_of(blocks: Any, found: Located) -> str | None:
    """Text blocks as one text: the form a top-level `system` may have."""
    if not is_list(blocks):
        raise found.error(f'"system" is {shown(blocks)}; it must be text or a list of text blocks')
    texts = [_block(block, found) for block in blocks]
    return "\n\n".join(_text(block, found) for block in texts) or None


def tool_to_openai(tool: JsonObject) -> JsonObject:
    if "input_schema" not in tool:
        return tool
    function = {"name": tool.get("name"), "parameters": tool["input_schema"]}
    if "description" in tool:
        function["description"] = tool["description"]
    return {"type": "function", "function": function}


def _block(block: Any, found: Located) -> JsonObject:
    if isinstance(block, str):
        return {"type": "text", "text": block}
    if not is_object(block) or block.get("type") not in _BLOCKS:
        kind: Any = block.get("type") if is_object(block) else block
        raise found.error(f"content block {shown(kind)} is not one of {', '.join(_BLOCKS)}")
    return block


def _assistant(message: JsonObject, blocks: list[JsonObject], found: Located) -> JsonObject:
    texts = [_text(block, found) for block in blocks if block["type"] == "text"]
    converted = {**message, "content": "\n\n".join(texts) or None}
    if thinking := [block for block in blocks if block["type"] in _THINKING]:
        converted["thinking"] = thinking
    if calls := [_call(block, found) for block in blocks if block["type"] == "tool_use"]:
        converted["tool_calls"] = calls
    return converted


def _call(block: JsonObject, found: Located) -> JsonObject:
    if not isinstance(block.get("id"), str) or not isinstance(block.get("name"), str):
        raise found.error('a tool_use block needs an "id" and a "name"')
    arguments = json.dumps(block.get("input", {}), ensure_ascii=False)
    function = {"name": block["name"], "arguments": arguments}
    return {"id": block["id"], "type": "function", "function": function}


def _result(block: JsonObject, found: Located) -> JsonObject:
    if not isinstance(block.get("tool_use_id"), str):
        raise found.error('a tool_result block needs a "tool_use_id"')
    content: Any = block.get("content", "")
    if is_list(content):
        content = _content([_block(inner, found) for inner in content], found)
    elif not isinstance(content, str):
        raise found.error(f"tool_result content {shown(content)} is neither text nor blocks")
    result = {"role": "tool", "tool_call_id": block["tool_use_id"], "content": content}
    return {**result, "is_error": True} if block.get("is_error") else result


def _content(blocks: list[JsonObject], found: Located) -> str | list[JsonObject]:
    if all(block["type"] == "text" for block in blocks):
        return "\n\n".join(_text(block, found) for block in blocks)
    return [_part(block, found) for block in blocks]


def _text(block: JsonObject, found: Located) -> str:
    if block["type"] != "text" or not isinstance(block.get("text"), str):
        raise found.error(f"{shown(block)} is not a text block")
    return block["text"]


def _part(block: JsonObject, found: Located) -> JsonObject:
    if block["type"] == "text":
        return {"type": "text", "text": _text(block, found)}
    if block["type"] == "image":
        return {"type": "image_url", "image_url": {"url": _url(block, found)}}
    if block["type"] == "document":
        file = {"filename": block.get("title") or "document", "file_data": _url(block, found)}
        return {"type": "file", "file": file}
    raise found.error(f"a {block['type']} block cannot stand here")


def _url(block: JsonObject, found: Located) -> str:
    source: Any = block.get("source")
    if is_object(source) and isinstance(source.get("url"), str):
        return source["url"]
    if is_object(source) and isinstance(source.get("data"), str):
        encoding = "" if source.get("type") == "text" else ";base64"
        media_type = source.get("media_type") or "application/octet-stream"
        return f"data:{media_type}{encoding},{source['data']}"
    raise found.error(f"the source of the {block['type']} block has neither data nor a url")
