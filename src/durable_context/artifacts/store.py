"""Artifacts as a branch sees them: its own and those of its lineage. Every statement filters on the
tenant and the branch that asks, so that a handle alone finds nothing.
"""

import asyncio
import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple, NoReturn
from uuid import UUID

import asyncpg

from durable_context.artifacts import queries
from durable_context.artifacts.contents import (
    IN_THREAD,
    ContentStore,
    StoredContent,
    check_size,
    count_tokens,
    decoded,
    encoded,
)
from durable_context.artifacts.media_tokens import (
    audio_tokens,
    dimensions,
    file_tokens,
    image_tokens,
    signed_media_type,
)
from durable_context.artifacts.offloading import new_handle
from durable_context.artifacts.reading import ArtifactContent, count_lines, cut, is_text_type
from durable_context.database import Pool, acquired
from durable_context.errors import ArtifactNotFound, InvalidArgument, UnknownBranch
from durable_context.ids import OFFLOADED_HANDLE, check_ids
from durable_context.models import Artifact
from durable_context.telemetry.instruments import artifact_bytes
from durable_context.tokens import TokenCounter

LONGEST_MEDIA_TYPE: Final = 200

_HANDLE: Final = re.compile(r"art_[A-Za-z0-9_-]{22}")
_OFFLOADED: Final = re.compile(OFFLOADED_HANDLE)
_WORD: Final = r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*"
_PARAMETER: Final = rf'\s*;\s*{_WORD}=(?:{_WORD}|"[^"\\\s]*")'
_MEDIA_TYPE: Final = re.compile(rf"{_WORD}/{_WORD}(?:{_PARAMETER})*")
_LAST_VERSION: Final = 2_147_483_647


class _Measured(NamedTuple):
    """A content to put, and what is counted of it. `line_count` is None for what is no text."""

    data: bytes
    media_type: str
    token_count: int
    line_count: int | None
    width: int | None = None
    height: int | None = None


