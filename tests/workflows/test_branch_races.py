"""Writers, forks and compactions of one tree at once: whoever is first, every branch is right."""

import asyncio
import random
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import asyncpg
import pytest

from durable_context import Branch, Budget, ContextClient, Turn
from durable_context.errors import ArtifactNotFound, BranchConflict, HeadConflict
from tests.compaction.scripted import ScriptedSummarizer
from tests.events import all_events, check_events_are_what_happened, somebody_waits
from tests.prompts import check_prompt
from tests.turns import chat, exchange, numbered
from tests.workflows.orchestration import Orchestration, StartWorker, record

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
AMPLE = Budget(max_tokens=1_000_000)
ROOT = Path(__file__).parents[2]
SEED = 20_252
LARGE = "\n".join(f"line {n}: pressure {n * 7} kPa" for n in range(60_000))
"""Above the inline limit of 1 MiB."""
RECORD = """
import asyncio, sys
from durable_context import ContextClient
from tests.workflows.test_branch_races import large_turn

async def record(url, objects):
    async with await ContextClient.connect(url, temporal=None, artifact_url=objects) as client:
        branch = await client.find_branch("conversation")
        await branch.record_turn(large_turn(), turn_key="large")

asyncio.run(record(*sys.argv[1:]))
"""


def large_turn() -> list[object]:
    return [*chat("Read it", "I will"), *exchange("a", LARGE)]


async def _check(branch: Branch) -> None:
    """Its prompt is right, and its turns are those of its lineage."""
    state = await branch.inspect()
    prepared = await branch.prepare("And now?", budget=AMPLE)
    assert prepared
    check_prompt(prepared, state.head_turn, branch.policy)
    turns = await branch.turns()
    assert [turn.turn_no for turn in turns] == list(range(1, state.head_turn + 1))
    if state.frontier:
        ends = [0, *(node.to_turn for node in state.frontier)]
        assert [node.from_turn for node in state.frontier] == [end + 1 for end in ends[:-1]]
        assert state.checkpoint and state.checkpoint.turn_no == ends[-1]


async def _own(connection: Connection, table: str, branch: Branch) -> "list[asyncpg.Record]":
    return await connection.fetch(
        f"select * from durable_context.{table} t where branch_uuid = $1 order by t::text",
        branch.branch_uuid,
    )


async def test_of_two_writers_with_one_prompt_the_second_is_told_to_prepare_again(branch: Branch):
    await record(branch, 2)

    async def write(writer: int) -> Turn | HeadConflict:
        prepared = await branch.prepare(f"question {writer}", budget=AMPLE)
        assert prepared
        await both.wait()
        try:
            return await branch.record_turn(chat(f"question {writer}", "yes"), prepared=prepared)
        except HeadConflict as conflict:
            return conflict

    both = asyncio.Barrier(2)
    first, second = sorted(
        await asyncio.gather(write(1), write(2)), key=lambda one: isinstance(one, HeadConflict)
    )
    assert isinstance(first, Turn) and first.turn_no == 3
    assert isinstance(second, HeadConflict) and (second.expected, second.actual) == (2, 3)
    assert len(await branch.turns()) == 3


async def test_writers_that_try_again_all_get_through_and_each_prompt_was_of_its_head(
    branch: Branch, connection: Connection
):
    async def write(writer: int) -> None:
        for n in range(5):
            while True:
                prepared = await branch.prepare(f"{writer}-{n}", budget=AMPLE)
                assert prepared
                said = chat(f"{writer}-{n}", "yes")
                try:
                    turn = await branch.record_turn(said, prepared=prepared)
                except HeadConflict:
                    continue
                assert turn.turn_no == prepared.manifest.head_turn + 1
                break

    await asyncio.gather(*(write(writer) for writer in range(4)))
    turns = await branch.turns()
    assert [turn.turn_no for turn in turns] == list(range(1, 21))
    assert len({turn.messages[0].content for turn in turns}) == 20
    await check_events_are_what_happened(connection)


