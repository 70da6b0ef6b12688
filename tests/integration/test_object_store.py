"""Contents in the object store: written whole, verified when read, under keys that hold hashes."""

import asyncio
import contextlib
import hashlib
import os
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from durable_context.artifacts.contents import LARGEST, ContentStore, KeptContents, StoredContent
from durable_context.artifacts.object_store import ObjectStore
from durable_context.errors import (
    ArtifactDamaged,
    ArtifactStoreUnavailable,
    ArtifactTooLarge,
    InvalidArgument,
)
from tests.s3_server import ACCESS_KEY, S3Server

KEY = re.compile(r"([0-9a-f]{64})/([0-9a-f]{2})/([0-9a-f]{64})(\.z)?")
LINES = b"A line of a large report.\n" * 50_000
NOISE = random.Random(4).randbytes(1_200_000)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "kept artifacts"


@pytest.fixture
def contents(directory: Path) -> ContentStore:
    return ContentStore(directory.as_uri())


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    with S3Server() as server:
        monkeypatch.setenv("AWS_ENDPOINT", server.url)
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "open-sesame")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield server


def stored(kept: KeptContents) -> list[StoredContent]:
    return [StoredContent(*fields) for fields in zip(*kept, strict=True)]


def files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file())


async def test_up_to_the_limit_contents_stay_in_their_row_and_above_they_are_files(
    contents: ContentStore, directory: Path
):
    limit = b"x" * 1_048_576
    kept = await contents.keep("t", [b"small", limit])
    assert kept.object_keys == [None, None]
    assert kept.compressions == ["none", "zlib"]
    assert files(directory) == []

    kept = await contents.keep("t", [limit + b"x", NOISE])
    assert kept.data == [None, None]
    assert kept.compressions == ["zlib", "none"]
    assert {str(path.relative_to(directory)) for path in files(directory)} == {*kept.object_keys}
    assert files(directory)[0].stat().st_size + files(directory)[1].stat().st_size < 1_300_000
    assert [await contents.load("t", row) for row in stored(kept)] == [limit + b"x", NOISE]


async def test_the_limit_can_be_moved(directory: Path):
    contents = ContentStore(directory.as_uri(), inline_limit=0)
    kept = await contents.keep("t", [b"", b"a"])
    assert [key is None for key in kept.object_keys] == [True, False]
    assert [await contents.load("t", row) for row in stored(kept)] == [b"", b"a"]


async def test_hashes_and_sizes_are_those_of_the_content_as_it_was_given(contents: ContentStore):
    kept = await contents.keep("t", [LINES, b"a"])
    assert kept.hashes == [hashlib.sha256(LINES).digest(), hashlib.sha256(b"a").digest()]
    assert kept.sizes == [len(LINES), 1]


async def test_equal_contents_are_kept_once_however_often_they_are_given(
    contents: ContentStore, directory: Path
):
    kept = await contents.keep("t", [LINES, b"a", LINES])
    assert kept.sizes == [len(LINES), 1]
    again = await asyncio.gather(*(contents.keep("t", [LINES]) for _ in range(5)))
    assert len(files(directory)) == 1
    assert await contents.load("t", stored(again[4])[0]) == LINES


@pytest.mark.parametrize("tenant", ["t", "../../../etc", "/absolute", "a/b", "%2e%2e%2f", "ü\n"])
async def test_no_byte_from_outside_gets_into_a_path(
    contents: ContentStore, directory: Path, tenant: str
):
    (key,) = (await contents.keep(tenant, [LINES])).object_keys
    assert key is not None
    found = KEY.fullmatch(key)
    assert found is not None
    assert found[1] == hashlib.sha256(tenant.encode()).hexdigest()
    assert found[3] == hashlib.sha256(LINES).hexdigest()
    assert found[2] == found[3][:2]
    assert [str(path.relative_to(directory)) for path in files(directory.parent)] == [key]


async def test_nobody_loads_what_another_tenant_keeps(contents: ContentStore):
    (row,) = stored(await contents.keep("a", [LINES]))
    assert await contents.load("a", row) == LINES
    with pytest.raises(ArtifactDamaged, match="no object of its tenant's"):
        await contents.load("b", row)