class ArtifactStore:
    """One tenant's artifacts."""

    def __init__(self, pool: Pool, tenant: str, contents: ContentStore) -> None:
        self._pool = pool
        self._tenant = tenant
        self._contents = contents

    async def put(
        self,
        branch_uuid: UUID,
        content: bytes | str,
        *,
        name: str,
        media_type: str | None = None,
        counter: TokenCounter,
    ) -> Artifact:
        """The next version of `name`. Bytes are text where their media type says so.

        Raises InvalidArgument (ArtifactTooLarge, InvalidId), UnknownBranch,
        ArtifactStoreUnavailable.
        """
        check_ids(name=name)
        _check_content(content, media_type)
        measured = await _measured(content, media_type, counter)
        kept = await self._contents.keep(self._tenant, [measured.data])
        fields = {
            "handle": new_handle(),
            "name": name,
            "media_type": measured.media_type,
            "sha256": kept.hashes[0],
            "size": kept.sizes[0],
            "token_count": measured.token_count,
            "line_count": measured.line_count,
            "width": measured.width,
            "height": measured.height,
        }
        stored = (kept.compressions[0], kept.data[0], kept.object_keys[0])
        row = await self._row(queries.PUT, branch_uuid, *fields.values(), *stored)
        assert row is not None
        put = dict(row)
        if put.pop("status") == "unknown_branch":
            raise UnknownBranch(f"there is no branch {branch_uuid} for this tenant")
        artifact_bytes.add(kept.sizes[0], {"source": "put"})
        sha256 = kept.hashes[0].hex()
        return Artifact.model_validate(fields | put | {"source": "put", "sha256": sha256})

    async def revert(self, branch_uuid: UUID, name: str, version: int) -> Artifact:
        """A new version of `name` with the content of an old one. Raises ArtifactNotFound."""
        check_ids(name=name)
        _check_version(version)
        row = await self._row(queries.REVERT, branch_uuid, name, version, new_handle())
        return _artifact(row or _raise_no_such_name(name, version))

    async def find(self, branch_uuid: UUID, handle: str) -> Artifact:
        """Also by the handle that processors' references show. Raises ArtifactNotFound, which says
        the same of handles elsewhere and of none at all.
        """
        if isinstance(handle, str) and _OFFLOADED.fullmatch(handle):  # pyright: ignore[reportUnnecessaryIsInstance]
            rows = await self._rows(queries.HISTORY, branch_uuid, handle)
            return _artifact(rows[0] if rows else _raise_no_such_handle(handle))
        row = await self._row(queries.FIND, branch_uuid, _checked_handle(handle))
        return _artifact(row or _raise_no_such_handle(handle))

    async def named(self, branch_uuid: UUID, name: str, version: int | None = None) -> Artifact:
        """A version of a named artifact, the newest by default. Raises ArtifactNotFound."""
        check_ids(name=name)
        if version is None:
            row = await self._row(queries.NEWEST, branch_uuid, name)
        else:
            _check_version(version)
            row = await self._row(queries.VERSION, branch_uuid, name, version)
        return _artifact(row or _raise_no_such_name(name, version))

    async def list(self, branch_uuid: UUID) -> tuple[Artifact, ...]:
        """What turns brought, and the newest version of each name, by turn."""
        return tuple(map(_artifact, await self._rows(queries.LIST, branch_uuid)))

    async def of_turn(self, branch_uuid: UUID, turn_no: int) -> tuple[Artifact, ...]:
        """What came with the turn, all versions of names that were put then, 100 at most."""
        return tuple(map(_artifact, await self._rows(queries.OF_TURN, branch_uuid, turn_no)))

    async def newest(
        self, branch_uuid: UUID, limit: int, begin: str | None = None
    ) -> tuple[Artifact, ...]:
        """The same, newest first; with `begin` from the one with this handle on.

        Raises ArtifactNotFound.
        """
        if begin is not None:
            await self.find(branch_uuid, begin)
        rows = await self._rows(queries.LIST_NEWEST, branch_uuid, limit, begin)
        return tuple(map(_artifact, rows))

    async def history(self, branch_uuid: UUID, name: str) -> tuple[Artifact, ...]:
        """All versions of a name, oldest first. Raises ArtifactNotFound."""
        check_ids(name=name)
        rows = await self._rows(queries.HISTORY, branch_uuid, name)
        return tuple(map(_artifact, rows or _raise_no_such_name(name, None)))

    async def read(self, branch_uuid: UUID, handle: str) -> tuple[Artifact, bytes]:
        """The artifact and its whole content, verified. What processors offloaded is found by the
        handle that their references show, too.

        Raises ArtifactNotFound, ArtifactDamaged, ArtifactStoreUnavailable.
        """
        if isinstance(handle, str) and _OFFLOADED.fullmatch(handle):  # pyright: ignore[reportUnnecessaryIsInstance]
            row = await self._row(queries.READ_NAMED, branch_uuid, handle)
        else:
            row = await self._row(queries.READ, branch_uuid, _checked_handle(handle))
        fields = dict(row or _raise_no_such_handle(handle))
        content = StoredContent(*(fields.pop(column) for column in queries.CONTENT_COLUMNS))
        return Artifact.model_validate(fields), await self._contents.load(self._tenant, content)

    async def load(
        self,
        branch_uuid: UUID,
        handle: str,
        *,
        start: int | None = None,
        length: int | None = None,
        grep: str | None = None,
    ) -> ArtifactContent:
        """The content as `cut` gives it. Raises as `read` does, and InvalidArgument."""
        artifact, data = await self.read(branch_uuid, handle)
        if len(data) < IN_THREAD:
            return cut(artifact, data, start, length, grep)
        return await asyncio.to_thread(cut, artifact, data, start, length, grep)

    async def contents_of(self, branch_uuid: UUID, handles: Iterable[str]) -> dict[str, bytes]:
        """Whole contents by handle, each distinct one loaded once. Raises as `read` does."""
        wanted = list(dict.fromkeys(map(_checked_handle, handles)))
        stored = {
            row["handle"]: StoredContent(*(row[column] for column in queries.CONTENT_COLUMNS))
            for row in await self._rows(queries.READ_CONTENTS, branch_uuid, wanted)
        }
        loaded: dict[bytes, bytes] = {}
        for handle in wanted:
            content = stored.get(handle) or _raise_no_such_handle(handle)
            if content.sha256 not in loaded:
                loaded[content.sha256] = await self._contents.load(self._tenant, content)
        return {handle: loaded[stored[handle].sha256] for handle in wanted}

    async def _row(self, query: str, branch_uuid: UUID, *more: Any) -> asyncpg.Record | None:
        async with acquired(self._pool) as connection:
            return await connection.fetchrow(query, self._tenant, branch_uuid, *more)

    async def _rows(
        self, query: str, branch_uuid: UUID, *more: Any
    ) -> "tuple[asyncpg.Record, ...]":
        async with acquired(self._pool) as connection:
            return tuple(await connection.fetch(query, self._tenant, branch_uuid, *more))


