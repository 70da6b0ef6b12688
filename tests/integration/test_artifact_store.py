"""Artifacts of a branch: versions, lineage, one row per content, and damage that is noticed."""

import asyncio
import hashlib
import random
import re
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from durable_context import ContextClient
from durable_context.artifacts.contents import LARGEST, ContentStore
from durable_context.artifacts.store import ArtifactStore
from durable_context.branch import Branch
from durable_context.database import Pool
from durable_context.errors import (
    ArtifactDamaged,
    ArtifactNotFound,
    ArtifactStoreUnavailable,
    ArtifactTooLarge,
    InvalidArgument,
    InvalidId,
    UnknownBranch,
)
from durable_context.models import Artifact
from durable_context.tokens import token_counter
from tests.turns import call, calling, numbered, result

COUNTER = token_counter("o200k_base")
HANDLE = re.compile(r"art_[A-Za-z0-9_-]{22}")
REPORT = "Depot,Pallets\n" + "".join(f"D{n:04d},{n * 37 % 400}\n" for n in range(2_000))
LARGE = random.Random(4).randbytes(1_200_000)
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x02\x80\0\0\x01\xe0\x08\x02\0\0\0"

Connection = "asyncpg.Connection[asyncpg.Record]"


@pytest.fixture
def objects(tmp_path: Path) -> Path:
    return tmp_path / "objects"


@pytest.fixture
def store(pool: Pool, objects: Path) -> ArtifactStore:
    return ArtifactStore(pool, "default", ContentStore(objects.as_uri()))


@pytest.fixture
async def branch(client: ContextClient) -> Branch:
    return await client.open_branch("c")


async def put(
    store: ArtifactStore, branch: UUID, content: str | bytes, name: str = "n"
) -> Artifact:
    return await store.put(branch, content, name=name, counter=COUNTER)


async def fork(
    connection: Connection, parent: UUID, branch_id: str, at_turn: int | None = None
) -> UUID:
    return await connection.fetchval(
        "select branch_uuid from durable_context.fork_branch('default', $1, $2, $3, 2)",
        parent,
        branch_id,
        at_turn,
    )


async def count(connection: Connection, table: str) -> int:
    return await connection.fetchval(f"select count(*) from durable_context.{table}")


def files(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]


async def sees(store: ArtifactStore, branch: UUID, artifact: Artifact) -> bool:
    """Whether the branch does, by every way there is."""
    listed = artifact.handle in {each.handle for each in await store.list(branch)}
    found: set[bool] = set()
    for ask in (store.find, store.read):
        try:
            await ask(branch, artifact.handle)
            found.add(True)
        except ArtifactNotFound:
            found.add(False)
    try:
        await store.contents_of(branch, [artifact.handle])
        found.add(True)
    except ArtifactNotFound:
        found.add(False)
    assert found == {listed}
    return listed


async def test_what_is_put_comes_back_byte_for_byte(store: ArtifactStore, branch: Branch):
    artifact = await put(store, branch.branch_uuid, REPORT, "report.csv")
    assert HANDLE.fullmatch(artifact.handle)
    assert (artifact.name, artifact.version, artifact.source) == ("report.csv", 1, "put")
    assert (artifact.size, artifact.line_count) == (len(REPORT), 2_002)
    assert artifact.sha256 == hashlib.sha256(REPORT.encode()).hexdigest()
    assert artifact.token_count == COUNTER.count(REPORT)
    assert (artifact.turn_no, artifact.headline, artifact.summary) == (0, None, None)
    assert await store.find(branch.branch_uuid, artifact.handle) == artifact
    assert await store.read(branch.branch_uuid, artifact.handle) == (artifact, REPORT.encode())


@pytest.mark.parametrize(
    "content", [b"", "", b"\0\xff", "a\0b", "\ud800 alone", LARGE, "é" * 10**6]
)
async def test_any_content_comes_back(store: ArtifactStore, branch: Branch, content: str | bytes):
    artifact = await put(store, branch.branch_uuid, content)
    _, data = await store.read(branch.branch_uuid, artifact.handle)
    as_bytes = content.encode(errors="surrogatepass") if isinstance(content, str) else content
    assert data == as_bytes
    assert artifact.size == len(as_bytes)


