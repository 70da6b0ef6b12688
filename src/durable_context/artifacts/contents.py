"""Contents of artifacts as bytes: hashed, compressed, and verified whenever they are read. Large
ones go to an object store before any row points at them.
"""

import asyncio
import hashlib
import re
import zlib
from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal, NamedTuple

from durable_context.artifacts.object_store import ObjectStore
from durable_context.errors import ArtifactDamaged, ArtifactTooLarge
from durable_context.tokens import TokenCounter

LARGEST: Final = 64 * 1024 * 1024
"""Bytes an artifact may have, not compressed."""
INLINE_LIMIT: Final = 1_048_576
IN_THREAD: Final = 100_000
"""Bytes (or characters) from which work on a content leaves the event loop."""
COUNTED_WHOLE: Final = 1_000_000
"""Characters up to which every token is counted."""

_PROBE: Final = "probe/durable-context"
_SAMPLES: Final = 40
_SAMPLE: Final = 10_000
# Twice as fast as the usual 6, for results a few percent larger.
_LEVEL: Final = 3

_OBJECT: Final = re.compile(r"/([0-9a-f]{64})[^/]*\Z")

Compression = Literal["none", "zlib"]


class KeptContents(NamedTuple):
    """One element per distinct content, in the order durable_context.keep_contents takes them."""

    hashes: list[bytes]
    sizes: list[int]
    compressions: list[str]
    data: list[bytes | None]
    object_keys: list[str | None]


class StoredContent(NamedTuple):
    """A row of artifact_contents. Either `data` or `object_key` is None."""

    sha256: bytes
    size: int
    compression: str
    data: bytes | None
    object_key: str | None


class Packed(NamedTuple):
    """A content as it is stored. `size` counts it uncompressed."""

    sha256: bytes
    size: int
    compression: Compression
    data: bytes


class KeptObject(NamedTuple):
    """An object of a tenant's. `sha256` is what its key says of its content."""

    key: str
    sha256: bytes
    size: int
    modified: datetime


class ContentStore:
    """Where contents are kept: up to `inline_limit` bytes in their row, above in an object store.

    `url` is that of the object store, by default DURABLE_CONTEXT_ARTIFACT_URL, else a directory
    among the user's data. Nothing is opened before the first large content.
    """

    def __init__(self, url: str | None = None, *, inline_limit: int = INLINE_LIMIT) -> None:
        self._objects = ObjectStore(url)
        self._inline_limit = inline_limit

    async def keep(self, tenant: str, contents: Sequence[bytes]) -> KeptContents:
        """What the rows need. Large contents are in the object store when it returns.

        Raises ArtifactTooLarge before anything is written, and ArtifactStoreUnavailable.
        """
        for content in contents:
            check_size(len(content))
        kept = KeptContents([], [], [], [], [])
        for packed in await _packed(list(dict.fromkeys(contents))):
            key = None
            if packed.size > self._inline_limit:
                key = _object_key(tenant, packed)
                await self._objects.put(key, packed.data)
            kept.hashes.append(packed.sha256)
            kept.sizes.append(packed.size)
            kept.compressions.append(packed.compression)
            kept.data.append(packed.data if key is None else None)
            kept.object_keys.append(key)
        return kept

    async def probe(self) -> None:
        """Write a small object to the object store and read it again, whatever is kept there.

        Raises ArtifactDamaged, ArtifactStoreUnavailable.
        """
        await self._objects.put(_PROBE, _PROBE.encode())
        if await self._objects.get(_PROBE, len(_PROBE)) != _PROBE.encode():
            raise ArtifactDamaged("the object store does not give back what was put there")

    async def load(self, tenant: str, content: StoredContent) -> bytes:
        """The content, verified. Raises ArtifactDamaged, ArtifactStoreUnavailable."""
        data = content.data
        if data is None:
            data = await self._fetch(tenant, content)
        stored = (content.compression, data, content.size, content.sha256)
        if content.size < IN_THREAD:
            return unpack(*stored)
        return await asyncio.to_thread(unpack, *stored)

    async def is_idle(self, tenant: str, key: str, before: datetime) -> bool:
        """Whether the tenant's object was not written since `before`, or is gone.

        Raises ArtifactStoreUnavailable.
        """
        if not key.startswith(f"{_owner(tenant)}/"):
            return False
        modified = await self._objects.modified(key)
        return modified is None or modified < before

    async def forget(self, tenant: str, key: str, before: datetime) -> bool:
        """Delete an object of the tenant's that was not written since `before`; whether it is gone.

        Raises ArtifactStoreUnavailable.
        """
        return key.startswith(f"{_owner(tenant)}/") and await self._objects.delete(key, before)

    async def kept_objects(self, tenant: str, shard: str) -> list[KeptObject]:
        """The tenant's objects whose hashes begin with `shard`, two hexadecimal digits.

        Raises ArtifactStoreUnavailable.
        """
        listed = await self._objects.listed(f"{_owner(tenant)}/{shard}")
        return [
            KeptObject(each.key, bytes.fromhex(name[1]), each.size, each.modified)
            for each in listed
            if (name := _OBJECT.search(each.key))
        ]

    async def _fetch(self, tenant: str, content: StoredContent) -> bytes:
        key = content.object_key
        if key is None or not key.startswith(f"{_owner(tenant)}/"):
            raise ArtifactDamaged(
                f"{_named(content.sha256)} has no object of its tenant's: {key!r}"
            )
        # What is stored is never larger than the content itself.
        return await self._objects.get(key, content.size)


