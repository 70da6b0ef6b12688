"""Images, sounds and files of a prompt, as other providers are given them."""

import mimetypes
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from durable_context.artifacts.encoded_data import fields_of
from durable_context.artifacts.media import binary_part, shown_name

Kind = Literal["image", "audio", "file"]
_KINDS: dict[str, Kind] = {"image_url": "image", "input_audio": "audio", "file": "file"}


class Media(NamedTuple):
    """A content part with data, or with an address or file id where the data is elsewhere."""

    kind: Kind
    media_type: str
    data: bytes | None = None
    url: str | None = None
    file_id: str | None = None
    name: str | None = None
    detail: str | None = None

    @property
    def base64(self) -> str:
        return b64encode(self.data or b"").decode()

    @property
    def data_uri(self) -> str:
        return f"data:{self.media_type};base64,{self.base64}"

    @property
    def text(self) -> str | None:
        """The text that a file of text is; None for other files, and for one that is blank."""
        kind, _, subtype = self.media_type.partition("/")
        if self.data is None or not (kind == "text" or subtype in ("json", "xml")):
            return None
        try:
            text = self.data.decode()
        except UnicodeDecodeError:
            return None
        return text if text.strip() else None

    def reference(self) -> str:
        """The line that stands for it where the provider or the message cannot hold it."""
        facts = [shown_name(self.name or self.file_id or ""), shown_name(self.media_type)]
        if self.data is not None:
            facts.append(f"{len(self.data):,} bytes")
        if self.url:
            facts.append(shown_name(self.url))
        return f"[{self.kind}, not shown: {', '.join(filter(None, facts))}]"


def media_of(part: Mapping[str, Any]) -> Media:
    """What a part that is no text holds."""
    kind = _KINDS.get(str(part.get("type")), "file")
    binary = binary_part(part)
    detail = fields_of(part.get("image_url")).get("detail")
    detail = detail if isinstance(detail, str) else None
    if binary is not None:
        return Media(kind, binary.media_type, binary.data, name=binary.name, detail=detail)
    if kind == "image":
        url = part.get("image_url")
        url = url if isinstance(url, str) else fields_of(url).get("url")
        url = url if isinstance(url, str) and url.startswith(("http://", "https://")) else None
        guess = mimetypes.guess_type(url.partition("?")[0])[0] if url else None
        return Media(kind, guess or "image/jpeg", url=url, detail=detail)
    fields = fields_of(part.get("file"))
    found = {key: value for key, value in fields.items() if isinstance(value, str)}
    file_id, name = found.get("file_id"), found.get("filename")
    guess = mimetypes.guess_type(name)[0] if name else None
    return Media(kind, guess or "application/octet-stream", file_id=file_id, name=name)
