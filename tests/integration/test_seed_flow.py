"""The conversation that the project was asked for, step by step and with its numbers: eight turns,
a summary and a checkpoint, a report of 30 KB, a branch, and the next day in another process.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from durable_context import Branch, Budget, ContextClient, PreparedContext
from durable_context.database import Pool
from durable_context.errors import ArtifactNotFound
from tests.compacting import compact_all
from tests.events import Connection
from tests.prompts import check_prompt, kinds, raw_turns
from tests.turns import chat, exchange

AMPLE = Budget(max_tokens=1_000_000)
ASKED = "Which gasket did we choose for the pump house, and when does it ship?"
SAID = {
    1: ("Plan the repair of the pump house in Rotterdam.", "I will plan it with you."),
    2: ("The budget is 12,500 EUR.", "Noted: 12,500 EUR."),
    4: ("We choose the gasket GK-204 for every pump.", "GK-204 it is."),
    5: ("It ships on 2024-05-20.", "Then work can begin on 2024-05-21."),
    6: ("Who signs it off?", "The site manager, mail ops@example.com."),
    7: ("Book the crane, too.", "The crane CR-7 is booked."),
    8: ("What is left to do?", "Only the pressure test."),
    10: ("In this branch, try the gasket GK-999 instead.", "GK-999 would cost 310 EUR more."),
    11: ("And if we skip the crane?", "Then the lift takes two days."),
    12: ("Assume two days.", "Assumed."),
    13: ("Sum this up for the site manager.", "GK-999, two days, 310 EUR more."),
    14: ("Send it tomorrow.", "I will send it tomorrow."),
}
INVENTORY = "\n".join(f"shelf {n}: gasket GK-{n * 3}, {n % 7} pieces" for n in range(1, 121))
REPORT = "\n".join(f"test {n}: pump {n % 17} held {n * 7} kPa" for n in range(1, 1_001))
RESUME = """
import asyncio, json, sys
from durable_context import Budget, ContextClient

async def resume(url, asked):
    async with await ContextClient.connect(url, temporal=None) as client:
        branch = await client.find_branch("pump house", "child")
        prepared = await branch.prepare(asked, budget=Budget(max_tokens=1_000_000))
        print(prepared.model_dump_json())

