"""Contents, their objects and what prompts were made with go when nothing names them any more."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import asyncpg
import pytest

from durable_context import Branch, Budget, ContextClient, PreparedContext
from durable_context.artifacts.contents import ContentStore
from durable_context.database import Pool
from durable_context.errors import ArtifactStoreUnavailable
from durable_context.retention import run_page
from tests.retention.aged import (
    AT_ONCE,
    Connection,
    at_once,
    checked_gc,
    gc,
    until_somebody_waits,
)
from tests.s3_server import ACCESS_KEY, S3Server
from tests.turns import chat, exchange, numbered

LARGE = "A line of a large report that is kept in the object store.\n" * 1_000
SMALL = "A line of a report.\n" * 10
MakeClient = Callable[..., Awaitable[ContextClient]]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "objects"


@pytest.fixture
async def stored(make_client: MakeClient, directory: Path) -> ContextClient:
    """A client whose contents of more than 1,000 bytes are objects."""
    return await make_client(artifact_url=directory.as_uri(), inline_limit=1_000)


def files(directory: Path, *, hours_old: int = 0) -> list[Path]:
    """All objects, made to look that old."""
    found = [path for path in directory.rglob("*") if path.is_file()]
    then = time.time() - 3600 * hours_old
    for path in found:
        if hours_old:
            os.utime(path, (then, then))
    return found


async def unnamed(connection: Connection, count: int) -> None:
    """Contents that no artifact names."""
    await connection.execute(
        "insert into durable_context.artifact_contents (tenant, sha256, size, compression, data)"
        " select 'default', sha256(n::text::bytea), 100, 'none', repeat('x', 100)::bytea"
        " from generate_series(1, $1) n",
        count,
    )


async def count(connection: Connection, table: str) -> int:
    return await connection.fetchval(f"select count(*) from durable_context.{table}")


async def test_a_content_of_two_conversations_goes_with_the_second(
    client: ContextClient, connection: Connection
):
    for conversation_id in ("one", "two"):
        branch = await client.open_branch(conversation_id)
        await branch.put_artifact(SMALL, name="report")
    report = await client.delete_conversation("one")
    assert (report.count("conversations"), report.count("contents")) == (1, 0)
    kept = await client.find_branch("two")
    artifact = (await kept.artifacts())[0]
    assert (await kept.load_artifact(artifact.handle)).content == SMALL
    report = await client.delete_conversation("two")
    assert (report.count("conversations"), report.count("contents")) == (1, 1)
    assert await count(connection, "artifact_contents") == 0


async def test_what_is_unnamed_goes_with_its_summaries_and_what_is_named_stays(
    client: ContextClient, connection: Connection
):
    branch = await client.open_branch("talk")
    await branch.put_artifact(SMALL, name="report")
    await unnamed(connection, 3)
    await connection.execute(
        "insert into durable_context.artifact_summaries"
        " (tenant, sha256, recipe, headline, text, token_count, input_tokens, made_by)"
        " select tenant, sha256, 'r', 'h', 't', 1, 1, 'm' from durable_context.artifact_contents"
    )
    report = await checked_gc(client)
    assert (report.count("contents"), report.bytes) == (3, 300)
    assert await count(connection, "artifact_contents") == 1
    assert await count(connection, "artifact_summaries") == 1


async def test_objects_go_with_their_contents_and_not_within_an_hour(
    stored: ContextClient, directory: Path, connection: Connection
):
    branch = await stored.open_branch("talk")
    await branch.put_artifact(LARGE, name="report")
    await stored.delete_conversation("talk")
    assert len(files(directory)) == 1, "somebody may just have kept it again"
    assert (await checked_gc(stored)).total == 0
    assert len(files(directory, hours_old=2)) == 1
    assert (await checked_gc(stored)).count("contents") == 1
    assert files(directory) == []
    assert await count(connection, "artifact_contents") == 0


async def test_a_large_content_that_is_recorded_again_meanwhile_is_kept(
    stored: ContextClient, directory: Path, connection: Connection, database_url: str, pool: Pool
):
    """Its row is about to be named again when retention comes to it."""
    branch = await stored.open_branch("talk")
    await branch.put_artifact(LARGE, name="report")
    await stored.delete_conversation("talk")
    files(directory, hours_old=2)
    other = await stored.open_branch("other")
    holding = await asyncpg.connect(database_url)
    await holding.execute("begin")
    await holding.execute(
        "select durable_context.keep_contents(tenant, array[sha256], array[size],"
        " array[compression], array[data], array[object_key])"
        " from durable_context.artifact_contents"
    )
    assert (await gc(stored)).total == 0
    await holding.execute("rollback")
    await holding.close()
    artifact = await other.put_artifact(LARGE, name="report")
    assert (await gc(stored)).total == 0
    assert (await other.load_artifact(artifact.handle)).content == LARGE


async def test_a_content_that_is_being_deleted_is_kept_anew(
    client: ContextClient, connection: Connection, database_url: str
):
    branch = await client.open_branch("talk")
    await branch.put_artifact(SMALL, name="report")
    await client.open_branch("other")
    deleting = await asyncpg.connect(database_url)
    await deleting.execute("begin; set local durable_context.retention = 'on'")
    await deleting.execute("delete from durable_context.events where kind = 'put'")
    await deleting.execute("delete from durable_context.artifacts")
    await deleting.execute("delete from durable_context.artifact_contents")
    other = await client.find_branch("other")
    putting = asyncio.create_task(other.put_artifact(SMALL, name="mine"))
    await until_somebody_waits(connection)
    await deleting.execute("commit")
    await deleting.close()
    artifact = await putting
    assert (await other.load_artifact(artifact.handle)).content == SMALL


async def test_a_recording_at_the_same_time_loses_nothing(
    stored: ContextClient, directory: Path, pool: Pool
):
    """Conversations come and go with the same contents, while retention waits for nothing."""
    await stored.set_retention(AT_ONCE)
    kept = [await stored.open_branch(f"kept-{n}") for n in range(3)]

    async def record(branch: Branch) -> None:
        for turn in range(12):
            content = f"{SMALL}{turn % 3}" if turn % 2 else f"{LARGE}{turn % 3}"
            await branch.record_turn([*chat("Run it.", "I do."), *exchange(f"c{turn}", content)])
            await branch.put_artifact(content, name="report")

    async def come_and_go(name: str) -> None:
        for _ in range(6):
            branch = await stored.open_branch(name)
            for turn in range(3):
                await branch.put_artifact(f"{SMALL}{turn}", name="report")
                await branch.put_artifact(f"{LARGE}{turn}", name="large")
            await stored.delete_conversation(name)

    async def collect() -> None:
        for _ in range(12):
            await stored.gc()

    await asyncio.gather(*map(record, kept), come_and_go("a"), come_and_go("b"), collect())
    for branch in kept:
        for artifact in [*await branch.artifacts(), *await branch.artifact_history("report")]:
            assert (await branch.load_artifact(artifact.handle)).content[:100] in (
                SMALL[:100],
                LARGE[:100],
            )


async def test_objects_that_no_row_names_go_where_they_are_asked_to(
    stored: ContextClient, directory: Path, connection: Connection
):
    branch = await stored.open_branch("talk")
    await branch.put_artifact(LARGE, name="report")
    contents = ContentStore(directory.as_uri(), inline_limit=1_000)
    await contents.keep("default", [f"{LARGE}{n}".encode() for n in range(5)])
    await contents.keep("another", [LARGE.encode()])
    files(directory, hours_old=3)
    await contents.keep("default", [f"{LARGE}new".encode()])
    assert (await checked_gc(stored)).total == 0
    report = await checked_gc(stored, AT_ONCE.model_validate({"objects_after": "PT2H"}))
    assert report.count("objects") == 5
    assert len(files(directory)) == 3
    artifact = (await branch.artifacts())[0]
    assert (await branch.load_artifact(artifact.handle)).content == LARGE


async def test_a_directory_that_nobody_made_is_not_made_by_looking(
    stored: ContextClient, directory: Path
):
    await gc(stored, AT_ONCE.model_validate({"objects_after": "PT2H"}))
    assert directory not in directory.parent.iterdir()


async def test_objects_in_s3_go_too_and_a_store_that_refuses_loses_nothing(
    make_client: MakeClient, connection: Connection, monkeypatch: pytest.MonkeyPatch
):
    with S3Server() as server:
        monkeypatch.setenv("AWS_ENDPOINT", server.url)
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "open-sesame")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        client = await make_client(artifact_url="s3://bucket", inline_limit=1_000)
        branch = await client.open_branch("talk")
        await branch.put_artifact(LARGE, name="report")
        server.failing = True
        with pytest.raises(ArtifactStoreUnavailable):
            await client.delete_conversation("talk")
        assert await count(connection, "artifact_contents") == 1
        server.failing = False
        assert (await gc(client)).count("contents") == 1
        assert server.objects == {}


async def test_what_prompts_were_made_with_goes_with_the_last_turn_that_names_it(
    client: ContextClient, connection: Connection
):
    for conversation_id in ("one", "two"):
        branch = await client.open_branch(conversation_id)
        prepared = await branch.prepare(
            "Hello", budget=Budget(max_tokens=4_000, instructions="Be kind.")
        )
        assert isinstance(prepared, PreparedContext)
        await branch.record_turn(chat("Hello", "Hi"), prepared=prepared)
    assert await count(connection, "prompt_parts") == 1
    assert (await client.delete_conversation("one")).count("prompt_parts") == 0
    assert (await checked_gc(client)).total == 0
    policy = at_once(conversations_kept=0)
    assert (await checked_gc(client, policy)).count("prompt_parts") == 1
    assert await count(connection, "prompt_parts") == 0


async def test_another_tenant_s_contents_are_another_s(
    make_client: MakeClient, connection: Connection, pool: Pool
):
    other = await make_client(tenant="other")
    await (await other.open_branch("talk")).record_turn(numbered(1))
    await unnamed(connection, 3)
    await connection.execute(
        "insert into durable_context.artifact_contents (tenant, sha256, size, compression, data)"
        " select 'third', sha256, size, compression, data from durable_context.artifact_contents"
    )
    assert (await checked_gc(other)).total == 0
    await other.set_retention(at_once())
    page = await run_page(pool, ContentStore("memory:///"), "default")
    assert page.report.total == 0, "the default waits for a week"
    assert await count(connection, "artifact_contents") == 6