@pytest.mark.parametrize("content", [LINES, NOISE], ids=["compressed", "as it is"])
async def test_a_changed_file_is_damage(contents: ContentStore, directory: Path, content: bytes):
    (row,) = stored(await contents.keep("t", [content]))
    (file,) = files(directory)
    whole = file.read_bytes()
    for damaged in (
        whole[: len(whole) // 2],
        b"\x01" + whole[1:],
        b"",
        whole + b"\n" * len(content),
    ):
        file.write_bytes(damaged)
        with pytest.raises(ArtifactDamaged):
            await contents.load("t", row)
    await contents.keep("t", [content])
    assert await contents.load("t", row) == content, "keeping it again mends it"


async def test_a_missing_file_is_damage_that_names_the_key(contents: ContentStore, directory: Path):
    (row,) = stored(await contents.keep("t", [LINES]))
    files(directory)[0].unlink()
    with pytest.raises(ArtifactDamaged, match=f"has no {row.object_key}"):
        await contents.load("t", row)


async def test_64_mib_work(contents: ContentStore, directory: Path):
    content = (NOISE * 56)[:LARGEST]
    (row,) = stored(await contents.keep("t", [content]))
    assert await contents.load("t", row) == content
    assert len(files(directory)) == 1


async def test_the_event_loop_goes_on_while_a_large_content_is_worked_on(directory: Path):
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.001)

    contents = ContentStore(directory.as_uri(), inline_limit=LARGEST)
    ticking = asyncio.create_task(tick())
    (row,) = stored(await contents.keep("t", [LINES * 40]))
    kept = ticks
    await contents.load("t", row)
    ticking.cancel()
    assert kept > 10
    assert ticks - kept > 5


async def test_larger_contents_are_refused_before_anything_is_written(
    contents: ContentStore, directory: Path
):
    with pytest.raises(ArtifactTooLarge, match=r"67,108,865 bytes; .* up to 67,108,864 \(64 MiB"):
        await contents.keep("t", [LINES, bytes(LARGEST + 1)])
    assert files(directory) == []


async def test_memory_holds_objects_as_long_as_the_store():
    contents = ContentStore("memory:///")
    (row,) = stored(await contents.keep("t", [LINES]))
    assert await contents.load("t", row) == LINES
    with pytest.raises(ArtifactDamaged):
        await ContentStore("memory:///").load("t", row)


async def test_a_store_that_many_need_at_once_is_opened_once():
    objects = ObjectStore("memory:///")
    await asyncio.gather(*(objects.put(f"key{n}", b"%d" % n) for n in range(20)))
    assert [await objects.get(f"key{n}", 2) for n in range(20)] == [b"%d" % n for n in range(20)]


async def test_s3_is_written_and_read_with_the_environment_s_credentials(s3: S3Server):
    contents = ContentStore("s3://bucket/some/prefix")
    (row,) = stored(await contents.keep("t", [LINES]))
    assert list(s3.objects) == [f"/bucket/some/prefix/{row.object_key}"]
    assert await contents.load("t", row) == LINES
    s3.objects.clear()
    with pytest.raises(ArtifactDamaged, match="has no"):
        await contents.load("t", row)


async def test_large_objects_reach_s3_in_parts(s3: S3Server):
    contents = ContentStore("s3://bucket")
    content = random.Random(5).randbytes(12_000_000)
    (row,) = stored(await contents.keep("t", [content]))
    assert sum("partNumber=" in request for request in s3.requests) == 3
    assert await contents.load("t", row) == content


async def test_a_store_that_refuses_is_unavailable_and_the_error_holds_no_secret(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
):
    contents = ContentStore("s3://bucket")
    (row,) = stored(await contents.keep("t", [LINES]))
    s3.failing = True
    for attempt in (lambda: contents.keep("t", [NOISE]), lambda: contents.load("t", row)):
        with pytest.raises(ArtifactStoreUnavailable, match="503") as refused:
            await attempt()
        assert "open-sesame" not in str(refused.value)
        assert refused.value.__cause__ is None
        assert refused.value.__suppress_context__
    s3.failing = False
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIASTRANGER")
    with pytest.raises(ArtifactStoreUnavailable, match="403"):
        await ContentStore("s3://bucket").keep("t", [LINES])