async def test_text_and_bytes_have_the_media_type_they_show_or_are_given(
    store: ArtifactStore, branch: Branch
):
    async def typed(content: str | bytes, media_type: str | None = None) -> Artifact:
        return await store.put(
            branch.branch_uuid, content, name="n", media_type=media_type, counter=COUNTER
        )

    assert (await typed("text")).media_type == "text/plain"
    raw = await typed(b"\x00\x01")
    assert (raw.media_type, raw.line_count) == ("application/octet-stream", None)
    assert raw.token_count > 0
    rows = await typed(b"a\nb", "text/csv; charset=utf-8")
    assert (rows.media_type, rows.line_count) == ("text/csv; charset=utf-8", 2)
    assert rows.token_count == COUNTER.count("a\nb")
    picture = await typed(PNG)
    assert (picture.media_type, picture.width, picture.height) == ("image/png", 640, 480)
    assert (picture.token_count, picture.line_count) == (425, None)


@pytest.mark.parametrize(
    "media_type",
    [
        "",
        "text",
        "text/",
        "/plain",
        "text plain/x",
        "text/plain\nbad",
        "a/b/c",
        "a/" + "b" * 199,
        3,
    ],
)
async def test_a_media_type_that_is_none_is_refused(
    store: ArtifactStore, branch: Branch, media_type: Any
):
    with pytest.raises(InvalidArgument, match=r"media_type=.*allowed is type/subtype"):
        await store.put(branch.branch_uuid, "x", name="n", media_type=media_type, counter=COUNTER)


@pytest.mark.parametrize("name", ["", "a\0b", "n" * 501, "\ud800", 3])
async def test_a_name_that_cannot_be_looked_up_is_refused(
    store: ArtifactStore, branch: Branch, name: Any
):
    with pytest.raises(InvalidId, match="name="):
        await put(store, branch.branch_uuid, "x", name)
    with pytest.raises(InvalidId, match="name="):
        await store.named(branch.branch_uuid, name)


@pytest.mark.parametrize("name", ["../../etc/passwd", "a'; drop table x; --", "ü\n\t", "n" * 500])
async def test_any_other_name_is_kept_as_it_is(store: ArtifactStore, branch: Branch, name: str):
    artifact = await put(store, branch.branch_uuid, LARGE, name)
    assert await store.named(branch.branch_uuid, name) == artifact


async def test_content_is_text_or_bytes(store: ArtifactStore, branch: Branch):
    with pytest.raises(InvalidArgument, match="must be text or bytes"):
        await put(store, branch.branch_uuid, ["x"])  # type: ignore[arg-type]


async def test_a_name_has_versions_and_the_newest_is_the_one_that_is_meant(
    store: ArtifactStore, branch: Branch
):
    first = await put(store, branch.branch_uuid, "one", "plan")
    other = await put(store, branch.branch_uuid, "x", "other")
    await branch.record_turn(numbered(1))
    second = await put(store, branch.branch_uuid, "two", "plan")
    assert (first.version, second.version, other.version) == (1, 2, 1)
    assert (first.turn_no, second.turn_no) == (0, 1)
    assert first.handle != second.handle
    assert await store.named(branch.branch_uuid, "plan") == second
    assert await store.named(branch.branch_uuid, "plan", 1) == first
    assert await store.history(branch.branch_uuid, "plan") == (first, second)
    assert await store.list(branch.branch_uuid) == (other, second)
    assert (await store.read(branch.branch_uuid, first.handle))[1] == b"one"