asyncio.run(resume(*sys.argv[1:]))
"""
TABLES = (
    *("branches", "lineage", "turns", "artifacts", "summaries", "checkpoints"),
    *("compactions", "indexed_documents", "postings"),
)
ROWS = " union all ".join(
    f"select '{table}' as name, t::text as row from durable_context.{table} t"
    " where branch_uuid = $1"
    for table in TABLES
)


class Flow:
    """The conversation up to any of its turns."""

    def __init__(self, root: Branch, pool: Pool) -> None:
        self.root = root
        self._pool = pool

    async def first_turns(self, count: int) -> None:
        for turn_no in range(1, count + 1):
            await self.root.record_turn(_messages(turn_no))

    async def compact(self, branch: Branch) -> int:
        return await compact_all(self._pool, branch.branch_uuid)

    async def report(self) -> str:
        """The turn with the report; its handle."""
        messages = [
            {"role": "user", "content": "Run the pressure test."},
            *exchange("t9", REPORT, "pressure_test"),
            {"role": "assistant", "content": "All 1,000 tests held."},
        ]
        turn = await self.root.record_turn(messages)
        assert turn.turn_no == 9 and turn.messages[2].artifact is not None
        return turn.messages[2].artifact

    async def child(self) -> Branch:
        """Forked at the report, and gone on for five turns."""
        child = await self.root.fork("child")
        for turn_no in range(10, 15):
            await child.record_turn(_messages(turn_no))
        return child


def _messages(turn_no: int) -> list[dict[str, Any]]:
    if turn_no != 3:
        return chat(*SAID[turn_no])
    answer = {"role": "assistant", "content": "There are 120 shelves."}
    return [
        {"role": "user", "content": "What gaskets do we have in store?"},
        *exchange("t3", INVENTORY, "list_inventory"),
        answer,
    ]


@pytest.fixture
async def flow(client: ContextClient, pool: Pool) -> Flow:
    return Flow(await client.open_branch("pump house"), pool)


async def _prompt(branch: Branch, asked: str = ASKED) -> PreparedContext:
    prepared = await branch.prepare(asked, budget=AMPLE)
    assert prepared
    check_prompt(prepared, (await branch.inspect()).head_turn, branch.policy)
    return prepared


async def test_up_to_seven_turns_are_raw_and_nothing_is_compacted(flow: Flow):
    await flow.first_turns(7)
    assert await flow.compact(flow.root) == 0
    prepared = await _prompt(flow.root)
    assert raw_turns(prepared) == [1, 2, 3, 4, 5, 6, 7]
    assert INVENTORY in [message["content"] for message in prepared.messages]


async def test_after_turn_8_turns_1_to_6_are_summary_and_checkpoint_and_7_and_8_stay_raw(
    flow: Flow,
):
    await flow.first_turns(8)
    assert await flow.compact(flow.root) == 1
    [summary] = await flow.root.summaries()
    assert (summary.level, summary.from_turn, summary.to_turn) == (0, 1, 6)
    [checkpoint] = await flow.root.checkpoints()
    assert (checkpoint.turn_no, checkpoint.parent_id) == (6, None)
    assert checkpoint.frontier == (summary.summary_id,)
    inventory = (await flow.root.turns(3, 3))[0].messages[2].artifact
    assert checkpoint.artifact_handles == (inventory,)
    assert checkpoint.schema_version == 1
    assert checkpoint.token_usage
    assert "12,500 EUR" in checkpoint.text
    state = await flow.root.inspect()
    assert (state.branch_id, state.lag.turns) == ("main", 0)
    assert [turn.turn_no for turn in state.tail] == [7, 8]
    turns = await flow.root.turns()
    assert [turn.messages[0].content for turn in turns if turn.turn_no != 3] == [
        SAID[turn_no][0] for turn_no in (1, 2, 4, 5, 6, 7, 8)
    ]


async def test_the_next_prompt_is_the_checkpoint_the_two_raw_turns_what_is_relevant_and_the_message(
    flow: Flow,
):
    await flow.first_turns(8)
    await flow.compact(flow.root)
    prepared = await _prompt(flow.root)
    checkpoint, *rest, user = prepared.manifest.blocks
    assert (checkpoint.kind, checkpoint.from_turn, checkpoint.to_turn) == ("checkpoint", 1, 6)
    [stored] = await flow.root.checkpoints()
    assert checkpoint.source_ids[0] == str(stored.checkpoint_id)
    assert [block.kind for block in rest[:2]] == ["raw", "raw"]
    assert raw_turns(prepared) == [7, 8]
    retrieved = [block for block in rest if block.kind == "retrieved"]
    assert 1 <= len(retrieved) <= 3 and rest[2:] == retrieved
    assert user.kind == "user" and prepared.messages[-1]["content"] == ASKED
    said = [message["content"] for message in prepared.messages]
    assert said[0] == stored.text
    assert said[1:5] == [*SAID[7], *SAID[8]]
    assert any("GK-204" in text for text in said[5:-1])
    assert len(json.dumps(said[5:-1])) < len(INVENTORY)


async def test_a_30_kb_report_is_an_artifact_and_a_pointer(flow: Flow, connection: Connection):
    await flow.first_turns(8)
    await flow.compact(flow.root)
    handle = await flow.report()
    assert 29_000 < len(REPORT) < 31_500
    rows = await connection.fetch("select t::text from durable_context.turns t where turn_no = 9")
    assert handle in rows[0][0] and "test 500:" not in rows[0][0] and len(rows[0][0]) < 6_000
    assert (await flow.root.load_artifact(handle)).content == REPORT
    prepared = await _prompt(flow.root, "Did all of them hold?")
    assert raw_turns(prepared) == [8, 9]
    chosen = [kind for kind in kinds(prepared) if kind in ("ledger", "retrieved")]
    assert prepared.messages[-2 - len(chosen)]["role"] == "assistant"
    assert "test 500:" not in json.dumps(prepared.messages)


async def test_the_report_has_a_summary_and_is_retrieved_after_it_was_compacted(flow: Flow):
    await flow.first_turns(8)
    await flow.compact(flow.root)
    handle = await flow.report()
    for turn_no in range(10, 15):
        await flow.root.record_turn(_messages(turn_no))
    assert await flow.compact(flow.root) == 1
    [_, report] = await flow.root.artifacts()
    assert report.handle == handle and report.headline and report.summary
    assert len(report.summary) < len(REPORT) / 10
    checkpoint = (await flow.root.checkpoints())[-1]
    assert checkpoint.turn_no == 12 and checkpoint.artifact_handles == (handle,)
    prepared = await _prompt(flow.root, "What did pump 7 hold in test 500 of the report?")
    assert _retrieves(prepared, handle, "3500 kPa")


def _retrieves(prepared: PreparedContext, handle: str, text: str) -> bool:
    sources = [b.source_ids for b in prepared.manifest.blocks if b.kind == "retrieved"]
    return (handle,) in sources and text in json.dumps(prepared.messages[:-1])


async def test_the_child_reads_the_checkpoint_and_writes_its_own(
    flow: Flow, connection: Connection
):
    await flow.first_turns(8)
    await flow.compact(flow.root)
    handle = await flow.report()
    child = await flow.root.fork("child")
    first = await _prompt(child)
    assert first.messages == (await _prompt(flow.root)).messages
    [c1] = await flow.root.checkpoints()
    assert first.manifest.blocks[0].source_ids[0] == str(c1.checkpoint_id)
    before = await _rows(connection, flow.root.branch_uuid)
    for turn_no in range(10, 15):
        await child.record_turn(_messages(turn_no))
    assert await flow.compact(child) == 1
    assert await _rows(connection, flow.root.branch_uuid) == before
    own = await child.checkpoints()
    assert [(one.turn_no, one.parent_id) for one in own] == [(6, None), (12, c1.checkpoint_id)]
    [s1, of_child] = await child.summaries()
    assert (of_child.from_turn, of_child.to_turn) == (7, 12)
    assert own[-1].frontier == (s1.summary_id, of_child.summary_id)
    assert own[-1].artifact_handles == (handle,)
    assert [one.summary is not None for one in await child.artifacts()] == [True, True]
    assert await flow.root.checkpoints() == (c1,)
    assert await flow.root.summaries() == (s1,)
    assert len(await flow.root.turns()) == 9
    assert "GK-999" not in json.dumps((await _prompt(flow.root)).messages)


async def test_the_child_retrieves_the_report_it_inherited(flow: Flow):
    """Its own compaction made it retrievable: the parent never went on."""
    await flow.first_turns(8)
    await flow.compact(flow.root)
    handle = await flow.report()
    child = await flow.child()
    assert await flow.compact(child) == 1
    prepared = await _prompt(child, "What did pump 7 hold in test 500 of the report?")
    assert _retrieves(prepared, handle, "3500 kPa")


async def test_artifacts_of_the_child_are_the_childs(flow: Flow):
    await flow.first_turns(8)
    await flow.compact(flow.root)
    inherited = await flow.report()
    child = await flow.child()
    plan = await child.put_artifact("Swap the gaskets, then test.", name="plan")
    await flow.compact(child)
    assert [one.handle for one in await child.artifacts()][1:] == [inherited, plan.handle]
    assert plan.handle not in [one.handle for one in await flow.root.artifacts()]
    with pytest.raises(ArtifactNotFound):
        await flow.root.load_artifact(plan.handle)


async def test_the_next_day_another_process_resumes_the_child(flow: Flow, database_url: str):
    await flow.first_turns(8)
    await flow.compact(flow.root)
    await flow.report()
    child = await flow.child()
    await flow.compact(child)
    asked = "Does GK-999 cost more than GK-204 for the pump house?"
    here = await _prompt(child, asked)
    prepared = await _in_another_process(database_url, asked)
    assert prepared.model_dump_json() == here.model_dump_json()
    newest = (await child.checkpoints())[-1]
    blocks = prepared.manifest.blocks
    assert blocks[0].source_ids[0] == str(newest.checkpoint_id)
    assert kinds(prepared)[:3] == ["checkpoint", "raw", "raw"]
    assert raw_turns(prepared) == [13, 14]
    assert [m["content"] for m in prepared.messages[1:5]] == [*SAID[13], *SAID[14]]
    retrieved = [(b.from_turn, b.to_turn) for b in blocks if b.kind == "retrieved"]
    assert (1, 12) in retrieved and len(retrieved) <= 3  # two leaves, side by side


async def _in_another_process(database_url: str, asked: str) -> PreparedContext:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", RESUME, database_url, asked),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    return PreparedContext.model_validate_json(output)


async def _rows(connection: Connection, branch_uuid: UUID) -> list[tuple[str, str]]:
    return sorted((row[0], row[1]) for row in await connection.fetch(ROWS, branch_uuid))
