"""Checks a message in OpenAI chat format, so that what is wrong is reported with its place in the
file.
"""

from typing import Any

from durable_context.showing import shown
from durable_context.transcripts.model import JsonObject, Located, is_list, is_object

SYSTEM_ROLES = ("system", "developer")
ROLES = (*SYSTEM_ROLES, "user", "assistant", "tool")


def checked(found: Located) -> list[JsonObject]:
    """The message in a list of its own, as the reader of another format returns it."""
    message: JsonObject = found.value
    role = message.get("role")
    if role not in ROLES:
        raise found.error(f"role {shown(role)} is not one of {', '.join(ROLES)}")
    _check_content(message.get("content"), found)
    if role == "tool" and not isinstance(message.get("tool_call_id"), str):
        raise found.error('a tool message needs a "tool_call_id"')
    if message.get("tool_calls"):
        _check_calls(message["tool_calls"], role, found)
    return [message]


def _check_content(content: Any, found: Located) -> None:
    if content is None or isinstance(content, str):
        return
    if is_list(content) and all(
        is_object(part) and isinstance(part.get("type"), str) for part in content
    ):
        return
    raise found.error(f'content {shown(content)} is neither text nor a list of parts with a "type"')


def _check_calls(calls: Any, role: str, found: Located) -> None:
    if role != "assistant":
        raise found.error(f"a {role} message cannot have tool calls; only an assistant's can")
    if not is_list(calls) or not all(_is_call(call) for call in calls):
        raise found.error(
            f"tool_calls {shown(calls)} must be a list of "
            '{"id": text, "function": {"name": text, "arguments": JSON text}}'
        )


def _is_call(call: Any) -> bool:
    if not is_object(call) or not isinstance(call.get("id"), str):
        return False
    function = call.get("function")
    return (
        is_object(function)
        and isinstance(function.get("name"), str)
        and isinstance(function.get("arguments"), str)
    )
