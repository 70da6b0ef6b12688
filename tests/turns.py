"""Made-up turns for tests."""

import json
from typing import Any


def chat(user: str, assistant: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": user}, {"role": "assistant", "content": assistant}]


def call(call_id: str, name: str, **arguments: object) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": call_id, "type": "function", "function": function}


def calling(*calls: dict[str, Any], content: str | None = None) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def result(call_id: str, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def exchange(call_id: str, content: str, name: str = "run", **arguments: object) -> list[Any]:
    """One complete tool exchange."""
    return [calling(call(call_id, name, **arguments)), result(call_id, content)]


def numbered(turn: int) -> list[dict[str, Any]]:
    """A turn that can be told from others by its number."""
    return chat(
        f"Where is shipment SHP-{turn:04d}? The customer asks about order {1000 + turn}.",
        f"Shipment SHP-{turn:04d} left the depot in Rotterdam on day {turn} and is on its way.",
    )
