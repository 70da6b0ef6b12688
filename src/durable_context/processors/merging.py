"""What a forked context has that its parent has not seen yet."""

from typing import Any, Final, cast

from durable_context.processors.copying import copied, same
from durable_context.processors.offloaded import (
    OFFLOADED_ARTIFACTS,
    OFFLOADED_MESSAGES,
    OFFLOADED_RESULTS,
)
from durable_context.processors.state import ContextState

_STORES: Final = (OFFLOADED_ARTIFACTS, OFFLOADED_MESSAGES, OFFLOADED_RESULTS)


class Unmerged:
    """Follows one child: what it inherited, and what of its own was merged already."""

    def __init__(self, inherited: dict[str, Any], token_usage: dict[str, int]) -> None:
        self._inherited = copied(inherited)
        self._own: dict[str, Any] = {}
        self._token_usage = dict(token_usage)

    def take_entries(self, state: ContextState) -> dict[str, Any]:
        """Deep copies of the entries that are new since the last call: own ones, and inherited
        ones that were changed in place.
        """
        own, seen = state.local_dict(), state.to_dict()
        inherited = {key: seen[key] for key in self._inherited if key in seen and key not in own}
        changed = _changed(inherited, self._inherited)
        news = copied(changed | _changed(own, self._own))
        changed, own = copied(changed), copied(own)
        self._inherited, self._own = self._inherited | changed, own
        return news

    def take_tokens(self, usage: dict[str, int]) -> dict[str, int]:
        """Tokens by key that are new since the last call."""
        news = {key: count - self._token_usage.get(key, 0) for key, count in usage.items()}
        self._token_usage = dict(usage)
        return {key: count for key, count in news.items() if count > 0}


def _changed(now: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value
        for key, value in now.items()
        if key not in before or not same(value, before[key])
    }


def merge_entries(state: ContextState, entries: dict[str, Any]) -> None:
    """Replace what is in the state, but for originals: whatever one of two has offloaded, stays."""
    for key, value in entries.items():
        state.set(key, _united(state.get(key), value) if key in _STORES else value)


def _united(here: Any, brought: Any) -> Any:
    if isinstance(here, dict) and isinstance(brought, dict):
        return {**cast("dict[str, Any]", here), **cast("dict[str, Any]", brought)}
    if isinstance(here, list) and isinstance(brought, list):
        known = cast("list[Any]", here)
        return [*known, *(entry for entry in cast("list[Any]", brought) if entry not in known)]
    return brought