@pytest.mark.parametrize("content", ["one", LARGE], ids=["in its row", "as an object"])
async def test_reverting_makes_a_new_version_of_the_old_content(
    store: ArtifactStore, branch: Branch, connection: Connection, content: str | bytes
):
    first = await store.put(
        branch.branch_uuid, content, name="plan", media_type="text/markdown", counter=COUNTER
    )
    await put(store, branch.branch_uuid, "two", "plan")
    reverted = await store.revert(branch.branch_uuid, "plan", 1)
    assert reverted.version == 3
    same = {"sha256", "size", "media_type", "token_count", "line_count", "name"}
    assert reverted.model_dump(include=same) == first.model_dump(include=same)
    assert reverted.handle != first.handle
    assert await store.named(branch.branch_uuid, "plan") == reverted
    read = await store.read(branch.branch_uuid, reverted.handle)
    assert read == (reverted, (await store.read(branch.branch_uuid, first.handle))[1])
    assert [a.version for a in await store.history(branch.branch_uuid, "plan")] == [1, 2, 3]
    assert await count(connection, "artifact_contents") == 2


async def test_names_and_versions_that_are_not_there_are_said_to_be_so(
    store: ArtifactStore, branch: Branch
):
    await put(store, branch.branch_uuid, "one", "plan")
    for asked in (
        store.named(branch.branch_uuid, "plan", 2),
        store.revert(branch.branch_uuid, "plan", 2),
    ):
        with pytest.raises(ArtifactNotFound, match="no version 2 of an artifact named 'plan'"):
            await asked
    with pytest.raises(ArtifactNotFound, match="no artifact named 'plans'"):
        await store.history(branch.branch_uuid, "plans")
    for version in (0, -1, True, 2**31, "1", 1.0):
        with pytest.raises(InvalidArgument, match=f"version={version!r}; allowed are"):
            await store.revert(branch.branch_uuid, "plan", version)  # type: ignore[arg-type]


async def test_the_same_content_is_stored_once_for_a_tenant(
    store: ArtifactStore, branch: Branch, client: ContextClient, connection: Connection
):
    second = await client.open_branch("another conversation")
    a = await put(store, branch.branch_uuid, REPORT, "a")
    b = await put(store, second.branch_uuid, REPORT.encode(), "b")
    assert a.sha256 == b.sha256
    assert a.handle != b.handle
    assert await count(connection, "artifacts") == 2
    assert await count(connection, "artifact_contents") == 1


async def test_the_same_content_from_writers_at_once_is_one_row(
    store: ArtifactStore, client: ContextClient, connection: Connection, objects: Path
):
    branches = [await client.open_branch(f"c{n}") for n in range(6)]
    puts = [
        put(store, branch.branch_uuid, content, "n")
        for branch in branches
        for content in (REPORT, LARGE)
    ]
    artifacts = await asyncio.gather(*puts)
    assert len({artifact.handle for artifact in artifacts}) == 12
    assert await count(connection, "artifact_contents") == 2
    assert len(files(objects)) == 1
    for branch, artifact in zip(branches, artifacts[::2], strict=True):
        read = await store.read(branch.branch_uuid, artifact.handle)
        assert read == (artifact, REPORT.encode())


async def test_writers_of_one_name_at_once_get_a_version_each(store: ArtifactStore, branch: Branch):
    puts = [put(store, branch.branch_uuid, f"content {n}", "plan") for n in range(8)]
    artifacts = await asyncio.gather(*puts)
    assert sorted(artifact.version or 0 for artifact in artifacts) == list(range(1, 9))


async def test_tenants_share_no_content_and_find_nothing_of_each_other_s(
    store: ArtifactStore, branch: Branch, pool: Pool, connection: Connection, objects: Path
):
    other = ArtifactStore(pool, "other", ContentStore(objects.as_uri()))
    theirs = await connection.fetchval(
        "insert into durable_context.branches"
        " (tenant, conversation_id, branch_id, encoding, text_search)"
        " values ('other', 'c', 'main', 'o200k_base', 'pg_catalog.english') returning branch_uuid"
    )
    artifact = await put(store, branch.branch_uuid, LARGE)
    await put(other, theirs, LARGE)
    assert await count(connection, "artifact_contents") == 2
    assert len(files(objects)) == 2
    for branch_uuid in (theirs, branch.branch_uuid):
        assert not await sees(other, branch_uuid, artifact)
    with pytest.raises(UnknownBranch):
        await put(other, branch.branch_uuid, "x")


