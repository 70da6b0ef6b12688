"""Images, sounds and files as content parts of OpenAI chat format."""

from base64 import b64encode
from typing import Any, Final

_FORMATS: Final = {
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
    "audio/wav": "wav",
    "audio/x-wav": "wav",
}


def data_uri(media_type: str, base64: str) -> str:
    return f"data:{media_type};base64,{base64}"


def encoded_text(text: str) -> str:
    return b64encode(text.encode(errors="surrogatepass")).decode()


def data_part(media_type: str, base64: str, name: str | None = None) -> dict[str, Any]:
    """The part for data of this type: an image, a sound, or else a file."""
    if media_type.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": data_uri(media_type, base64)}}
    if media_type in _FORMATS:
        audio = {"data": base64, "format": _FORMATS[media_type]}
        return {"type": "input_audio", "input_audio": audio}
    file = {"filename": name or "document", "file_data": data_uri(media_type, base64)}
    return {"type": "file", "file": file}
