"""Nothing is found where nothing is wrong."""

import asyncio
import random
from contextlib import suppress
from datetime import timedelta

import pytest

from durable_context import Branch, CompactionPolicy, ContextClient
from durable_context.compaction.following import follow
from durable_context.database import Pool
from durable_context.errors import InvalidArgument
from durable_context.retention import RetentionPolicy
from durable_context.summarizers import SummaryDraft, SummaryRequest
from durable_context.summarizers.extractive import ExtractiveSummarizer
from durable_context.verification.findings import Verified
from tests.compacting import compact_all
from tests.exports import POLICY, exported
from tests.rebuilding import RebuildSteps
from tests.turns import exchange, numbered
from tests.verification.conftest import told, verified


async def record(branch: Branch, first: int, last: int) -> None:
    for turn in range(first, last + 1):
        await branch.record_turn(numbered(turn))


def check(looked_at: list[Verified]) -> None:
    assert [finding for one in looked_at for finding in one.findings] == []
    assert sum(one.unverifiable for one in looked_at) == 0


async def test_a_tenant_without_branches_has_nothing_to_find(database_url: str):
    async with await ContextClient.connect(database_url, temporal=None, tenant="new") as client:
        assert [one.findings for one in await verified(client)] == [()]


async def test_a_branch_with_something_of_everything_and_its_fork_are_found_whole(
    client: ContextClient, branch: Branch, child: Branch
):
    check(await verified(client))
    one = await branch.verify()
    assert (one.conversation_id, one.branch_uuid) == ("harbour", branch.branch_uuid)
    assert (one.turns, one.nodes, one.checkpoints, one.contents) == (15, 8, 5, 7)
    other = await child.verify()
    assert (other.turns, other.nodes, other.checkpoints, other.contents) == (4, 3, 2, 0)
    assert await told(branch) == []


async def test_forks_of_forks_are_found_whole(client: ContextClient, pool: Pool):
    branch = await client.open_branch("conversation")
    for depth in range(6):
        await record(branch, 5 * depth + 1, 5 * depth + 5)
        await branch.put_artifact(f"notes {depth}", name="notes.txt")
        await compact_all(pool, branch.branch_uuid, POLICY)
        branch = await branch.fork(f"depth-{depth + 1}")
    empty = await branch.fork("empty", at_turn=0)
    await record(empty, 1, 9)
    await compact_all(pool, empty.branch_uuid, POLICY)
    await (await client.open_branch("no turns")).fork("no turns")
    looked_at = await verified(client)
    check(looked_at)
    assert len(looked_at) == 13


async def test_imported_branches_are_found_whole(client: ContextClient):
    for name in ("main", "child"):
        lines = await exported(client, "harbour", name)
        await client.import_branch(lines, conversation_id=f"copy of {name}")
    check(await verified(client))


async def test_a_long_run_is_found_whole(client: ContextClient, pool: Pool):
    branch = await client.open_branch("run")
    await branch.record_turn(
        [{"role": "user", "content": "Fix it."}, *exchange("c0", "ok")], continues=True
    )
    for step in range(1, 30):
        output = f"step {step}: " + "a line of output\n" * 300
        await branch.record_turn(exchange(f"c{step}", output), continues=True)
    await compact_all(pool, branch.branch_uuid, CompactionPolicy(run_raw_tokens=500))
    check(await verified(client))
    one = await branch.verify()
    assert one.contents == 29 and one.checkpoints > 3


async def test_what_was_reverted_rebuilt_and_followed_is_found_whole(
    client: ContextClient, pool: Pool
):
    branch = await client.open_branch("history")
    await record(branch, 1, 16)
    await compact_all(pool, branch.branch_uuid, POLICY)
    fork = await branch.fork("fork")
    await record(fork, 17, 22)
    await compact_all(pool, fork.branch_uuid, POLICY)
    await RebuildSteps(pool, branch.branch_uuid, Renamed("one"), policy=POLICY).all()
    check(await verified(client))
    assert await follow(pool, "default", fork.branch_uuid)
    check(await verified(client))
    await branch.revert(8)
    await compact_all(pool, branch.branch_uuid, POLICY)
    await RebuildSteps(pool, branch.branch_uuid, Renamed("two"), policy=POLICY).all()
    await branch.revert(0)
    check(await verified(client))
    await compact_all(pool, branch.branch_uuid, POLICY)
    check(await verified(client))


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_is_done_to_branches_leaves_them_whole(
    client: ContextClient, pool: Pool, seed: int
):
    chance = random.Random(seed)
    branches = [await client.open_branch("history")]
    done: list[str] = []
    for step in range(30):
        branch = chance.choice(branches)
        head = (await branch.inspect()).head_turn
        what = chance.choice(["record", "record", "compact", "compact", "other"])
        if what == "other":
            what = chance.choice(["fork", "revert", "rebuild", "follow", "pin", "put", "gc"])
        done.append(f"{what} {branch.branch_id}")
        match what:
            case "record":
                await record(branch, head + 1, head + chance.randrange(1, 6))
            case "compact":
                await compact_all(pool, branch.branch_uuid, POLICY)
            case "fork":
                branches.append(await branch.fork(f"{step}", at_turn=chance.randint(0, head)))
            case "revert":
                turns = [checkpoint.turn_no for checkpoint in await branch.checkpoints()]
                with suppress(InvalidArgument):  # not beyond where a fork began
                    await branch.revert(chance.choice([0, *turns]))
            case "rebuild":
                summarizer = Renamed(f"summarizer {step}")
                await RebuildSteps(pool, branch.branch_uuid, summarizer, policy=POLICY).all()
            case "follow":
                await follow(pool, "default", branch.branch_uuid)
            case "pin" if head:
                await branch.pin(chance.randint(1, head))
            case "put":
                await branch.put_artifact(f"notes {chance.randrange(3)}", name="notes.txt")
            case "gc":
                at_once = timedelta(0)
                kept = RetentionPolicy(
                    superseded_after=at_once, rejected_after=at_once, checkpoints_kept=2
                )
                await client.set_retention(kept)
                await client.gc()
            case _:
                pass
        looked_at = await verified(client)
        found = [finding for one in looked_at for finding in one.findings]
        assert found == [], (done, found)
        if "gc" not in " ".join(done):
            assert sum(one.unverifiable for one in looked_at) == 0, done


async def test_what_is_written_meanwhile_is_no_finding(client: ContextClient, pool: Pool):
    branch = await client.open_branch("busy")

    async def write() -> None:
        for turn in range(1, 41):
            await branch.record_turn(numbered(turn))
            if turn % 8 == 0:
                await branch.put_artifact(f"notes {turn}", name="notes.txt")
                await compact_all(pool, branch.branch_uuid, POLICY)

    writing = asyncio.create_task(write())
    looked = 0
    while not writing.done():
        assert (await branch.verify()).findings == ()
        looked += 1
    await writing
    assert looked > 3


class Renamed(ExtractiveSummarizer):
    """Makes the same summaries by another recipe."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    @property
    def recipe(self) -> str:
        return self._name

    async def summarize(self, request: SummaryRequest) -> SummaryDraft:
        draft = await super().summarize(request)
        text = f"{draft.text} By {self._name}."
        return draft.model_copy(update={"text": text, "made_by": self._name})
