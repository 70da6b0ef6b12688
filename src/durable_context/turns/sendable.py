"""Messages on their way out: what every provider takes, in OpenAI chat format."""

from typing import Any, cast

from durable_context.artifacts.media import is_stored_part, part_reference
from durable_context.models import Message, ToolCall
from durable_context.text import clean, clean_values


def sendable(message: Message) -> Message:
    """The message as prompts show it: characters no provider takes, and look-alikes of our own
    blocks, are replaced. Tokens are counted on this.
    """
    content = message.content
    if _is_clean(message):
        return message
    return message.model_copy(
        update={
            "content": _clean_content(content),
            "name": None if message.name is None else clean(message.name),
            "tool_calls": tuple(
                ToolCall(id=clean(c.id), name=clean(c.name), arguments=clean(c.arguments))
                for c in message.tool_calls
            ),
            "tool_call_id": None if message.tool_call_id is None else clean(message.tool_call_id),
        }
    )


def _is_clean(message: Message) -> bool:
    """Whether nothing needs replacing, which is nearly always so."""
    if isinstance(message.content, tuple):
        return False
    texts = [message.content, message.name, message.tool_call_id]
    for call in message.tool_calls:
        texts += (call.id, call.name, call.arguments)
    return all(text is None or clean(text) is text for text in texts)


def to_openai(message: Message) -> dict[str, Any]:
    """A sendable message in OpenAI chat format, without our own fields. Stored parts become their
    references.
    """
    fields: dict[str, Any] = {"role": message.role}
    if message.content is None:
        fields["content"] = None if message.tool_calls else ""
    else:
        parts = message.content
        fields["content"] = parts if isinstance(parts, str) else list(map(_sent, parts)) or ""
    if message.name is not None:
        fields["name"] = message.name
    if message.tool_calls:
        fields["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        fields["tool_call_id"] = message.tool_call_id
    return fields


def _sent(part: dict[str, Any]) -> dict[str, Any]:
    if is_stored_part(part):
        return {"type": "text", "text": part_reference(part)}
    if part.get("type") == "text" and "artifact" in part:  # a view of what was offloaded
        return {key: value for key, value in part.items() if key != "artifact"}
    return part


def _clean_content(
    content: str | tuple[dict[str, Any], ...] | None,
) -> str | tuple[dict[str, Any], ...] | None:
    if content is None or isinstance(content, str):
        return content if content is None else clean(content)
    return tuple(cast(dict[str, Any], clean_values(part)) for part in content)
