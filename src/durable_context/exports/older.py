"""Streams of older versions, read as records of this version.

Version 2 had no pins. The turns of version 1 had the terms of all their messages together, and its
documents no terms by message: the next compaction of the branch indexes it anew.
"""

from datetime import UTC, datetime
from typing import Any, Final, cast

from durable_context.absolute_dates import date_terms

VERSIONS: Final = (1, 2)

Fields = dict[str, Any]


def header(fields: Fields) -> Fields:
    """The first line's, without what is not taken over."""
    first = fields.get("version") == 1
    kept = _without(fields, "indexed_documents", "indexed_terms") if first else dict(fields)
    counts = kept.get("counts")
    if isinstance(counts, dict):
        kept["counts"] = cast(Fields, counts) | {"pins": 0} | ({"documents": 0} if first else {})
    return kept


def record(fields: Fields, version: object) -> Fields | None:
    """A record's, or None for one that is not taken over."""
    if version != 1:
        return fields
    match fields.get("kind"):
        case "document":
            return None
        case "turn":
            return _turn(fields)
        case _:
            return fields


def _turn(fields: Fields) -> Fields:
    """With the terms of the whole turn as those of its first message."""
    terms, messages = fields.get("terms"), fields.get("messages")
    if not isinstance(terms, str) or not isinstance(messages, list):
        return fields
    first = " ".join([terms, *(f"'{term}'" for term in _day(fields.get("occurred_at")))])
    others = [""] * (len(cast(list[Any], messages)) - 1)
    return _without(fields, "terms") | {"message_terms": [first, *others], "speakers": []}


def _day(occurred_at: object) -> tuple[str, ...]:
    try:
        return date_terms(datetime.fromisoformat(str(occurred_at)).astimezone(UTC).date())
    except (ValueError, OverflowError):
        return ()


def _without(fields: Fields, *names: str) -> Fields:
    return {name: value for name, value in fields.items() if name not in names}