async def test_a_store_that_nobody_answers_for_is_unavailable(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("AWS_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ArtifactStoreUnavailable, match="the artifact store s3://bucket did not"):
        await ContentStore("s3://bucket").keep("t", [LINES])
    assert s3.requests == []


async def test_a_directory_that_cannot_be_made_is_unavailable(tmp_path: Path):
    (tmp_path / "file").touch()
    contents = ContentStore((tmp_path / "file" / "directory").as_uri())
    with pytest.raises(ArtifactStoreUnavailable, match="NotADirectoryError"):
        await contents.keep("t", [LINES])


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hunter2",
        "/hunter2/directory",
        "hunter2:secret@s3://bucket",
        "ftp://hunter2@host",
        "https://hunter2@bucket",
        "file://hunter2/directory",
        "file:///",
        "file:///a%00hunter2",
        "memory://hunter2",
        "s3://",
        "s3:///hunter2",
        "s3://key:hunter2@bucket",
        "s3://bucket?password=hunter2",
        "az://container#hunter2",
        "s3://[hunter2",
    ],
)
def test_a_url_that_cannot_be_used_is_refused_at_once_and_not_quoted(url: str):
    with pytest.raises(InvalidArgument, match="file:///directory, memory:///, s3://") as refused:
        ContentStore(url)
    assert "hunter2" not in str(refused.value)


async def test_without_a_url_the_environment_decides_and_then_the_users_data_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.delenv("DURABLE_CONTEXT_ARTIFACT_URL", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    await ContentStore().keep("t", [LINES])
    made = tmp_path / "data" / "durable-context" / "artifacts"
    assert len(files(made)) == 1
    assert made.stat().st_mode & 0o777 == 0o700

    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    await ContentStore().keep("t", [LINES])
    assert len(files(tmp_path / "home" / ".local" / "share" / "durable-context")) == 1

    monkeypatch.setenv("DURABLE_CONTEXT_ARTIFACT_URL", (tmp_path / "named").as_uri())
    await ContentStore().keep("t", [LINES])
    assert len(files(tmp_path / "named")) == 1

    await ContentStore((tmp_path / "given").as_uri()).keep("t", [LINES])
    assert len(files(tmp_path / "given")) == 1
    assert len(files(tmp_path / "named")) == 1


async def test_a_file_and_the_directories_to_it_are_synced_before_the_row_can_point_at_it(
    contents: ContentStore, directory: Path, monkeypatch: pytest.MonkeyPatch
):
    synced: set[int] = set()
    fsync = os.fsync

    def seen(descriptor: int) -> None:
        synced.add(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", seen)
    await contents.keep("t", [LINES])
    (file,) = files(directory)
    wanted = [file, *list(file.parents)[:3], directory.parent]
    assert [path for path in wanted if path.stat().st_ino not in synced] == []


WRITING = """
import asyncio, itertools, random, sys
from durable_context.artifacts.contents import ContentStore

async def main():
    contents = ContentStore(sys.argv[1])
    print("writing", flush=True)
    for seed in itertools.count():
        await contents.keep("t", [random.Random(seed).randbytes(20_000_000)])

asyncio.run(main())
"""


async def test_a_writer_that_is_killed_leaves_no_half_object_under_its_key(
    contents: ContentStore, directory: Path
):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WRITING, directory.as_uri(), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    await process.stdout.readline()
    half: list[Path] = []
    while not half:
        await asyncio.sleep(0)
        half = [path for path in files(directory) if _size(path) not in (0, 20_000_000)]
    process.kill()
    await process.communicate()
    kept = [path for path in files(directory) if KEY.fullmatch(str(path.relative_to(directory)))]
    for path in kept:
        assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name
    (row,) = stored(await contents.keep("t", [random.Random(len(kept)).randbytes(20_000_000)]))
    assert hashlib.sha256(await contents.load("t", row)).digest() == row.sha256


def _size(path: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_size
    return 0


SMALL = """
import asyncio, sys
from durable_context import ContextClient
from durable_context.artifacts.contents import ContentStore

kept = asyncio.run(ContentStore("memory:///").keep("t", [b"x" * 1_048_576]))
assert kept.object_keys == [None]
sys.exit("obstore" in sys.modules)
"""


async def test_the_object_store_library_is_not_imported_before_it_is_needed():
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", SMALL)
    assert await process.wait() == 0
