"""A branch leaves as lines of JSON and comes back as it was."""

import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest

from durable_context import Branch, ContextClient
from durable_context.database import Pool
from durable_context.errors import UnknownBranch
from tests.compacting import compact_all
from tests.exports import (
    BUDGET,
    INLINE_LIMIT,
    POLICY,
    QUERIES,
    eventful,
    exported,
    prompts,
    report,
    said,
    without_ids,
)
from tests.replacing import replace_node
from tests.turns import chat, numbered
from worker.postgres_server import PostgresServer

MakeClient = Callable[..., Awaitable[ContextClient]]


@pytest.fixture
async def make_shipper(
    make_client: MakeClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> MakeClient:
    """Clients whose larger contents are in a directory of the test's."""
    monkeypatch.setenv("DURABLE_CONTEXT_ARTIFACT_URL", (tmp_path / "objects").as_uri())

    async def make(**options: object) -> ContextClient:
        settings = {"policy": POLICY, "inline_limit": INLINE_LIMIT}
        return await make_client(**(settings | options))

    return make


@pytest.fixture
async def shipper(make_shipper: MakeClient) -> ContextClient:
    return await make_shipper()


@pytest.fixture
async def elsewhere(postgres: PostgresServer, tmp_path: Path) -> AsyncIterator[ContextClient]:
    """A client of another database and another object store."""
    name = f"test_{uuid4().hex}"
    admin = await asyncpg.connect(postgres.url_of("postgres"))
    await admin.execute(f"create database {name} template durable_context_template")
    client = await ContextClient.connect(
        postgres.url_of(name),
        temporal=None,
        policy=POLICY,
        artifact_url=(tmp_path / "other objects").as_uri(),
        inline_limit=INLINE_LIMIT,
    )
    async with client:
        yield client
    await admin.execute(f"drop database {name} with (force)")
    await admin.close()


async def test_a_branch_in_another_database_gives_equal_prompts(
    shipper: ContextClient, elsewhere: ContextClient, pool: Pool
):
    branch = await eventful(shipper, pool)
    copy = await elsewhere.import_branch(
        await exported(shipper, "harbour"), conversation_id="copy", branch_id="of it"
    )
    assert (copy.parent_id, copy.branch_id) == (None, "of it")
    shown = await prompts(copy)
    assert shown == await prompts(branch)
    kinds = {kind for kinds in shown[2::3] for kind in kinds}
    assert {"checkpoint", "pinned", "digest", "raw", "retrieved", "task"} <= kinds
    assert await copy.pins() == await branch.pins() != ()
    for query in QUERIES:
        assert await copy.search(query) == await branch.search(query)


async def test_rows_come_back_as_they_were(
    shipper: ContextClient, elsewhere: ContextClient, pool: Pool
):
    branch = await eventful(shipper, pool)
    copy = await elsewhere.import_branch(
        await exported(shipper, "harbour"), conversation_id="harbour"
    )
    assert await copy.turns() == await branch.turns()
    assert await copy.artifacts() == await branch.artifacts()
    assert await copy.artifact_history("ports.csv") == await branch.artifact_history("ports.csv")
    state, before = await copy.inspect(), await branch.inspect()
    same = ("head_turn", "head_tokens", "open_run_turn", "encoding")
    assert [getattr(state, name) for name in same] == [getattr(before, name) for name in same]
    ids = {"summary_id", "checkpoint_id", "parent_id", "frontier", "compaction_id"}
    for read in (Branch.summaries, Branch.checkpoints, Branch.compactions):
        found = [one.model_dump(exclude=ids) for one in await read(copy)]
        assert found == [one.model_dump(exclude=ids) for one in await read(branch)]
        assert found
    nodes = {node.summary_id: node for node in await copy.summaries()}
    for checkpoint, parent in zip(
        await copy.checkpoints(), [None, *await copy.checkpoints()], strict=False
    ):
        assert checkpoint.parent_id == (parent and parent.checkpoint_id)
        assert nodes[checkpoint.frontier[0]].from_turn == 1
    for artifact in await branch.artifacts():
        whole = await branch.load_artifact(artifact.handle)
        assert await copy.load_artifact(artifact.handle) == whole


async def test_export_import_export_gives_the_same_stream_but_for_ids(
    shipper: ContextClient, elsewhere: ContextClient, pool: Pool
):
    await eventful(shipper, pool)
    lines = await exported(shipper, "harbour")
    await elsewhere.import_branch(lines, conversation_id="there")
    await shipper.import_branch(lines, conversation_id="harbour", branch_id="copy")
    assert without_ids(await exported(elsewhere, "there")) == without_ids(lines)
    assert without_ids(await exported(shipper, "harbour", "copy")) == without_ids(lines)
    assert await exported(shipper, "harbour") == lines, "the same state gives the same bytes"


async def test_every_line_is_ascii_safe_to_split_and_of_a_bounded_length(
    shipper: ContextClient, pool: Pool
):
    await eventful(shipper, pool)
    branch = await shipper.open_branch("harbour")
    await branch.record_turn([{"role": "user", "content": '"\\é' * 700_000}])
    lines = await exported(shipper, "harbour")
    assert "".join(lines).splitlines(keepends=True) == lines
    assert 1_000_000 < max(len(line.encode()) for line in lines) <= 2_200_000
    kinds = {json.loads(line)["kind"] for line in lines}
    assert kinds == {
        *("branch", "content", "artifact", "artifact_summary", "prompt_parts", "turn", "summary"),
        *("checkpoint", "document", "compaction", "pin", "piece", "end"),
    }
    copy = await shipper.import_branch("".join(lines).splitlines(), conversation_id="copy")
    assert await copy.turns() == await branch.turns()


async def test_a_child_leaves_as_a_root_with_all_it_inherits(
    shipper: ContextClient, elsewhere: ContextClient, pool: Pool
):
    root = await eventful(shipper, pool)
    child = await root.fork("child", at_turn=13)
    for number in range(20, 24):
        await child.record_turn(numbered(number))
    await child.put_artifact("port,figure\nHamburg,9\n", name="ports.csv")
    await child.put_artifact("of the child", name="own.txt")
    await compact_all(pool, child.branch_uuid, POLICY)
    grandchild = await child.fork("grandchild", at_turn=15)
    await grandchild.record_turn(numbered(30), turn_key="key-3")
    await grandchild.record_turn([{"role": "user", "content": "Again"}, *report(12), *said("Ok.")])
    youngest = await grandchild.fork("youngest")
    await root.put_artifact("unseen", name="later.txt")
    for number in range(40, 45):
        await youngest.record_turn(numbered(number))
    await compact_all(pool, youngest.branch_uuid, POLICY)

    for branch in (child, grandchild, youngest):
        lines = await exported(shipper, "harbour", branch.branch_id)
        for client in (shipper, elsewhere):
            copy = await client.import_branch(
                lines, conversation_id="copies", branch_id=branch.branch_id
            )
            assert copy.parent_id is None
            assert await prompts(copy) == await prompts(branch)
            for query in QUERIES:
                assert await copy.search(query) == await branch.search(query)
            assert await copy.artifacts() == await branch.artifacts()
            assert without_ids(await exported(client, "copies", branch.branch_id)) == without_ids(
                lines
            )
        assert "later.txt" not in "".join(lines)
    keys = [turn.turn_key for turn in await copy.turns()]
    assert "key-3" in keys
    assert keys[2].startswith("inherited-3-"), "a key that was used twice stays with the later turn"


async def test_a_fork_that_recorded_nothing_is_exported_too(shipper: ContextClient, pool: Pool):
    root = await eventful(shipper, pool)
    for turn in (0, 1, 12, 15):
        fork = await root.fork(f"at {turn}", at_turn=turn)
        lines = await exported(shipper, "harbour", fork.branch_id)
        copy = await shipper.import_branch(lines, conversation_id=f"copy at {turn}")
        assert (await copy.inspect()).head_turn == turn
        for query in QUERIES:
            mine = await copy.prepare(query, budget=BUDGET)
            theirs = await fork.prepare(query, budget=BUDGET)
            assert mine and theirs
            assert mine.messages == theirs.messages


async def test_an_imported_branch_goes_on_like_the_one_it_was_made_of(
    shipper: ContextClient, elsewhere: ContextClient, pool: Pool
):
    branch = await eventful(shipper, pool)
    copy = await elsewhere.import_branch(await exported(shipper, "harbour"), conversation_id="copy")
    repeated = await copy.record_turn(numbered(2), turn_key="key-2")
    assert repeated.repeated
    elsewhere_pool = elsewhere._resources.pool
    for one, its_pool in ((branch, pool), (copy, elsewhere_pool)):
        for number in range(16, 24):
            await one.record_turn(numbered(number), occurred_at=datetime(2024, 3, 1, tzinfo=UTC))
        put = await one.put_artifact("port,figure\nRotterdam,9\n", name="ports.csv")
        assert put.version == 3
        assert await compact_all(its_pool, one.branch_uuid, POLICY) > 1
        await one.fork("child", at_turn=17)
    assert [node.text for node in await copy.summaries()] == [
        node.text for node in await branch.summaries()
    ]
    texts = [checkpoint.text for checkpoint in await copy.checkpoints()]
    assert texts == [checkpoint.text for checkpoint in await branch.checkpoints()]


async def test_an_empty_branch_can_be_exported(shipper: ContextClient):
    await shipper.open_branch("quiet")
    lines = await exported(shipper, "quiet")
    assert [json.loads(line)["kind"] for line in lines] == ["branch", "end"]
    copy = await shipper.import_branch(lines, conversation_id="copy")
    assert (await copy.inspect()).head_turn == 0


async def test_an_export_is_one_snapshot(shipper: ContextClient, pool: Pool):
    branch = await eventful(shipper, pool)
    stream = shipper.export_branch("harbour")
    lines = [await anext(stream)]
    await branch.record_turn(chat("Later", "Too late"))
    await compact_all(pool, branch.branch_uuid, POLICY.model_copy(update={"keep_raw_turns": 0}))
    lines += [line async for line in stream]
    copy = await shipper.import_branch(lines, conversation_id="copy")
    assert (await copy.inspect()).head_turn == 15


async def test_a_stream_can_be_piped_on_a_single_connection(make_shipper: MakeClient, pool: Pool):
    await eventful(await make_shipper(), pool)
    narrow = await make_shipper(max_connections=1)
    copy = await narrow.import_branch(narrow.export_branch("harbour"), conversation_id="copy")
    assert (await copy.inspect()).head_turn == 15


async def test_a_large_content_is_exported_from_one_object_store_into_another(
    shipper: ContextClient, elsewhere: ContextClient, tmp_path: Path
):
    branch = await shipper.open_branch("harbour")
    content = random.Random(1).randbytes(5_000_000)
    put = await branch.put_artifact(content, name="scan.bin")
    lines = await exported(shipper, "harbour")
    copy = await elsewhere.import_branch(lines, conversation_id="copy")
    assert (await copy._resources.artifacts.read(copy.branch_uuid, put.handle))[1] == content
    stored = [path for path in (tmp_path / "other objects").rglob("*") if path.is_file()]
    assert [path.stat().st_size for path in stored] == [5_000_000]


async def test_another_tenant_cannot_export_and_what_it_imports_is_its_own(
    shipper: ContextClient, make_shipper: MakeClient, pool: Pool
):
    branch = await eventful(shipper, pool)
    stranger = await make_shipper(tenant="stranger")
    with pytest.raises(UnknownBranch, match="'stranger' has no branch 'main'"):
        await exported(stranger, "harbour")
    copy = await stranger.import_branch(
        await exported(shipper, "harbour"), conversation_id="harbour"
    )
    assert await prompts(copy) == await prompts(branch)
    owners = {
        row["tenant"]
        for table in ("branches", "turns", "summaries", "artifacts", "artifact_contents")
        for row in await pool.fetch(
            f"select tenant from durable_context.{table}"
            + ("" if table == "artifact_contents" else " where branch_uuid = $1"),
            *([] if table == "artifact_contents" else [copy.branch_uuid]),
        )
    }
    assert owners == {"default", "stranger"}


async def test_a_branch_whose_nodes_were_replaced_and_that_was_reverted_leaves_as_it_stands(
    shipper: ContextClient,
    elsewhere: ContextClient,
    pool: Pool,
    connection: "asyncpg.Connection[asyncpg.Record]",
):
    branch = await shipper.open_branch("c")
    for number in range(1, 13):
        await branch.record_turn(numbered(number))
    await compact_all(pool, branch.branch_uuid, POLICY)
    await branch.fork("child")
    await replace_node(connection, branch, 1, "A cormorant signed for it.")
    await branch.revert(8)
    await compact_all(pool, branch.branch_uuid, POLICY)
    await replace_node(connection, branch, 3, "A pelican signed for it.")
    await compact_all(pool, branch.branch_uuid, POLICY)
    for name in ("main", "child"):
        source = await shipper.find_branch("c", name)
        lines = await exported(shipper, "c", name)
        copy = await elsewhere.import_branch(lines, conversation_id=name)
        ids = {"summary_id", "checkpoint_id", "parent_id", "frontier"}
        for read, apart in (
            (Branch.summaries, ids),
            (Branch.checkpoints, ids | {"revision"}),  # without those that were replaced
        ):
            found = [one.model_dump(exclude=apart) for one in await read(copy)]
            assert found == [one.model_dump(exclude=apart) for one in await read(source)]
        assert await prompts(copy) == await prompts(source)
        hits = [await one.search("pelican cormorant") for one in (copy, source)]
        assert [(hit.from_turn, hit.headline, hit.excerpts) for hit in hits[0]] == [
            (hit.from_turn, hit.headline, hit.excerpts) for hit in hits[1]
        ]
        assert (await copy.revert(6)) == (await copy.checkpoints())[-1]
