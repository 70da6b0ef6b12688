"""`durable-context replay`: what it records, prints and refuses."""

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import asyncpg
from rich.console import Console

from durable_context import ContextClient
from durable_context.cli.replay import replay_conversation
from durable_context.cli.replay_model import ReplayedTurn, ReplayOptions
from durable_context.cli.replay_view import turn_table
from durable_context.prompts.manifest import Block
from durable_context.transcripts import read_transcripts
from tests.cli.conversations import run_of_tools, talk
from tests.cli.running import Run

Write = Callable[..., Path]
OFFLINE = ("--temporal", "none")


async def test_every_turn_is_a_row_and_the_last_line_of_json_sums_them_up(
    durable_context: Run, written: Write, client: ContextClient
):
    file = written(talk(5))
    shown = await durable_context("replay", file, *OFFLINE)
    assert shown.code == 0, shown.errors
    rows = [line.split() for line in shown.out.splitlines()]
    assert ["turn", "raw", "prompt", "blocks", "ms", "comp."] in rows
    assert ["raw", "1–4"] in [row[3:5] for row in rows]
    assert "0 compactions, 0 failed.\n" in shown.out
    assert shown.out.splitlines()[-1] == "Look at: durable-context show talk"

    ended = await durable_context(
        "replay", file, *OFFLINE, "--conversation", "again-", "--budget", "900", "--json"
    )
    assert ended.code == 0, ended.errors
    assert len(ended.out.splitlines()) == 1
    turns = await (await client.find_branch("again-talk")).turns()
    figures = ended.figures
    assert figures["conversations"] == 1
    assert figures["turns"] == len(turns) == 5
    assert figures["raw_tokens"] == sum(turn.token_count for turn in turns)
    assert 0 < figures["prompt_tokens_max"] <= 900
    assert figures["prepare_ms"]["p50"] <= figures["prepare_ms"]["p99"]
    assert figures["over_budget"] == figures["compactions"] == figures["failed"] == 0
    assert figures["history_events"] == {"p50": None, "max": None}


async def test_a_conversation_that_the_assistant_begins_is_replayed(
    durable_context: Run, written: Write
):
    file = written([{"role": "assistant", "content": "Welcome!"}, *talk(2)])
    ended = await durable_context("replay", file, *OFFLINE, "--json")
    assert ended.code == 0, ended.errors
    assert ended.figures["turns"] == 3


async def test_replaying_again_records_nothing_twice(
    durable_context: Run, written: Write, client: ContextClient
):
    file = written(talk(4))
    first = await durable_context("replay", file, *OFFLINE, "--json", "--limit", "3")
    again = await durable_context("replay", file, *OFFLINE, "--json")
    assert (first.figures["turns"], first.figures["repeated"]) == (3, 0)
    assert (again.figures["turns"], again.figures["repeated"]) == (4, 3)
    third = await durable_context("replay", file, *OFFLINE, "--json")
    assert third.figures["repeated"] == 4
    assert third.figures["prepare_ms"]["p50"] is None, "old turns have no prompt of today"
    assert len(await (await client.find_branch("talk")).turns()) == 4


async def test_another_file_under_the_same_id_is_refused_and_changes_nothing(
    durable_context: Run, written: Write, client: ContextClient
):
    await durable_context("replay", written(talk(3)), *OFFLINE)
    other = await durable_context("replay", written(talk(4, words=7)), *OFFLINE)
    assert other.code == 1
    assert "'replay-1' was used for turn 1 with other content" in other.errors
    assert "choose another --conversation prefix" in other.errors
    assert len(await (await client.find_branch("talk")).turns()) == 3


async def test_turns_that_no_replay_recorded_are_never_added_to(
    durable_context: Run, written: Write, client: ContextClient
):
    branch = await client.open_branch("talk")
    await branch.record_turn(talk(1), turn_key="live-1")
    ended = await durable_context("replay", written(talk(2)), *OFFLINE)
    assert ended.code == 1
    assert "'talk' was recorded under the key 'live-1'" in ended.errors
    assert len(await branch.turns()) == 1


async def test_long_runs_are_recorded_in_stretches(
    durable_context: Run, written: Write, client: ContextClient
):
    file = written(run_of_tools(5))
    ended = await durable_context("replay", file, *OFFLINE, "--stretch", "2", "--json")
    assert ended.figures["turns"] == 3
    turns = await (await client.find_branch("talk")).turns()
    assert [turn.continues for turn in turns] == [True, True, False]
    assert [len(turn.messages) for turn in turns] == [5, 4, 3]


