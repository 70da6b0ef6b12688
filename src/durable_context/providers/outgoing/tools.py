"""Tool definitions in OpenAI's form as other providers take them.

A definition that is in a provider's own form already is passed to it as it is. `strict` is left
out: what it demands of a schema differs between providers.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from durable_context.artifacts.encoded_data import fields_of
from durable_context.providers.outgoing.names import safe_name


def anthropic_tools(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [_anthropic_tool(tool) for tool in tools]


def gemini_tools(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """All functions in one tool, and what is Gemini's own beside it."""
    functions = [function for function in map(_function, tools) if function]
    declared = [
        _described(function) | {"parameters_json_schema": _schema(function)}
        for function in functions
    ]
    own = [dict(tool) for tool in tools if not _function(tool)]
    return [*([{"function_declarations": declared}] if declared else []), *own]


def _anthropic_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = None if "input_schema" in tool else _function(tool)
    if not function:
        return dict(tool)
    return _described(function) | {"input_schema": _schema(function)}


def _function(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """The function of a definition in the form of chat, Responses or Anthropic, else empty."""
    if "function" in tool:
        return fields_of(tool["function"])
    if tool.get("type") == "function":
        return tool
    if "input_schema" in tool and "name" in tool:
        return {**tool, "parameters": tool["input_schema"]}
    return {}


def _described(function: Mapping[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {"name": safe_name(str(function.get("name")))}
    if isinstance(function.get("description"), str):
        described["description"] = function["description"]
    return described


def _schema(function: Mapping[str, Any]) -> dict[str, Any]:
    """Both demand a schema of an object."""
    schema = fields_of(function.get("parameters"))
    return {"type": "object", **schema} if schema else {"type": "object", "properties": {}}
