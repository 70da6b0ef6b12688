"""What tool definitions cost a prompt, by the rule of the model that reads them.

OpenAI's rule is that of the cookbook (see `model_tokens`), which it publishes for tools whose
parameters all have a type and a description. What it does not say (nested objects, arrays, other
keywords, missing descriptions) is counted alike, and `UNPUBLISHED` more for each such tool: of 13
requests that people measured (hmarr/openai-chat-tokens, chrisdinn/tokens) none needs more. A
`tool_choice` is not seen here; forcing a function costs its name and 4. Other families, and no
model, count the whole JSON, which none is known to exceed.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from durable_context.model_tokens import CountedAs
from durable_context.tokens import TokenCounter

TOOLS_END: Final = 12
"""Once, where there are any tools."""
TOOL_START: Final = {"o200k_base": 7, "cl100k_base": 10}
PROPERTIES_START: Final = 3
PROPERTY: Final = 3
ENUM: Final = -3
ENUM_ITEM: Final = 3
UNPUBLISHED: Final = 4
ANTHROPIC_TOOLS: Final = 530
"""The longest system prompt that Anthropic is known to add for tools (platform.claude.com)."""

_PUBLISHED_KEYS: Final = frozenset({"type", "description", "enum"})
_NOT_SENT: Final = frozenset({"required", "additionalProperties", "strict", "$schema"})
_WALKED: Final = _PUBLISHED_KEYS | _NOT_SENT | {"properties", "items"}
_DEEPEST: Final = 32


def count_tools(
    tools: Sequence[Mapping[str, Any]], counter: TokenCounter, model: CountedAs | None
) -> int:
    """Tokens of all definitions together, in the counter's encoding."""
    if not tools:
        return 0
    if model is None or not model.is_exact(counter.encoding):
        extra = ANTHROPIC_TOOLS if model is not None and model.family == "anthropic" else 0
        return counter.count_tools(tools) + extra
    return TOOLS_END + sum(_tool(tool, counter) for tool in tools)


def _tool(tool: Mapping[str, Any], counter: TokenCounter) -> int:
    function = _mapping(tool.get("function")) or tool
    name = function.get("name")
    schema = _mapping(function.get("parameters") or function.get("input_schema"))
    if not isinstance(name, str):  # a tool of the provider's own, or of another form
        return counter.count_tools([tool])
    line = f"{name}:{_description(function)}"
    cost = TOOL_START[counter.encoding] + counter.count(line)
    cost += _properties(schema, counter.count, 0)
    return cost if _is_published(function, schema) else cost + UNPUBLISHED


def _properties(schema: Mapping[str, Any], count: Callable[[str], int], depth: int) -> int:
    if depth > _DEEPEST:
        return count(_json(schema))
    total = _unwalked(schema, count)
    properties = _mapping(schema.get("properties"))
    if properties:
        total += PROPERTIES_START
    for name, value in properties.items():
        total += PROPERTY + _property(name, _mapping(value), count, depth)
    return total


def _property(name: str, schema: Mapping[str, Any], count: Callable[[str], int], depth: int) -> int:
    kind = schema.get("type", "")
    said = kind if isinstance(kind, str) else _json(kind)
    total = count(f"{name}:{said}:{_description(schema)}")
    if isinstance(schema.get("enum"), list):
        total += ENUM + _items(schema, count)
    total += _properties(schema, count, depth + 1)
    items = schema.get("items")
    if items is None:
        return total
    inner = _mapping(items)
    return total + _property("", inner, count, depth + 1) if inner else total + count(_json(items))


def _items(schema: Mapping[str, Any], count: Callable[[str], int]) -> int:
    return sum(
        ENUM_ITEM + count(item if isinstance(item, str) else _json(item)) for item in schema["enum"]
    )


def _unwalked(schema: Mapping[str, Any], count: Callable[[str], int]) -> int:
    """Keywords whose form in the prompt is unknown, as JSON."""
    rest = {key: value for key, value in schema.items() if key not in _WALKED}
    return count(_json(rest)) if rest else 0


def _is_published(function: Mapping[str, Any], schema: Mapping[str, Any]) -> bool:
    """Whether the rule was published for just this form."""
    properties = _mapping(schema.get("properties"))
    return (
        isinstance(function.get("description"), str)
        and bool(properties)
        and not function.get("strict")
        and schema.keys() <= _WALKED - {"items", "enum"}
        and all(_is_published_property(_mapping(value)) for value in properties.values())
    )


def _is_published_property(schema: Mapping[str, Any]) -> bool:
    choices: Any = schema.get("enum") or ()
    if not isinstance(choices, list | tuple):
        return False
    texts = (schema.get("type"), schema.get("description"), *cast(Sequence[object], choices))
    return schema.keys() <= _PUBLISHED_KEYS and all(isinstance(text, str) for text in texts)


def _description(fields: Mapping[str, Any]) -> str:
    said = fields.get("description")
    return said.removesuffix(".") if isinstance(said, str) else ""


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