async def test_children_read_what_was_there_when_they_were_made(
    store: ArtifactStore, branch: Branch, connection: Connection
):
    root = branch.branch_uuid
    early = await put(store, root, "early", "early")
    await branch.record_turn(numbered(1))
    middle = await put(store, root, "middle", "middle")
    await branch.record_turn(numbered(2))
    newest = await put(store, root, "newest", "newest")

    child = await fork(connection, root, "child")
    before = await fork(connection, root, "before", 1)
    below = await fork(connection, before, "below")
    later = await put(store, root, "later", "later")

    for reader, expected in {
        root: [True, True, True, True],
        child: [True, True, True, False],
        before: [True, True, False, False],
        below: [True, True, False, False],
    }.items():
        seen = [await sees(store, reader, each) for each in (early, middle, newest, later)]
        assert seen == expected
    assert (await store.read(below, early.handle))[1] == b"early"


async def test_a_child_goes_on_with_the_versions_it_sees(
    store: ArtifactStore, branch: Branch, connection: Connection
):
    root = branch.branch_uuid
    first = await put(store, root, "one", "plan")
    await branch.record_turn(numbered(1))
    await put(store, root, "two", "plan")
    child = await fork(connection, root, "child", 0)
    assert await store.history(child, "plan") == (first,)
    own = await put(store, child, "two of the child's", "plan")
    assert own.version == 2
    await put(store, root, "three", "plan")
    assert await store.list(child) == (own,)
    assert await store.history(child, "plan") == (first, own)
    assert [a.version for a in await store.history(root, "plan")] == [1, 2, 3]


async def test_neither_parents_nor_siblings_see_what_a_child_puts(
    store: ArtifactStore, branch: Branch, connection: Connection
):
    root = branch.branch_uuid
    await put(store, root, "one", "plan")
    left = await fork(connection, root, "left")
    right = await fork(connection, root, "right")
    below = await fork(connection, left, "below")
    artifact = await put(store, left, "left's", "plan")
    of_right = await put(store, right, "right's", "plan")
    of_root = await put(store, root, "root's", "plan")
    assert (artifact.version, of_right.version, of_root.version) == (2, 2, 2)
    seen = [await sees(store, each, artifact) for each in (root, left, right, below)]
    assert seen == [False, True, False, False]
    assert await sees(store, await fork(connection, left, "deeper"), artifact)
    assert (await store.named(right, "plan")).handle == of_right.handle
    assert (await store.revert(left, "plan", 1)).version == 3
    with pytest.raises(ArtifactNotFound):
        await store.revert(root, "plan", 3)


