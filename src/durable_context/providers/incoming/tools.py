"""Tool definitions of other providers in OpenAI's chat form; what is no function stays as it is."""

from collections.abc import Sequence
from typing import Any

from durable_context.providers.incoming.reading import Fields, is_fields, is_items

_DECLARATIONS = ("function_declarations", "functionDeclarations")
_PARAMETERS = ("parameters", "input_schema", "parameters_json_schema", "parametersJsonSchema")


def tools_to_chat(tools: Sequence[Fields]) -> list[dict[str, Any]]:
    return [converted for tool in tools for converted in _converted(tool)]


def _converted(tool: Fields) -> list[dict[str, Any]]:
    """One tool of Gemini's may declare several functions."""
    for key in _DECLARATIONS:
        declared = tool.get(key)
        if is_items(declared):
            return [_function(one) for one in declared if is_fields(one)]
    flat = tool.get("type") == "function" and "function" not in tool
    return [_function(tool) if flat or "input_schema" in tool else dict(tool)]


def _function(fields: Fields) -> dict[str, Any]:
    function: dict[str, Any] = {"name": fields.get("name")}
    if "description" in fields:
        function["description"] = fields["description"]
    schema = next((fields[key] for key in _PARAMETERS if fields.get(key) is not None), None)
    if schema is not None:
        function["parameters"] = schema
    return {"type": "function", "function": function}