async def _measured(
    content: bytes | str, media_type: str | None, counter: TokenCounter
) -> _Measured:
    check_size(len(content))
    if len(content) < IN_THREAD:
        return _measure(content, media_type, counter)
    return await asyncio.to_thread(_measure, content, media_type, counter)


def _measure(content: bytes | str, media_type: str | None, counter: TokenCounter) -> _Measured:
    if isinstance(content, str):
        return _of_text(encoded(content), content, media_type or "text/plain", counter)
    media_type = media_type or signed_media_type(content) or "application/octet-stream"
    if is_text_type(media_type):
        return _of_text(content, decoded(content), media_type, counter)
    width, height = dimensions(content)
    if media_type.startswith("audio/"):
        tokens = audio_tokens(media_type, content, len(content))
    elif width is not None or media_type.startswith("image/"):
        tokens = image_tokens(width, height)
    else:
        tokens = file_tokens(len(content))
    return _Measured(content, media_type, tokens, None, width, height)


def _of_text(data: bytes, text: str, media_type: str, counter: TokenCounter) -> _Measured:
    return _Measured(data, media_type, count_tokens(text, counter), count_lines(text))


def _artifact(row: asyncpg.Record) -> Artifact:
    return Artifact.model_validate(dict(row))


def _check_content(content: object, media_type: object) -> None:
    if not isinstance(content, str | bytes):
        raise InvalidArgument(f"content={content!r:.80}; it must be text or bytes")
    if media_type is None:
        return
    short = isinstance(media_type, str) and len(media_type) <= LONGEST_MEDIA_TYPE
    if not short or not _MEDIA_TYPE.fullmatch(str(media_type)):
        raise InvalidArgument(
            f"media_type={media_type!r:.80}; allowed is type/subtype such as 'text/csv', up to"
            f" {LONGEST_MEDIA_TYPE} characters"
        )


def _checked_handle(handle: str) -> str:
    """The handle if it can be one: other text is not shown to the database."""
    if not isinstance(handle, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(f"handle={handle!r:.80}; it must be text")
    return handle if _HANDLE.fullmatch(handle) else _raise_no_such_handle(handle)


def _check_version(version: int) -> None:
    known = isinstance(version, int) and not isinstance(version, bool)  # pyright: ignore[reportUnnecessaryIsInstance]
    if not known or not 1 <= version <= _LAST_VERSION:
        raise InvalidArgument(f"version={version!r:.80}; allowed are whole numbers from 1")


def _raise_no_such_handle(handle: str) -> NoReturn:
    raise ArtifactNotFound(f"the branch sees no artifact {handle!r:.60}")


def _raise_no_such_name(name: str, version: int | None) -> NoReturn:
    which = f"version {version} of an artifact" if version else "artifact"
    raise ArtifactNotFound(f"the branch sees no {which} named {name!r:.80}")