async def test_an_interrupted_run_is_recorded_as_such(
    durable_context: Run, written: Write, client: ContextClient
):
    file = written(run_of_tools(2)[:-2])
    ended = await durable_context("replay", file, *OFFLINE)
    assert ended.code == 0, ended.errors
    (turn,) = await (await client.find_branch("talk")).turns()
    assert turn.outcome == "interrupted"
    assert turn.messages[-1].synthetic


async def test_many_conversations_are_a_row_each(
    durable_context: Run, written: Write, client: ContextClient
):
    file = written([{"id": "one", "messages": talk(2)}, {"id": "two", "messages": talk(3)}])
    ended = await durable_context("replay", file, *OFFLINE)
    rows = [line.split() for line in ended.out.splitlines() if line.startswith(("one", "two"))]
    assert [(row[0], row[1]) for row in rows] == [("one", "2"), ("two", "3")]
    assert [row[4] for row in rows] == ["0", "0"], "of none over budget too"
    assert "5 turns of 2 conversations" in ended.out
    assert len(await (await client.find_branch("two")).turns()) == 3


async def test_a_budget_nothing_fits_is_counted_and_the_turns_are_recorded(
    durable_context: Run, written: Write
):
    file = written([{"role": "system", "content": "Be brief. " * 40}, *talk(2)])
    shown = await durable_context("replay", file, *OFFLINE, "--budget", "60")
    assert shown.code == 0, shown.errors
    assert "of 60 tokens" in shown.out
    ended = await durable_context(
        "replay", file, *OFFLINE, "--budget", "60", "--conversation", "again-", "--json"
    )
    assert ended.figures["over_budget"] == ended.figures["turns"] == 2
    assert ended.figures["prompt_tokens_max"] == 0


async def test_both_formats_of_a_conversation_are_recorded_alike(
    durable_context: Run, written: Write, connection: "asyncpg.Connection[asyncpg.Record]"
):
    openai = [{"role": "system", "content": "Be brief."}, *run_of_tools(1)]
    use = {"type": "tool_use", "id": "call_0", "name": "bash", "input": {"command": "make"}}
    answer = {"type": "tool_result", "tool_use_id": "call_0", "content": "error 0"}
    anthropic = {
        "system": "Be brief.",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Fix the failing build."}]},
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [answer]},
            {"role": "assistant", "content": [{"type": "text", "text": "Fixed."}]},
        ],
    }
    for name, value in (("openai.json", openai), ("anthropic.json", anthropic)):
        ended = await durable_context("replay", written(value, name), *OFFLINE)
        assert ended.code == 0, ended.errors
    hashes = await connection.fetch("select content_hash from durable_context.turns")
    assert len(hashes) == 2
    assert hashes[0] == hashes[1]


async def test_a_young_branch_is_prompted_with_all_it_has(client: ContextClient, written: Write):
    """The plot's two lines start as one: the figures count the same things."""
    file = written([{"role": "system", "content": "Be brief."}, *talk(6)])
    (transcript,) = read_transcripts(file)
    options = ReplayOptions(budget=32_000, pace=None)
    rows = [row async for row in replay_conversation(client, transcript, options)]
    assert [row.turn_no for row in rows] == [1, 2, 3, 4, 5, 6]
    assert [row.prompt_tokens for row in rows] == [row.whole_tokens for row in rows]


async def test_a_row_of_many_blocks_has_two_lines_of_80_columns_at_most():
    blocks = [
        Block(kind=kind, token_count=99, from_turn=first, to_turn=last)
        for kind, first, last in (
            ("instructions", None, None),
            ("checkpoint", 1, 112),
            ("digest", 113, 114),
            ("raw", 115, 116),
            ("retrieved", 8, 13),
            ("retrieved", 30, 36),
            ("task", 90, 90),
            ("user", None, None),
        )
    ]
    turn = ReplayedTurn(
        conversation_id="talk",
        turn_no=117,
        tokens=900,
        raw_tokens=118_000,
        prompt_tokens=31_000,
        blocks=tuple(blocks),
        prepare_ms=123.4,
        compactions=18,
    )
    stream = StringIO()
    out = Console(file=stream, width=80)
    out.print(turn_table([turn]))
    printed = stream.getvalue()
    assert "cp 1–112 · dg 113–114 · raw 115–116" in " ".join(printed.split())
    assert "ret 2" in printed
    assert len(printed.splitlines()) <= 3


async def test_a_message_per_line_is_one_conversation(durable_context: Run, tmp_path: Path):
    file = tmp_path / "lines.jsonl"
    file.write_text("\n".join(map(json.dumps, talk(2))))
    ended = await durable_context("replay", file, *OFFLINE, "--json")
    assert ended.figures["conversations"] == 1
    assert ended.figures["turns"] == 2
