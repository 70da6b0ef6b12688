"""What happened to a branch, newest first."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, cast, get_args

from starlette.requests import Request
from starlette.responses import Response

from durable_context import ContextEvent
from durable_context.events import EventKind
from durable_context.inspector.pages import branch_of, page, whole_number

PAGE: Final = 100
VALUES: Final = 20
"""Of a list or an object in an event: ids and figures, of which some events have very many."""
KINDS: Final[tuple[str, ...]] = get_args(EventKind)
_BAD: Final = frozenset({"compaction_failed", "over_budget", "damaged"})
_LAST: Final = 10**10 - 1


class _Shown(NamedTuple):
    """An event with its data in words. `other_branch` is the parent or child of a fork."""

    event: ContextEvent
    facts: tuple[tuple[str, str], ...]
    is_bad: bool
    compaction: str | None
    handle: str | None
    other_branch: str | None


async def events(request: Request) -> Response:
    branch = await branch_of(request)
    before = whole_number(request, "before", 0, 1, _LAST) or None
    kinds = [kind for kind in request.query_params.getlist("kind") if kind]
    found = await branch.newest_events(PAGE + 1, before=before, kinds=cast("list[Any]", kinds))
    return page(
        request,
        "events.html",
        title="Events",
        branch=branch,
        events=[_shown(event) for event in found[:PAGE]],
        next=found[PAGE - 1].cursor if len(found) > PAGE else None,
        is_first=before is None,
        only=kinds[0] if kinds else "",
        kinds=KINDS,
    )


def _shown(event: ContextEvent) -> _Shown:
    data = event.data
    handle = data.get("handle")
    other = data.get("child_id") or data.get("parent_id")
    return _Shown(
        event,
        tuple(_facts(data)),
        event.kind in _BAD,
        _text_or_none(data.get("compaction_id")),
        _text_or_none(handle),
        _text_or_none(other) if event.kind == "forked" else None,
    )


def _facts(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in data.items():
        if value is not None and value is not False and value != {} and value != []:
            yield name.replace("_", " "), _words(value)


def _words(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        parts = list(cast("dict[str, object]", value).items())
        return _some([f"{name} {_words(part)}" for name, part in parts[:VALUES]], len(parts))
    if isinstance(value, list):
        listed = cast("list[object]", value)
        return _some([_words(part) for part in listed[:VALUES]], len(listed))
    return str(value)[:500]


def _some(words: list[str], count: int) -> str:
    more = [f"and {count - len(words):,} more"] if count > len(words) else []
    return ", ".join([*words, *more])


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None