async def test_writers_that_append_leave_no_hole_and_repeat_nothing(
    branch: Branch, connection: Connection
):
    async def write(writer: int) -> None:
        for n in range(8):
            prepared = await branch.prepare(f"{writer}-{n}", budget=AMPLE)
            assert prepared
            said = [*chat(f"{writer}-{n}", "yes"), *exchange("a", f"{writer}-{n} kPa\n" * 300)]
            await asyncio.gather(
                *(
                    branch.record_turn(
                        said, prepared=prepared, turn_key=f"{writer}-{n}", on_conflict="append"
                    )
                    for _ in range(2)
                )
            )

    await asyncio.gather(*(write(writer) for writer in range(5)))
    turns = await branch.turns()
    assert [turn.turn_no for turn in turns] == list(range(1, 41))
    assert len({turn.turn_key for turn in turns}) == 40
    artifacts = await branch.artifacts()
    assert {one.handle for one in artifacts} == {turn.messages[3].artifact for turn in turns}
    numbers = [row["artifact_no"] for row in await _own(connection, "artifacts", branch)]
    assert sorted(numbers) == list(range(1, 41))
    await check_events_are_what_happened(connection)


async def test_ten_forks_with_one_id_at_once_are_one_branch(
    branch: Branch, client: ContextClient, connection: Connection
):
    await record(branch, 9)
    children = await asyncio.gather(*(branch.fork("child") for _ in range(10)))
    assert len({(child.branch_uuid, child.fork_turn) for child in children}) == 1
    assert len(await client.branches("conversation")) == 2
    assert len((await children[0].inspect()).lineage) == 2
    assert [event.kind for event in await all_events(children[0])] == ["forked"]
    await check_events_are_what_happened(connection)


@pytest.mark.parametrize("made", [True, False], ids=["made", "not made after all"])
async def test_forks_wait_for_one_of_their_id_that_is_being_made(
    branch: Branch, client: ContextClient, connection: Connection, database_url: str, made: bool
):
    await record(branch, 9)
    first = connection.transaction()
    await first.start()
    making = await connection.fetchval(
        "select branch_uuid from durable_context.fork_branch('default', $1, 'child', 9, 2)",
        branch.branch_uuid,
    )
    forks = [asyncio.create_task(branch.fork("child")) for _ in range(5)]
    async with asyncio.timeout(30):
        await _waiting(database_url, 5)
        await (first.commit() if made else first.rollback())
        children = await asyncio.gather(*forks)
    assert len({child.branch_uuid for child in children}) == 1
    assert (children[0].branch_uuid == making) is made
    assert len(await client.branches("conversation")) == 2
    assert [event.kind for event in await all_events(children[0])] == ["forked"]


async def test_forks_with_one_id_at_several_turns_at_once_are_one_branch_and_refusals(
    branch: Branch, client: ContextClient
):
    await record(branch, 9)
    forks = (branch.fork("child", at_turn=n % 5) for n in range(10))
    results = await asyncio.gather(*forks, return_exceptions=True)
    made = [one for one in results if isinstance(one, Branch)]
    refused = [one for one in results if isinstance(one, BranchConflict)]
    assert (len(made), len(refused)) == (2, 8)
    assert len({child.branch_uuid for child in made}) == 1
    assert len(await client.branches("conversation")) == 2


async def test_forks_with_ids_of_their_own_at_once_are_all_made(branch: Branch):
    await record(branch, 9)
    children = await asyncio.gather(*(branch.fork(f"child-{n}") for n in range(20)))
    assert len({child.branch_uuid for child in children}) == 20
    await asyncio.gather(*(_check(child) for child in children))


async def test_a_fork_does_not_wait_for_a_turn_that_is_being_recorded(
    branch: Branch, connection: Connection, database_url: str
):
    await record(branch, 3)
    watching = await asyncpg.connect(database_url)
    async with asyncio.timeout(30):
        async with connection.transaction():
            await connection.execute(
                "select from durable_context.branches where branch_uuid = $1 for no key update",
                branch.branch_uuid,
            )
            recording = asyncio.create_task(branch.record_turn(numbered(4)))
            await somebody_waits(watching)
            child = await branch.fork("child")
            assert not recording.done()
        assert (await recording).turn_no == 4
    await watching.close()
    assert child.fork_turn == 3
    assert (await child.record_turn(numbered(99))).turn_no == 4
    assert [len(await one.turns()) for one in (branch, child)] == [4, 4]


