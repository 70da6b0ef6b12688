"""JSON as it is stored: exact for every Python string, NUL characters and lone surrogates
included.
"""

import json
from collections.abc import Sequence
from typing import Any

from pydantic_core import from_json

from durable_context.models import LedgerEntry, Message


def dumps(value: object) -> str:
    """Compact JSON text that PostgreSQL's `json` type takes: what UTF-8 cannot hold is escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return text


def loads(text: str) -> Any:
    """The inverse of `dumps`."""
    try:
        return from_json(text)
    except ValueError:  # lone surrogates, which only the standard library takes
        return json.loads(text)


def dump_messages(messages: Sequence[Message]) -> str:
    return dumps([message.model_dump(exclude_defaults=True) for message in messages])


def load_message(fields: dict[str, Any]) -> Message:
    """A message that was validated when it was written."""
    return Message.model_validate(fields)


def dump_ledger(entries: Sequence[LedgerEntry]) -> str:
    return dumps([entry.model_dump(exclude_defaults=True) for entry in entries])


def load_ledger(
    fields: list[dict[str, Any]], turn_no: int | None = None
) -> tuple[LedgerEntry, ...]:
    """Entries; those without a turn number get `turn_no`. Turn rows add `tokens`, for prompts."""
    return tuple(
        LedgerEntry.model_validate(
            {"turn_no": turn_no} | {key: field[key] for key in field if key != "tokens"}
        )
        for field in fields
    )