async def test_a_handle_that_is_not_seen_says_the_same_wherever_it_is(
    store: ArtifactStore, branch: Branch, client: ContextClient, connection: Connection
):
    second = await client.open_branch("another conversation")
    child = await fork(connection, branch.branch_uuid, "child")
    elsewhere = [await put(store, second.branch_uuid, "x"), await put(store, child, "x")]
    unseen = [artifact.handle for artifact in elsewhere]
    unseen += ["art_" + "A" * 22, "art_short", "", "x\0y", "art_%", "'; drop table artifacts; --"]
    for handle in unseen:
        for ask in (
            store.find(branch.branch_uuid, handle),
            store.read(branch.branch_uuid, handle),
            store.contents_of(branch.branch_uuid, [handle]),
        ):
            with pytest.raises(ArtifactNotFound) as refused:
                await ask
            assert str(refused.value) == f"the branch sees no artifact {handle!r}"
    with pytest.raises(ArtifactNotFound) as refused:
        await store.find(branch.branch_uuid, "art_" + "A" * 10_000)
    assert len(str(refused.value)) < 120
    with pytest.raises(InvalidArgument, match="handle=None; it must be text"):
        await store.find(branch.branch_uuid, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("times", [1, 20], ids=["small", "large"])
async def test_parts_are_loaded_by_lines_and_by_what_they_hold(
    store: ArtifactStore, branch: Branch, times: int
):
    artifact = await put(store, branch.branch_uuid, REPORT * times)
    whole = await store.load(branch.branch_uuid, artifact.handle)
    assert (whole.content, whole.artifact) == (REPORT * times, artifact)
    part = await store.load(branch.branch_uuid, artifact.handle, start=3, length=2)
    assert (part.content, part.to_line) == ("D0001,37\nD0002,74", 4)
    found = await store.load(branch.branch_uuid, artifact.handle, grep="d0002,")
    assert str(found.content).startswith("4: D0002,74")
    assert found.matches == times
    with pytest.raises(InvalidArgument, match="start=0"):
        await store.load(branch.branch_uuid, artifact.handle, start=0)


async def test_contents_of_many_are_read_at_once_and_all_must_be_there(
    store: ArtifactStore, branch: Branch
):
    handles = [
        (await put(store, branch.branch_uuid, content)).handle for content in ("a", LARGE, "a")
    ]
    loaded = await store.contents_of(branch.branch_uuid, [*handles, handles[0]])
    assert loaded == dict(zip(handles, (b"a", LARGE, b"a"), strict=True))
    assert await store.contents_of(branch.branch_uuid, []) == {}
    with pytest.raises(ArtifactNotFound):
        await store.contents_of(branch.branch_uuid, [*handles, "art_" + "A" * 22])


async def test_what_turns_bring_stands_among_what_was_put(store: ArtifactStore, branch: Branch):
    first = await put(store, branch.branch_uuid, "one", "plan")
    exchange = [calling(call("call_1", "read_report")), result("call_1", REPORT)]
    await branch.record_turn([{"role": "user", "content": "Read the report"}, *exchange])
    last = await put(store, branch.branch_uuid, "two", "notes")
    listed = await store.list(branch.branch_uuid)
    assert [a.handle for a in (listed[0], listed[2])] == [first.handle, last.handle]
    assert (listed[1].source, listed[1].turn_no, listed[1].version) == ("message", 1, None)
    assert (await store.read(branch.branch_uuid, listed[1].handle))[1] == REPORT.encode()
    if listed[1].name:
        with pytest.raises(ArtifactNotFound):
            await store.named(branch.branch_uuid, listed[1].name)


async def test_the_summary_is_the_newest_that_is_not_degraded(
    store: ArtifactStore, branch: Branch, connection: Connection
):
    artifact = await put(store, branch.branch_uuid, REPORT)

    async def summarize(recipe: str, degraded: bool, day: int) -> None:
        await connection.execute(
            "insert into durable_context.artifact_summaries (tenant, sha256, recipe, headline,"
            " text, token_count, input_tokens, made_by, degraded, created_at)"
            " values ('default', $1, $2, 'About ' || $2, 'Text of ' || $2, 1, 1, 'm', $3,"
            " timestamptz '2026-05-01' + $4::integer * interval '1 day')",
            bytes.fromhex(artifact.sha256),
            recipe,
            degraded,
            day,
        )

    async def summary() -> tuple[str | None, str | None]:
        found = await store.find(branch.branch_uuid, artifact.handle)
        (listed,) = await store.list(branch.branch_uuid)
        assert listed == found
        return found.headline, found.summary

    assert await summary() == (None, None)
    await summarize("a", True, 9)
    assert await summary() == ("About a", "Text of a")
    await summarize("b", False, 1)
    await summarize("c", False, 2)
    await summarize("d", True, 10)
    assert await summary() == ("About c", "Text of c")
    for made in (
        await put(store, branch.branch_uuid, REPORT, "again"),
        await store.revert(branch.branch_uuid, "n", 1),
    ):
        assert (made.headline, made.summary) == ("About c", "Text of c")


async def test_a_row_that_was_tampered_with_is_damage(
    store: ArtifactStore, branch: Branch, connection: Connection
):
    artifact = await put(store, branch.branch_uuid, REPORT)
    with pytest.raises(asyncpg.PostgresError, match="immutable") as refused:
        await connection.execute("update durable_context.artifact_contents set data = 'x'")
    assert refused.value.sqlstate == "DC001"
    await connection.execute("set session_replication_role = replica")  # without triggers
    await connection.execute(
        "update durable_context.artifact_contents set data = set_byte(data, 100, 0)"
    )
    with pytest.raises(ArtifactDamaged, match=artifact.sha256[:16]):
        await store.read(branch.branch_uuid, artifact.handle)
    with pytest.raises(ArtifactDamaged):
        await store.contents_of(branch.branch_uuid, [artifact.handle])


async def test_a_file_that_is_damaged_or_gone_is_damage(
    store: ArtifactStore, branch: Branch, objects: Path
):
    artifact = await put(store, branch.branch_uuid, LARGE)
    (file,) = files(objects)
    file.write_bytes(LARGE[:-1] + b"!")
    with pytest.raises(ArtifactDamaged):
        await store.read(branch.branch_uuid, artifact.handle)
    file.unlink()
    with pytest.raises(ArtifactDamaged):
        await store.read(branch.branch_uuid, artifact.handle)
    await put(store, branch.branch_uuid, LARGE)
    assert (await store.read(branch.branch_uuid, artifact.handle))[1] == LARGE


async def test_the_object_is_there_before_the_row_that_points_at_it(
    store: ArtifactStore, branch: Branch, connection: Connection, objects: Path
):
    with pytest.raises(UnknownBranch):
        await put(store, uuid4(), LARGE)
    assert len(files(objects)) == 1
    assert await count(connection, "artifact_contents") == 0


async def test_without_its_object_no_row_is_written(
    pool: Pool, branch: Branch, connection: Connection, tmp_path: Path
):
    (tmp_path / "file").touch()
    contents = ContentStore((tmp_path / "file" / "objects").as_uri())
    store = ArtifactStore(pool, "default", contents)
    with pytest.raises(ArtifactStoreUnavailable):
        await put(store, branch.branch_uuid, LARGE)
    await put(store, branch.branch_uuid, "small contents need no object store")
    assert await count(connection, "artifact_contents") == 1
    assert await count(connection, "artifacts") == 1


async def test_64_mib_of_text_work_and_more_is_refused(
    store: ArtifactStore, branch: Branch, connection: Connection
):
    text = (REPORT * (LARGEST // len(REPORT) + 1))[:LARGEST]
    artifact = await put(store, branch.branch_uuid, text)
    assert artifact.size == LARGEST
    assert artifact.line_count == text.count("\n") + 1
    assert (await store.read(branch.branch_uuid, artifact.handle))[1] == text.encode()
    for content in (text + "x", text[:-1] + "é"):
        with pytest.raises(ArtifactTooLarge, match=r"67,108,86\d bytes.*67,108,864"):
            await put(store, branch.branch_uuid, content)
    assert await count(connection, "artifacts") == 1


async def test_each_call_is_one_statement(store: ArtifactStore, branch: Branch, pool: Pool):
    artifact = await put(store, branch.branch_uuid, REPORT)  # and type information, once
    statements: list[str] = []
    async with pool.acquire() as connection:
        connection.add_query_logger(lambda query: statements.append(query.query))
    for ask in (
        lambda: put(store, branch.branch_uuid, REPORT),
        lambda: store.revert(branch.branch_uuid, "n", 1),
        lambda: store.find(branch.branch_uuid, artifact.handle),
        lambda: store.read(branch.branch_uuid, artifact.handle),
        lambda: store.contents_of(branch.branch_uuid, [artifact.handle]),
        lambda: store.named(branch.branch_uuid, "n"),
        lambda: store.named(branch.branch_uuid, "n", 1),
        lambda: store.history(branch.branch_uuid, "n"),
        lambda: store.list(branch.branch_uuid),
    ):
        statements.clear()
        await ask()
        assert len(statements) == 1, statements