async def test_forks_while_turns_and_artifacts_come_in_are_of_one_moment(
    branch: Branch, connection: Connection
):
    chance = random.Random(SEED)

    async def write() -> None:
        for n in range(40):
            report = exchange("a", f"{n} kPa\n" * 400)
            await branch.record_turn([*chat(f"question {n}", "yes"), *report])
            if chance.random() < 0.5:
                await branch.put_artifact(f"plan after {n}", name="plan")

    async def fork(number: int) -> Branch:
        await asyncio.sleep(chance.random())
        return await branch.fork(f"child-{number}")

    _, *children = await asyncio.gather(write(), *(fork(number) for number in range(20)))
    parents = await branch.turns()
    named = await branch.artifact_history("plan")
    for child in children:
        assert child.fork_turn is not None
        assert await child.turns() == parents[: child.fork_turn]
        brought = [one for one in await child.artifacts() if one.source != "put"]
        assert [one.turn_no for one in brought] == list(range(1, child.fork_turn + 1))
        assert await _versions(child) == [one.handle for one in named][: await _newest(child)]
        [row] = await _own(connection, "branches", child)
        counted = await connection.fetchval(
            "select head_tokens from durable_context.turns where branch_uuid = $1 and turn_no = $2",
            branch.branch_uuid,
            child.fork_turn,
        )
        assert row["head_tokens"] == (counted or 0)
        await _check(child)
    await check_events_are_what_happened(connection)


async def _newest(child: Branch) -> int:
    """The newest version of the plan that it sees."""
    return max((one.version or 0 for one in await child.artifacts()), default=0)


async def _versions(child: Branch) -> list[str]:
    try:
        return [one.handle for one in await child.artifact_history("plan")]
    except ArtifactNotFound:
        return []


async def test_a_fork_in_the_middle_of_a_compaction_takes_what_was_published(
    branch: Branch,
    connection: Connection,
    orchestration: Orchestration,
    start_worker: StartWorker,
):
    summarizer = ScriptedSummarizer()
    summarizer.gate.clear()
    await record(branch, 8)
    async with start_worker(summarizer), asyncio.timeout(90):
        await orchestration.hint(branch)
        await summarizer.arrived.wait()
        child = await branch.fork("child")
        await _check(child)
        summarizer.gate.set()
        await orchestration.result(branch)
        assert await child.checkpoints() == () and await child.summaries() == ()
        before = await _rows(connection, branch)
        await record(child, 6)
        result = await orchestration.compact(child)
    assert result.checkpoint_turn == 12
    assert await _rows(connection, branch) == before
    assert [c.turn_no for c in await branch.checkpoints()] == [6]
    assert [c.turn_no for c in await child.checkpoints()] == [6, 12]
    ids = {node.summary_id for node in await child.summaries()}
    assert not ids & {node.summary_id for node in await branch.summaries()}
    assert len(summarizer.asked) == 2, "the parent's text was made once, for both"
    await asyncio.gather(_check(branch), _check(child))


async def test_forks_at_any_moment_of_a_long_compaction_are_right_and_go_on(
    branch: Branch,
    connection: Connection,
    orchestration: Orchestration,
    start_worker: StartWorker,
):
    chance = random.Random(SEED)
    await record(branch, 44)

    async def fork(number: int) -> Branch:
        await asyncio.sleep(2 * chance.random())
        return await branch.fork(f"child-{number}", at_turn=chance.randrange(45))

    async with start_worker(), asyncio.timeout(150):
        compaction = asyncio.create_task(orchestration.compact(branch))
        children = await asyncio.gather(*(fork(number) for number in range(8)))
        await compaction
        for child in children:
            await _check(child)
            await record(child, 7)
        before = await _rows(connection, branch)
        await asyncio.gather(*(orchestration.compact(child) for child in children))
    assert await _rows(connection, branch) == before
    for child in (branch, *children):
        await _check(child)
        state = await child.inspect()
        assert state.lag.turns < 6 and state.checkpoint
    await check_events_are_what_happened(connection)


