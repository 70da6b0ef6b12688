"""JSON as it is stored: exact for every Python string, NUL characters and lone surrogates
included.
"""

import json
from collections.abc import Sequence
from math import isfinite
from typing import Any, cast

from pydantic_core import from_json

from durable_context.errors import InvalidTurn
from durable_context.models import LedgerEntry, Message
from durable_context.showing import shown

DEEPEST = 64
LARGEST_BITS = 1024


def check_json(value: object, where: str, depth: int = 0) -> None:
    """Raises InvalidTurn unless `value` is JSON that comes back as it is: it names the place."""
    if value is None or isinstance(value, bool | str):
        return
    if depth > DEEPEST:
        raise InvalidTurn(f"{where} is nested more than {DEEPEST} levels deep")
    if isinstance(value, int):
        if value.bit_length() > LARGEST_BITS:
            raise InvalidTurn(f"{where} is an integer of more than {LARGEST_BITS} bits")
    elif isinstance(value, float):
        if not isfinite(value):
            raise InvalidTurn(f"{where} is {value!r}, which JSON does not know")
    elif isinstance(value, dict):
        for key, item in cast(dict[object, object], value).items():
            if not isinstance(key, str):
                raise InvalidTurn(f"{where} has a key {shown(key)}; keys must be text")
            check_json(item, f"{where}[{shown(key, 40)}]", depth + 1)
    elif isinstance(value, list | tuple):
        for position, item in enumerate(cast(list[object], value)):
            check_json(item, f"{where}[{position}]", depth + 1)
    else:
        raise InvalidTurn(
            f"{where} is {type(value).__name__} {shown(value)}; allowed are text, numbers,"
            " booleans, None, lists and dicts of these"
        )


def check_json_object(value: object, where: str) -> None:
    """The same for what must be a dict."""
    if not isinstance(value, dict):
        raise InvalidTurn(f"{where} is {shown(value)}; it must be a dict")
    check_json(cast(object, value), where)


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
    """Entries; those without a turn number get `turn_no`. Turn rows add tokens, for prompts."""
    return tuple(
        LedgerEntry.model_validate(
            {"turn_no": turn_no} | {key: field[key] for key in field if not key.endswith("tokens")}
        )
        for field in fields
    )