def check_size(size: int) -> None:
    """Raises ArtifactTooLarge."""
    if size > LARGEST:
        raise ArtifactTooLarge(
            f"the content has {size:,} bytes; an artifact may have up to {LARGEST:,} (64 MiB)"
        )


def pack(content: bytes) -> Packed:
    """The content with its hash, compressed where that makes it smaller."""
    sha256 = hashlib.sha256(content).digest()
    compressed = zlib.compress(content, _LEVEL)
    if len(compressed) < len(content):
        return Packed(sha256, len(content), "zlib", compressed)
    return Packed(sha256, len(content), "none", content)


def unpack(compression: str, data: bytes, size: int, sha256: bytes) -> bytes:
    """The content as it was kept, byte for byte. Never makes more than `size` bytes of the data.

    Raises ArtifactDamaged.
    """
    content = _inflated(data, size) if compression == "zlib" else data
    if len(content) != size or hashlib.sha256(content).digest() != sha256:
        raise ArtifactDamaged(f"{_named(sha256)} does not have that hash and its {size:,} bytes")
    return content


def encoded(text: str) -> bytes:
    """Text as a content. Lone surrogates, which UTF-8 cannot hold, are kept all the same."""
    return text.encode(errors="surrogatepass")


def decoded(content: bytes) -> str:
    """What `encoded` was given; of bytes that are no such text, the text with replacements."""
    try:
        return content.decode(errors="surrogatepass")
    except UnicodeDecodeError:
        return content.decode(errors="replace")


def count_tokens(text: str, counter: TokenCounter) -> int:
    """Tokens of a text. Above 1,000,000 characters they are estimated from evenly spaced samples:
    the same text always gives the same figure, and typical text one within a percent.
    """
    if len(text) <= COUNTED_WHOLE:
        return counter.count(text)
    last = len(text) - _SAMPLE
    starts = [last * sample // (_SAMPLES - 1) for sample in range(_SAMPLES)]
    counted = sum(counter.count(text[start : start + _SAMPLE]) for start in starts)
    return round(counted * len(text) / (_SAMPLES * _SAMPLE))


async def _packed(contents: list[bytes]) -> list[Packed]:
    if sum(map(len, contents)) < IN_THREAD:
        return [pack(content) for content in contents]
    return await asyncio.to_thread(lambda: [pack(content) for content in contents])


def _inflated(data: bytes, size: int) -> bytes:
    """At most one byte more than `size`, which is enough to see that it is too much."""
    try:
        return zlib.decompressobj().decompress(data, size + 1)
    except zlib.error:
        return b""


def _object_key(tenant: str, packed: Packed) -> str:
    """Hashes only: nothing from outside gets into a path. What two versions of zlib make of one
    content may differ in whether it is compressed at all, so that is part of the name.
    """
    name = packed.sha256.hex()
    return f"{_owner(tenant)}/{name[:2]}/{name}" + (".z" if packed.compression == "zlib" else "")


def _owner(tenant: str) -> str:
    return hashlib.sha256(tenant.encode()).hexdigest()


def _named(sha256: bytes) -> str:
    return f"the stored content {sha256.hex()[:16]}…"