async def test_parent_children_and_grandchildren_compact_at_once(
    branch: Branch,
    connection: Connection,
    orchestration: Orchestration,
    start_worker: StartWorker,
):
    await record(branch, 20)
    children = [await branch.fork(f"child-{turn}", at_turn=turn) for turn in (5, 13, 20)]
    for child in children:
        await record(child, 10)
    grandchild = await children[1].fork("grandchild", at_turn=18)
    await record(grandchild, 9)
    family = [branch, *children, grandchild]
    async with start_worker(), asyncio.timeout(150):
        await asyncio.gather(*(orchestration.compact(one) for one in family))
    for one in family:
        await _check(one)
        state = await one.inspect()
        assert state.checkpoint is not None
        assert state.checkpoint.turn_no == (state.head_turn - 2) // 6 * 6
        owners = {row["branch_uuid"] for row in await _own(connection, "checkpoints", one)}
        assert owners == {one.branch_uuid}
    texts = await connection.fetch(
        "select from_turn, to_turn, level, text from durable_context.summaries"
        " where branch_uuid = any($1) and to_turn <= 12 and level = 0",
        [branch.branch_uuid, children[1].branch_uuid, children[2].branch_uuid],
    )
    assert len({row["text"] for row in texts}) == 2, "the same turns give the same text"


async def _rows(connection: Connection, branch: Branch) -> dict[str, list[str]]:
    tables = ("branches", "turns", "summaries", "checkpoints", "indexed_documents", "postings")
    return {table: [str(row) for row in await _own(connection, table, branch)] for table in tables}


async def test_a_process_killed_between_object_and_row_leaves_an_object_and_nothing_else(
    client: ContextClient,
    branch: Branch,
    connection: Connection,
    database_url: str,
    make_client: Callable[..., Awaitable[ContextClient]],
    tmp_path: Path,
):
    """The retry stores the same content under the same key."""
    objects = tmp_path / "objects"
    await record(branch, 1)
    name = database_url.rpartition("/")[2]
    # So that the server itself sees that nobody waits for the statement any more.
    await connection.execute(f"alter database {name} set client_connection_check_interval = 50")
    async with asyncio.timeout(60):
        async with connection.transaction():
            await connection.execute(
                "select from durable_context.branches where branch_uuid = $1 for no key update",
                branch.branch_uuid,
            )
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", RECORD, database_url, f"file://{objects}"), cwd=ROOT
            )
            try:
                await _waiting(database_url, 1)
            finally:
                process.kill()
                await process.wait()
            await _waiting(database_url, 0)
    [left] = _files(objects)
    assert [turn.turn_no for turn in await branch.turns()] == [1]
    for table in ("artifacts", "artifact_contents"):
        assert await connection.fetchval(f"select count(*) from durable_context.{table}") == 0
    again = await make_client(artifact_url=f"file://{objects}")
    retried = await again.find_branch("conversation")
    turn = await retried.record_turn(large_turn(), turn_key="large")
    assert (turn.turn_no, turn.repeated) == (2, False)
    loaded = await retried.load_artifact(str(turn.messages[3].artifact))
    assert loaded.content == LARGE
    assert _files(objects) == [left]
    key = await connection.fetchval("select object_key from durable_context.artifact_contents")
    assert str(left).endswith(key)


def _files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file())


async def _waiting(database_url: str, count: int) -> None:
    """Until so many statements wait for a lock."""
    watching = await asyncpg.connect(database_url)
    try:
        while count != await watching.fetchval(
            "select count(*) from pg_stat_activity where datname = current_database()"
            " and wait_event_type = 'Lock'"
        ):
            pass
    finally:
        await watching.close()
