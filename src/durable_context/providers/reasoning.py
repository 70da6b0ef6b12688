"""What only one provider can read: which role it plays in that provider's messages, and what stands
for it elsewhere.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, cast

Provider = Literal["anthropic", "openai", "gemini"]
Place = Literal["alone", "frame", "instead"]
"""A block stands alone, gives fields to the item it belongs to, or stands instead of a text part
that other providers read (see `stand_in`).
"""

ALONE: Final = frozenset({"thinking", "redacted_thinking", "reasoning"})
FRAMES: Final = frozenset(
    {"tool_use", "tool_result", "message", "function_call", "custom_tool_call"}
)
GEMINI_DATA: Final = (
    "inline_data",
    "file_data",
    "executable_code",
    "code_execution_result",
    "tool_call",
    "tool_response",
)
"""What a part of Gemini's holds, besides text and function calls."""

_OPAQUE: Final = frozenset(
    {"signature", "encrypted_content", "encrypted_index", "encrypted_stdout", "thought_signature"}
)
_UNSAID: Final = frozenset({"type", "id", "tool_use_id", "cache_control", "status"})
_LONGEST_WORD: Final = 200
"""Longer strings of ASCII without a space are data, which nobody reads."""


def place_of(block: Mapping[str, Any]) -> Place:
    kind = block.get("type")
    if not isinstance(kind, str):  # parts of Gemini have no type of their own
        if "text" in block or block.get("thought"):
            return "alone"
        return "instead" if any(key in block for key in GEMINI_DATA) else "frame"
    if kind in ALONE:
        return "alone"
    return "frame" if kind in FRAMES or _describes_media(block) else "instead"


def _describes_media(block: Mapping[str, Any]) -> bool:
    """Whether these are fields of Anthropic's for an image or document that stands elsewhere."""
    return block.get("type") in ("image", "document") and "source" not in block


def stand_in(block: Mapping[str, Any]) -> str:
    """The text that stands for a block of a provider's own tools or files where others read."""
    kind = block.get("type") or next(key for key in GEMINI_DATA if key in block)
    fields = _legible(block if "type" in block else block[kind])
    return f"[{kind} {json.dumps(fields, ensure_ascii=False, sort_keys=True)}]"


def _legible(value: object, key: str = "") -> object:
    if isinstance(value, Mapping):
        fields = cast(Mapping[str, object], value)
        said = {k: _legible(v, k) for k, v in fields.items() if k not in _UNSAID}
        return {k: v for k, v in said.items() if v not in (None, "", [], {})}
    if isinstance(value, list | tuple):
        return [_legible(item, key) for item in cast(Sequence[object], value)]
    if isinstance(value, str) and (key in _OPAQUE or _is_data(value)):
        return None
    return value


def _is_data(text: str) -> bool:
    head = text[: 2 * _LONGEST_WORD]
    return len(text) > _LONGEST_WORD and head.isascii() and not any(map(str.isspace, head))
