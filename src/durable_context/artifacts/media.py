"""Content parts that carry data: taking the data out, the reference that stands in for it, and the
part made whole again. Names and media types come from outside and are made safe to show.
"""

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from durable_context.artifacts.encoded_data import (
    DATA_KEYS,
    decoded,
    decoded_head,
    decoded_size,
    encoded_data,
    fields_of,
    without_data,
)
from durable_context.artifacts.media_tokens import (
    PART_TOKENS,
    audio_tokens,
    dimensions,
    file_tokens,
    image_tokens,
    signed_media_type,
)

_WORDS: Final = {"image_url": "image", "input_audio": "audio", "file": "file"}
_NAME: Final = re.compile(r";\s*(?:file)?name\s*=\s*\"?([^;\"]+)", re.IGNORECASE)
_MEDIA_TYPE: Final = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,63}")
_UNKNOWN: Final = "application/octet-stream"
_AUDIO_TYPES: Final = {"mp3": "audio/mpeg"}
_FILE_TYPES: Final = {
    "csv": "text/csv",
    "html": "text/html",
    "json": "application/json",
    "md": "text/markdown",
    "txt": "text/plain",
    "xml": "application/xml",
}
_LONGEST_NAME: Final = 80
_BRACKETS: Final = str.maketrans("[]<>{}", "()‹›()")


class BinaryPart(NamedTuple):
    """The data of a content part. `name` is safe to show and to store; `prefix` is what stood
    before the data as base64, and `rest` all of the part but its data.
    """

    type: str
    data: bytes
    media_type: str
    name: str | None
    width: int | None
    height: int | None
    tokens: int
    prefix: str
    rest: dict[str, Any]


def binary_part(part: Mapping[str, Any]) -> BinaryPart | None:
    """What a part carries; None for a part without data (a link, a file id) or with broken data."""
    encoded = encoded_data(part)
    data = decoded(encoded) if encoded else b""
    if encoded is None or not data:
        return None
    width, height = dimensions(data)
    return BinaryPart(
        type=part["type"],
        data=data,
        media_type=_media_type(part, encoded.declared, data),
        name=_name(part, encoded.declared),
        width=width,
        height=height,
        tokens=_tokens(part, encoded.declared, data, len(data)),
        prefix=encoded.prefix,
        rest=without_data(part),
    )


def stored_part(part: BinaryPart, handle: str, name: str | None = None) -> dict[str, Any]:
    """The part as a turn row keeps it: its artifact instead of its data."""
    artifact = {
        "handle": handle,
        "media_type": part.media_type,
        "size": len(part.data),
        "name": name or part.name,
        "width": part.width,
        "height": part.height,
        "tokens": part.tokens,
        "prefix": part.prefix,
        "rest": part.rest,
    }
    return {"type": part.type, "artifact": artifact}


def is_stored_part(part: Mapping[str, Any]) -> bool:
    """Whether `stored_part` can have made it."""
    kind, artifact = str(part.get("type")), fields_of(part.get("artifact"))
    if kind not in DATA_KEYS or not isinstance(artifact.get("rest"), Mapping):
        return False
    texts = (artifact.get("handle"), artifact.get("media_type"), artifact.get("prefix"))
    fields = artifact["rest"].get(DATA_KEYS[kind][0], {})
    return all(isinstance(text, str) for text in texts) and isinstance(fields, Mapping)


def part_reference(stored: Mapping[str, Any]) -> str:
    """The line that stands for a stored part in a prompt."""
    artifact = stored["artifact"]
    width, height = _number(artifact.get("width")), _number(artifact.get("height"))
    facts = [
        shown_name(str(artifact.get("name") or "")),
        shown_name(artifact["media_type"]),
        f"{width}×{height} pixels" if width and height else "",
        f"{_number(artifact.get('size')):,} bytes",
    ]
    kind, handle = _WORDS[stored["type"]], shown_name(artifact["handle"])
    return f"[{kind} {handle}: {', '.join(filter(None, facts))}]"


