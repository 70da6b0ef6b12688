"""Ids and names that a provider takes: the same one for the same one, and no two for one call."""

import hashlib
import json
import re
from typing import Any, Final, cast

from durable_context import stored_json
from durable_context.errors import InvalidTurn
from durable_context.text import clean_values

_REFUSED: Final = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST: Final = 64
_HASHED: Final = 12


def safe_name(name: str) -> str:
    """A name of letters, digits, `_` and `-`, at most 64: one that is so stays as it is.

    Anthropic and OpenAI refuse others in ids and names of tools
    (github.com/HKUDS/nanobot/pull/4356; the pattern is in both APIs' errors).
    """
    if name and len(name) <= _LONGEST and not _REFUSED.search(name):
        return name
    mark = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:_HASHED]
    return f"{_REFUSED.sub('_', name)[: _LONGEST - _HASHED - 1]}_{mark}"


class CallIds:
    """Ids of tool calls in one request, in order: an id that another exchange has used is
    numbered, since Anthropic refuses repeated ones.
    """

    def __init__(self) -> None:
        self._used: dict[str, int] = {}
        self._open: dict[str, str] = {}

    def call(self, call_id: str) -> str:
        base = found = safe_name(call_id)
        count = self._used.get(base, 0) + 1
        while found in self._used:
            count += 1
            found = safe_name(f"{base}_{count - 1}")
        self._used[base] = count
        self._used.setdefault(found, 1)
        self._open[call_id] = found
        return found

    def answer(self, call_id: str) -> str:
        """The id that the newest call of this id got."""
        return self._open.get(call_id) or safe_name(call_id)


def arguments_object(arguments: str) -> dict[str, Any]:
    """Arguments of a call as the object that Anthropic and Gemini demand; text that is no JSON
    object stands in one, under "arguments".
    """
    found = json_object(arguments if arguments.strip() else "{}")
    return {"arguments": arguments} if found is None else found


def json_object(text: str) -> dict[str, Any] | None:
    """The JSON object that a text is, if any encoder can write it again."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        found = json.loads(text)
        stored_json.check_json(found, "")
    except (ValueError, RecursionError, InvalidTurn):
        return None
    return cast(dict[str, Any], clean_values(found))
