"""What a model passes to a tool: parsed, and checked against the tool's JSON Schema. Messages say
what is allowed, since the model reads them.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from durable_context.errors import InvalidArgument

LARGEST_INTEGER = 2**31 - 1
"""The database's; no number of a turn or line is larger."""
_SHOWN = 80
"""Characters of a wrong value that a message repeats."""


def text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def integer(description: str, *, minimum: int = 1, maximum: int | None = None) -> dict[str, Any]:
    bounds = {"minimum": minimum} | ({} if maximum is None else {"maximum": maximum})
    return {"type": "integer", **bounds, "description": description}


def closed_object(required: tuple[str, ...] = (), **properties: dict[str, Any]) -> dict[str, Any]:
    """A schema that takes these properties and no others."""
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    return schema | {"required": list(required), "additionalProperties": False}


def parse_arguments(value: object) -> dict[str, Any]:
    """Arguments as a provider hands them over: an object, or its JSON text. Raises
    InvalidArgument.
    """
    parsed: object = value
    if isinstance(value, str):
        try:
            parsed = json.loads(value) if value.strip() else {}
        except (ValueError, RecursionError) as error:
            raise InvalidArgument(f"the arguments are no JSON: {error!s:.120}") from error
    if parsed is None:
        return {}
    if not isinstance(parsed, dict):
        raise InvalidArgument(f"the arguments are {parsed!r:.80}; they must be a JSON object")
    return cast("dict[str, Any]", parsed)


def checked(arguments: Mapping[str, object], schema: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that are given; null stands for one that is not. Raises InvalidArgument with
    all that is wrong.
    """
    given = {name: _number(value) for name, value in arguments.items() if value is not None}
    wrong = list(_wrong(given, schema))
    if wrong:
        raise InvalidArgument(f"{'; '.join(wrong)}. Allowed are: {_allowed(schema)}.")
    return given


def _number(value: object) -> object:
    """To JSON 3.0 is an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _wrong(given: Mapping[str, object], schema: Mapping[str, Any]) -> Iterator[str]:
    for name in schema["required"]:
        if name not in given:
            yield f"{name} is missing"
    for name, value in given.items():
        if name not in schema["properties"]:
            yield f"there is no argument {name!r:.{_SHOWN}}"
        elif not _is_valid(value, schema["properties"][name]):
            yield f"{name} is {value!r:.{_SHOWN}}"


def _is_valid(value: object, field: Mapping[str, Any]) -> bool:
    if field["type"] == "string":
        return isinstance(value, str) and value != ""
    if isinstance(value, bool) or not isinstance(value, int):
        return False
    return field["minimum"] <= value <= field.get("maximum", LARGEST_INTEGER)


def _allowed(schema: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} ({_kind(field)}{', required' if name in schema['required'] else ''})"
        for name, field in schema["properties"].items()
    )


def _kind(field: Mapping[str, Any]) -> str:
    if field["type"] == "string":
        return "text"
    upto = f" to {field['maximum']}" if "maximum" in field else ""
    return f"an integer from {field['minimum']}{upto}"
