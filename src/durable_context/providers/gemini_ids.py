"""Ids of function calls that came without one: Gemini pairs them with responses by name."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

_MADE: Final = "gemini-"
_DIGITS: Final = 24


def made_id(name: str, args: Mapping[str, Any], number: int) -> str:
    """The id of the `number`th such call among the messages given, the same each time."""
    said = json.dumps([name, args, number], sort_keys=True, default=str)
    return _MADE + hashlib.sha256(said.encode(errors="surrogatepass")).hexdigest()[:_DIGITS]


def is_given_id(call_id: str) -> bool:
    """Whether it came with the call."""
    return not (call_id.startswith(_MADE) and len(call_id) == len(_MADE) + _DIGITS)