def loaded_part(stored: Mapping[str, Any], data: bytes) -> dict[str, Any]:
    """The part that `stored` was made of, with its data."""
    artifact = stored["artifact"]
    outer, inner = DATA_KEYS[stored["type"]]
    text = artifact["prefix"] + b64encode(data).decode()
    rest = dict(artifact["rest"])
    fields = rest.pop(outer, None)
    filled = text if fields is None else {**fields, inner: text}
    return {"type": stored["type"], outer: filled, **rest}


class ImageFacts(NamedTuple):
    """What the cost of an image depends on. Sides are None where they are not known."""

    width: int | None
    height: int | None
    detail: object


def image_facts(part: Mapping[str, Any]) -> ImageFacts | None:
    """Of an image, whether stored, with its data, or a link to it; None for other parts."""
    if part.get("type") != "image_url":
        return None
    if is_stored_part(part):
        artifact = part["artifact"]
        sides = _number(artifact.get("width")) or None, _number(artifact.get("height")) or None
        return ImageFacts(*sides, _detail(artifact["rest"]))
    encoded = encoded_data(part)
    sides = dimensions(decoded_head(encoded)) if encoded is not None else (None, None)
    return ImageFacts(*sides, _detail(part))


def part_tokens(part: Mapping[str, Any]) -> int:
    """What a prompt pays for a part that is no text, whole. Decodes only the data's beginning."""
    if is_stored_part(part):
        return _number(part["artifact"].get("tokens"))
    encoded = encoded_data(part)
    if encoded is not None:
        return _tokens(part, encoded.declared, decoded_head(encoded), decoded_size(encoded))
    if "image" in str(part.get("type")):
        return image_tokens(None, None, _detail(part))
    return PART_TOKENS + len(json.dumps(part, default=str)) // 16


def shown_name(text: str) -> str:
    """Text from outside as part of one line of ours: short, visible, and without brackets."""
    if len(text) > 4 * _LONGEST_NAME:
        text = f"{text[: 2 * _LONGEST_NAME]}…{text[-2 * _LONGEST_NAME :]}"
    visible = "".join(c if c.isprintable() else " " for c in text)
    line = " ".join(visible.split()).translate(_BRACKETS)
    if len(line) > _LONGEST_NAME:
        return f"{line[: _LONGEST_NAME - 20]}…{line[-19:]}"
    return line


def _tokens(part: Mapping[str, Any], declared: str, head: bytes, size: int) -> int:
    if part["type"] == "image_url":
        return image_tokens(*dimensions(head), _detail(part))
    if part["type"] == "file":
        return file_tokens(size)
    return audio_tokens(_media_type(part, declared, head), head, size)


def _media_type(part: Mapping[str, Any], declared: str, data: bytes) -> str:
    """What the data says it is, before what the part or its name say."""
    essence = declared.partition(";")[0].strip().lower()
    if not essence and part["type"] == "input_audio":
        found = str(part["input_audio"].get("format")).lower()
        essence = _AUDIO_TYPES.get(found, f"audio/{found}")
    known = essence if _MEDIA_TYPE.fullmatch(essence) else None
    return signed_media_type(data) or known or _type_of_name(_name(part, declared))


def _type_of_name(name: str | None) -> str:
    return _FILE_TYPES.get((name or "").rpartition(".")[2].lower(), _UNKNOWN)


def _detail(part: Mapping[str, Any]) -> object:
    return fields_of(part.get("image_url")).get("detail") or part.get("detail")


def _name(part: Mapping[str, Any], declared: str) -> str | None:
    name = fields_of(part.get("file")).get("filename")
    if not isinstance(name, str):
        found = _NAME.search(declared)
        name = unquote(found[1]) if found else ""
    return shown_name(name) or None


def _number(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0
