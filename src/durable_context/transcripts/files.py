"""Finds the conversations in a file: one or a list of them as JSON, or JSON Lines with a
conversation or a message per line.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from durable_context.providers.incoming.responses import ITEMS
from durable_context.transcripts.conversations import read_conversation
from durable_context.transcripts.model import (
    JsonObject,
    Located,
    Transcript,
    TranscriptError,
    is_list,
    is_object,
)

_LINE_SUFFIXES = (".jsonl", ".ndjson")
_ALIASES = ("input", "contents")
_EXPECTED = (
    'a conversation is a list of messages, or an object with "messages" (OpenAI or Anthropic '
    'format), "input" (Responses format), "contents" (Gemini format) or "turns"'
)


def read_transcripts(path: Path | str) -> list[Transcript]:
    """The file's conversations in order. Raises TranscriptError with the place of what is wrong."""
    path = Path(path)
    values = _values(_text(path), path)
    conversations = list(_conversations(values, path))
    transcripts = [
        read_conversation(conversation, _default_name(path, number, len(conversations)))
        for number, conversation in enumerate(conversations, start=1)
    ]
    _refuse_duplicates(transcripts, conversations)
    return transcripts


def _default_name(path: Path, number: int, count: int) -> str:
    return path.stem if count == 1 else f"{path.stem}-{number}"


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise TranscriptError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise TranscriptError(
            f"{path}: byte {error.start} is not UTF-8; a transcript is JSON or JSON Lines in UTF-8"
        ) from error


def _values(text: str, path: Path) -> list[Located]:
    """The JSON values in the file: the one it is, or one per line."""
    if not text.strip():
        raise TranscriptError(f"{path}: the file is empty; {_EXPECTED}")
    if path.suffix.lower() in _LINE_SUFFIXES:
        return _lines(text, path)
    try:
        return [Located(_parsed(text), str(path))]
    except ValueError as error:
        if _is_json(text.lstrip().split("\n", 1)[0]):
            return _lines(text, path)
        raise TranscriptError(f"{path}: not JSON: {error}") from error


def _lines(text: str, path: Path) -> list[Located]:
    found: list[Located] = []
    # Only \n ends a line of JSON Lines: str.splitlines() would also cut at U+2028 inside a string.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        place = f"{path}, line {number}"
        try:
            found.append(Located(_parsed(line), place))
        except ValueError as error:
            raise TranscriptError(f"{place}: not JSON: {error}") from error
    return found


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _is_json(line: str) -> bool:
    try:
        _parsed(line)
    except ValueError:
        return False
    return True


def _conversations(values: list[Located], path: Path) -> Iterator[Located]:
    """Each as an object with "messages", which hold their places, or with "turns"."""
    if _is_message(values[0].value):
        yield Located({"messages": values}, str(path))
        return
    for value in values:
        items = value.value
        if is_list(items) and items and not _is_message(items[0]):
            yield from (
                _conversation(Located(item, f"{value.place}, conversation {number}"))
                for number, item in enumerate(items, start=1)
            )
        else:
            yield _conversation(value)


def _conversation(found: Located) -> Located:
    value = found.value
    if is_list(value):
        value = {"messages": value}
    if is_object(value) and (key := next((key for key in _ALIASES if key in value), None)):
        value = {"messages" if k == key else k: item for k, item in value.items()}
    if not is_object(value) or not ("messages" in value or "turns" in value):
        raise found.error(f"{_kind(value)} is not a conversation; {_EXPECTED}")
    return Located({**value, **_located_list(value, found.place)}, found.place)


def _located_list(value: JsonObject, place: str) -> dict[str, list[Located]]:
    key, word = ("messages", "message") if "messages" in value else ("turns", "turn")
    items = value[key]
    if not is_list(items) or not items:
        raise TranscriptError(f'{place}: "{key}" must be a list of at least one {word}')
    return {
        key: [
            Located(item, f"{place}, {word} {number}") for number, item in enumerate(items, start=1)
        ]
    }


def _is_message(value: object) -> bool:
    if not is_object(value) or "messages" in value:
        return False
    return "role" in value or "parts" in value or value.get("type") in ITEMS


def _kind(value: object) -> str:
    if is_object(value):
        return f"an object with {sorted(value)!r}"
    return f"a JSON {type(value).__name__}" if value is not None else "null"


def _refuse_duplicates(transcripts: list[Transcript], conversations: list[Located]) -> None:
    places: dict[str, str] = {}
    for transcript, conversation in zip(transcripts, conversations, strict=True):
        if first := places.get(transcript.name):
            raise conversation.error(
                f"the name {transcript.name!r} is that of {first} too; each conversation needs an "
                "id of its own"
            )
        places[transcript.name] = conversation.place
