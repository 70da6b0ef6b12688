"""What images, sounds and files cost a prompt, from their first bytes and size. Providers publish
rules for images and sounds; where something is unknown, it costs the most.
"""

from io import BytesIO
from typing import Final

import imagesize  # pyright: ignore[reportMissingTypeStubs]

IMAGE_TOKENS: Final = 1_445
"""A high-detail image of eight 512-pixel tiles, the most that OpenAI's scaling leaves."""
LOW_DETAIL_IMAGE_TOKENS: Final = 85
TILE_TOKENS: Final = 170
PART_TOKENS: Final = 1_445
"""An audio, file or unknown part, plus one token for each 16 characters of its base64 or JSON."""
AUDIO_TOKENS_PER_SECOND: Final = 10
"""For a user's audio: developers.openai.com/api/docs/guides/realtime-costs."""
AUDIO_OVERHEAD: Final = 10

_HEAD: Final = 196_608
"""Bytes in which dimensions are looked for: more than cameras write before them, and so few that a
file made to be slow to read is read in 60 ms.
"""
_LARGEST_SIDE: Final = 2**31 - 1
_SLOWEST_MP3: Final = 1_000
_FASTEST_WAV: Final = 384_000
"""Bytes per second: 8 kbit/s, and 96 kHz in 16-bit stereo."""
_SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"ID3", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
)
_MEASURED: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def image_tokens(width: int | None, height: int | None, detail: object = None) -> int:
    """What an image costs gpt-4o (developers.openai.com/api/docs/guides/images-vision), and so a
    prompt for no known model: what is larger is scaled down to 2,048 pixels, then to 768 on the
    shorter side, and cut into tiles. Unknown dimensions cost the most; every detail but "low" is
    high.
    """
    if detail == "low":
        return LOW_DETAIL_IMAGE_TOKENS
    if not width or not height or width < 0 or height < 0:
        return IMAGE_TOKENS
    width, height = scaled_sides(width, height)
    return LOW_DETAIL_IMAGE_TOKENS + TILE_TOKENS * _ceil(width, 512) * _ceil(height, 512)


def scaled_sides(width: int, height: int) -> tuple[int, int]:
    """The sides of an image that is cut into tiles."""
    width, height = _scaled(width, height, max(width, height), 2_048)
    return _scaled(width, height, min(width, height), 768)


def audio_tokens(media_type: str, head: bytes, size: int) -> int:
    """By the shortest time in which so many bytes can be played, or as a file."""
    rate = _bytes_per_second(media_type, head)
    if rate == 0:
        return file_tokens(size)
    played = AUDIO_OVERHEAD + _ceil(size * AUDIO_TOKENS_PER_SECOND, rate)
    return min(played, file_tokens(size))


def file_tokens(size: int) -> int:
    """An estimate: how much text and how many pages a file has depends on who reads it."""
    return PART_TOKENS + 4 * _ceil(size, 3) // 16


def dimensions(data: bytes) -> tuple[int, int] | tuple[None, None]:
    """Width and height of a PNG, JPEG, GIF or WebP image, by its first bytes.

    Other formats are not read: nobody takes them, and some are slow to read when made to be.
    """
    if signed_media_type(data) not in _MEASURED:
        return None, None
    width, height = imagesize.get(BytesIO(data[:_HEAD]))  # pyright: ignore[reportUnknownMemberType]
    if 0 < width <= _LARGEST_SIDE and 0 < height <= _LARGEST_SIDE:
        return width, height
    return None, None


def signed_media_type(data: bytes) -> str | None:
    """The media type that the first bytes show."""
    if data.startswith(b"RIFF"):
        return {b"WEBP": "image/webp", b"WAVE": "audio/wav"}.get(data[8:12])
    return next((found for mark, found in _SIGNATURES if data.startswith(mark)), None)


def _bytes_per_second(media_type: str, head: bytes) -> int:
    """The least a sound can have; 0 when unknown."""
    if media_type == "audio/mpeg":
        return _SLOWEST_MP3
    start = head.find(b"fmt ", 12, 4_096) if media_type == "audio/wav" else -1
    if start < 0:
        return 0
    return min(_FASTEST_WAV, int.from_bytes(head[start + 16 : start + 20], "little"))


def _scaled(width: int, height: int, side: int, most: int) -> tuple[int, int]:
    """Both, to the nearest pixel, so that `side`, which is one of them, is at most `most`."""
    if side <= most:
        return width, height
    scaled = ((2 * length * most + side) // (2 * side) for length in (width, height))
    width, height = (max(1, length) for length in scaled)
    return width, height


def _ceil(amount: int, unit: int) -> int:
    return -(-amount // unit)
