"""Data as it stands in a content part: a data URI or base64, strict or as loosely written as
clients do.
"""

import re
from binascii import a2b_base64
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast
from urllib.parse import unquote_to_bytes

DATA_KEYS: Final = {
    "image_url": ("image_url", "url"),
    "input_audio": ("input_audio", "data"),
    "file": ("file", "file_data"),
}
"""Where a part of each type has its data: the key of its fields, and the key in them."""

_DATA_URI: Final = re.compile(r"\s{0,80}data:([^,]{0,1000}),", re.IGNORECASE)
_UNESCAPED: Final = ("%2B+", "%2F/", "%3D=", "%0A\n", "%0D\r", "%09\t", "%20 ")
_LONGEST_ESCAPED: Final = 1_048_576
"""Undoing percent escapes is slow: longer text that is all of that kind stays where it is."""
_HEAD_CHARACTERS: Final = 262_144


class EncodedData(NamedTuple):
    """The data is in `text` from `start` on. `declared` is the media type with its parameters, and
    `prefix` what stands before the data when it is written as base64.
    """

    text: str
    start: int
    is_base64: bool
    prefix: str
    declared: str


def encoded_data(part: Mapping[str, Any]) -> EncodedData | None:
    """The data of a part that carries any. Whether it can be decoded is not looked at."""
    kind = str(part.get("type"))
    if kind not in DATA_KEYS:
        return None
    outer, inner = DATA_KEYS[kind]
    field: Any = part.get(outer)
    text = field if isinstance(field, str) and kind == "image_url" else fields_of(field).get(inner)
    if not isinstance(text, str):
        return None
    uri = _DATA_URI.match(text)
    if uri is not None:
        return _data_of_uri(text, uri)
    return None if kind == "image_url" else EncodedData(text, 0, True, "", "")


def decoded(encoded: EncodedData) -> bytes:
    """All of the data; nothing when it is broken."""
    text = encoded.text[encoded.start :]
    try:
        if encoded.is_base64:
            return a2b_base64(text, strict_mode=True)
        return unquote_to_bytes(text) if len(text) <= _LONGEST_ESCAPED else b""
    except ValueError:
        return _loosely_decoded(text) if encoded.is_base64 else b""


def decoded_head(encoded: EncodedData) -> bytes:
    """The beginning of the data, about 190 KB of it; nothing when that is broken."""
    text = encoded.text[encoded.start : encoded.start + _HEAD_CHARACTERS]
    try:
        if not encoded.is_base64:
            return unquote_to_bytes(text)
        plain = _plain_base64(text)
        return a2b_base64(plain[: len(plain) // 4 * 4])
    except ValueError:
        return b""


def decoded_size(encoded: EncodedData) -> int:
    """Bytes of the data, without decoding it. Of a loosely written text it is the most."""
    length = len(encoded.text) - encoded.start
    if not encoded.is_base64:
        return length
    padding = sum(encoded.text.endswith("=" * count, encoded.start) for count in (1, 2))
    return max(0, length * 3 // 4 - padding)


def without_data(part: Mapping[str, Any]) -> dict[str, Any]:
    """The part but its type and its data."""
    outer, inner = DATA_KEYS[part["type"]]
    rest = {key: value for key, value in part.items() if key not in ("type", outer)}
    if isinstance(part[outer], Mapping):
        fields = fields_of(part[outer])
        rest[outer] = {key: value for key, value in fields.items() if key != inner}
    return rest


def fields_of(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _data_of_uri(text: str, uri: re.Match[str]) -> EncodedData:
    declared = uri[1].strip()
    media_type, separator, encoding = declared.rpartition(";")
    is_base64 = bool(separator) and encoding.strip().lower() == "base64"
    declared = media_type if is_base64 else declared
    return EncodedData(text, uri.end(), is_base64, f"data:{declared};base64,", declared)


def _loosely_decoded(text: str) -> bytes:
    """Base64 in lines, with percent escapes, in the alphabet of URLs, or without padding. Spaces
    inside a line are not: they may have been plus signs, and words are no data.
    """
    plain = _plain_base64(text)
    try:
        return a2b_base64(plain + "=" * (-len(plain) % 4), strict_mode=True)
    except ValueError:
        return b""


def _plain_base64(text: str) -> str:
    if "%" in text:
        for escape in _UNESCAPED:
            text = text.replace(escape[:3], escape[3]).replace(escape[:3].lower(), escape[3])
    lines = (line.strip() for line in text.replace("\r", "\n").split("\n"))
    return "".join(lines).replace("-", "+").replace("_", "/")
