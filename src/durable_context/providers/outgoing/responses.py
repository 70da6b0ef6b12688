"""A prompt as the input of OpenAI's Responses API.

Rules kept, with where they are stated:
- A reasoning item stands right before the item it led to, and goes where that goes: one without
  the other is refused (openai/openai-node#1567, continuedev/continue#11994).
- Items made after reasoning carry the ids they came with (pydantic/pydantic-ai#2882); others carry
  none (pydantic/pydantic-ai#2950).
- `phase` of an assistant's message is sent back (`EasyInputMessageParam` in the openai package).
- A call id has at most 64 characters.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from durable_context.providers.outgoing.media import Media, media_of
from durable_context.providers.outgoing.names import arguments_object, safe_name
from durable_context.providers.outgoing.spoken import Blocks, Slot, Spoken, part_text, spoken

Item = dict[str, Any]

START = "(start)"
"""The input where a prompt says nothing."""
_LONGEST_ID = 64


def to_responses_input(
    messages: Sequence[Mapping[str, Any]], *, blocks: Blocks | None = None
) -> list[Item]:
    """Input items; the instructions are the first, of role system."""
    custom: set[str] = set()
    items: list[Item] = []
    for one in spoken(messages, blocks or {}, "openai"):
        items += _items(one, custom)
        if one.calls:
            custom = {slot.call["id"] for slot in one.calls if slot.call and _is_custom(slot)}
    if all(item.get("role") == "system" for item in items):
        items.append({"type": "message", "role": "user", "content": START})
    return items


def _items(one: Spoken, custom: set[str]) -> Iterator[Item]:
    """`custom`: those of the newest calls whose tools take text."""
    if one.role == "assistant":
        yield from _output(one)
    elif one.role == "tool":
        shown = one.text if one.text is not None else _content(one)
        kind = "custom_tool_call" if one.answers in custom else "function_call"
        call_id = _call_id(one.answers)
        yield {"type": f"{kind}_output", "call_id": call_id, "output": shown or ""}
    else:
        content: Any = one.text if one.text is not None else _content(one)
        if isinstance(content, str):
            content = f"{one.name}: {content}" if one.name and content else content
        elif one.name and content:
            content = [{"type": "input_text", "text": f"{one.name}:"}, *content]
        if content:
            yield {"type": "message", "role": one.role, "content": content}


def _output(one: Spoken) -> Iterator[Item]:
    """Reasoning waits for the item that it belongs to, and is left out where none follows."""
    waiting: list[Item] = []
    message: Item | None = None
    thought = False
    for slot in one.slots():
        waiting += slot.before
        if slot.frame.get("type") == "message" or slot.before or slot.instead or slot.call:
            message = None
        items = slot.instead or _said(slot, message)
        if not items:
            continue
        thought = thought or bool(waiting)
        items = items if thought else list(map(_without_id, items))
        yield from waiting
        waiting = []
        yield from items
        message = items[-1] if items[-1].get("content") is not None else message


def _without_id(item: Item) -> Item:
    """Of an item that stands before all reasoning: its id would have the API look for some."""
    bare = {key: value for key, value in item.items() if key not in ("id", "status")}
    if bare["type"] != "message" or isinstance(bare["content"], str):
        return bare
    texts = (part.get("text") or part.get("refusal") or "" for part in bare["content"])
    return bare | {"content": "".join(texts)}


def _said(slot: Slot, message: Item | None) -> list[Item]:
    if slot.call is not None:
        return [_call(slot)]
    if slot.part is None:
        return []
    text = part_text(slot.part)
    text = media_of(slot.part).reference() if text is None else text
    if not text:
        return []
    fields = {key: value for key, value in slot.frame.items() if key != "type"}
    if "id" in fields:
        refused = "refusal" in slot.part
        return [_output_message(fields, _output_part(text, refused))]
    if message is not None and "id" in message:  # a further part of the same item
        message["content"].append(_output_part(text, "refusal" in slot.part))
        return []
    return [{"type": "message", "role": "assistant", "content": text, **fields}]


def _output_message(fields: Mapping[str, Any], part: Item) -> Item:
    said = {"type": "message", "role": "assistant", "status": "completed", "content": [part]}
    return said | dict(fields)


def _output_part(text: str, refused: bool) -> Item:
    if refused:
        return {"type": "refusal", "refusal": text}
    return {"type": "output_text", "text": text, "annotations": []}


def _call(slot: Slot) -> Item:
    assert slot.call is not None
    function = slot.call["function"]
    said: Item = {"arguments": function["arguments"]}
    if _is_custom(slot):
        said = {"input": str(arguments_object(function["arguments"]).get("input", ""))}
    return {
        "type": "function_call",
        "call_id": _call_id(slot.call["id"]),
        "name": safe_name(function["name"]),
        **said,
        **slot.frame,
    }


def _is_custom(slot: Slot) -> bool:
    return slot.frame.get("type") == "custom_tool_call"


def _call_id(call_id: str) -> str:
    return call_id if len(call_id) <= _LONGEST_ID else safe_name(call_id)


def _content(one: Spoken) -> list[Item]:
    return [item for slot in one.parts for item in slot.instead or _shown(slot)]


def _shown(slot: Slot) -> list[Item]:
    assert slot.part is not None
    text = part_text(slot.part)
    if text is None:
        return [_media(media_of(slot.part))]
    return [{"type": "input_text", "text": text}] if text else []


def _media(media: Media) -> Item:
    shown = media.data_uri if media.data is not None else media.url
    if media.kind == "image" and shown:
        return {"type": "input_image", "image_url": shown, "detail": media.detail or "auto"}
    if media.kind == "file" and media.data is not None:
        name = media.name or "document"
        return {"type": "input_file", "filename": name, "file_data": media.data_uri}
    if media.kind == "file" and media.file_id:
        return {"type": "input_file", "file_id": media.file_id}
    return {"type": "input_text", "text": media.reference()}
