"""`durable-context show`: a branch and its next prompt, as they are."""

import json
from io import StringIO

import asyncpg
import pytest
from rich.console import Console
from rich.text import Text

from durable_context import Branch, Budget, ContextClient, PreparedContext
from durable_context.cli.output import Line
from durable_context.database import Pool
from tests.cli.conversations import talk
from tests.cli.running import Run, run_process
from tests.compacting import compact_all

HOSTILE = "[bold]\x1b]0;title\x07 \ud800 \u202e<conversation_record>"


@pytest.fixture
async def compacted(client: ContextClient, pool: Pool) -> Branch:
    """A branch of 27 turns, 24 of them in a tree of one merged node."""
    branch = await client.open_branch("orders")
    messages = talk(27)
    for turn in range(27):
        await branch.record_turn(messages[2 * turn : 2 * turn + 2])
    await compact_all(pool, branch.branch_uuid)
    return branch


async def test_the_tree_the_tail_and_the_compactions_are_shown(
    durable_context: Run, compacted: Branch
):
    ended = await durable_context("show", "orders")
    assert ended.code == 0, ended.errors
    assert "orders / main: 27 turns" in ended.out
    assert "frontier: 1 node covers turns 1–24" in ended.out
    nodes = [line for line in ended.out.splitlines() if "· level " in line]
    assert ["level 1" in line for line in nodes] == [True, False, False, False, False]
    assert "checkpoints: 4, newest last" in ended.out
    assert "lag 1 turn, " in ended.out
    assert "; nothing due until a segment of 6 turns or 6,000 tokens is full" in ended.out
    assert (await durable_context("show", "orders", "--branch", "main")).out.startswith("orders /")
    tail = ended.out.split("tail: turns after the checkpoint\n")[1].splitlines()[:3]
    assert [line.split()[0] for line in tail] == ["25", "26", "27"]
    assert ended.out.count("completed") == 4


async def test_json_holds_the_branch_with_all_nodes_and_checkpoints(
    durable_context: Run, compacted: Branch
):
    ended = await durable_context("show", "orders", "--json")
    shown = ended.figures
    assert shown["branch_uuid"] == str(compacted.branch_uuid)
    assert [(node["from_turn"], node["to_turn"]) for node in shown["frontier"]] == [(1, 24)]
    assert len(shown["summaries"]) == 5
    assert [checkpoint["turn_no"] for checkpoint in shown["checkpoints"]] == [6, 12, 18, 24]
    assert [turn["turn_no"] for turn in shown["tail"]] == [25, 26, 27]
    assert shown["lag"]["turns"] == 1


async def test_the_prompt_is_exactly_the_next_one(durable_context: Run, compacted: Branch):
    question = "Was order A-3 shipped?"
    prepared = await compacted.prepare(question, budget=Budget(max_tokens=5_000))
    assert isinstance(prepared, PreparedContext)
    arguments = ("show", "orders", "--message", question, "--budget", "5000")

    as_json = (await durable_context(*arguments, "--json")).figures["prompt"]
    assert as_json["messages"] == json.loads(json.dumps(prepared.messages))
    assert as_json["token_count"] == prepared.token_count

    shown = (await durable_context(*arguments)).out
    assert f"prompt of {prepared.token_count:,} of 5,000 tokens" in shown
    for message in prepared.messages:
        assert message["content"].strip() in shown


async def test_a_fork_shows_its_lineage_and_what_it_inherited(
    durable_context: Run, compacted: Branch, pool: Pool
):
    fork = await compacted.fork("idea", at_turn=20)
    for number in range(21, 30):
        await fork.record_turn([{"role": "user", "content": f"And order B-{number}?"}])
    await compact_all(pool, fork.branch_uuid)
    shown = (await durable_context("show", "orders", "idea")).out
    assert "lineage: idea turns 21–29 ← main turns 1–20" in shown
    rows = [line.split() for line in shown.split("newest last")[1].splitlines()[2:6]]
    assert [(row[0], row[-1]) for row in rows] == [
        ("6", "inherited"),
        ("12", "inherited"),
        ("18", "inherited"),
        ("24", "branch"),
    ]
    parent = (await durable_context("show", "orders")).out
    assert "lineage" not in parent
    assert "inherited" not in parent

    as_json = (await durable_context("show", "orders", "idea", "--json")).figures
    assert [one["branch_id"] for one in as_json["lineage"]] == ["idea", "main"]
    ids = [one["checkpoint_id"] for one in as_json["checkpoints"]]
    assert sorted(ids[:3]) == as_json["inherited_checkpoints"]


async def test_json_is_what_inspect_returns_and_more(durable_context: Run, compacted: Branch):
    await compacted.put_artifact("a,b\n1,2", name="table.csv", media_type="text/csv")
    shown = (await durable_context("show", "orders", "--json")).figures
    inspected = json.loads((await compacted.inspect()).to_json())
    for name in inspected.keys() - {"checkpoints", "lag"}:
        assert shown[name] == inspected[name], name
    assert [one["checkpoint_id"] for one in shown["checkpoints"]] == inspected["checkpoints"]


async def test_the_newest_artifacts_are_listed(durable_context: Run, client: ContextClient):
    branch = await client.open_branch("orders")
    for number in range(12):
        await branch.put_artifact(f"line\n{number}", name=f"report-{number}")
    newest = await branch.put_artifact("[red]\x1b[31m", name="[red]report\x1b")
    shown = (await durable_context("show", "orders")).out
    assert "artifacts: newest 10 of 13, newest last" in shown
    rows = [line.split() for line in shown.splitlines() if line.startswith("art_")]
    assert [row[1] for row in rows] == [f"report-{n}" for n in range(3, 12)] + [r"[red]report\x1b"]
    assert rows[-1] == [newest.handle, r"[red]report\x1b", "v1", "text/plain", "10", "0"]


async def test_the_prompt_of_an_earlier_turn_is_that_of_a_fork_there(
    durable_context: Run, compacted: Branch
):
    question = "Was order A-3 shipped?"
    arguments = ("show", "orders", "--at-turn", "15", "--message", question, "--budget", "5000")
    prompt = (await durable_context(*arguments, "--json")).figures["prompt"]
    assert prompt["manifest"]["head_turn"] == 15
    assert "stable, made at turn 15\n" in (await durable_context(*arguments)).out
    fork = await compacted.fork("then", at_turn=15)
    prepared = await fork.prepare(question, budget=Budget(max_tokens=5_000))
    assert isinstance(prepared, PreparedContext)
    assert prompt["messages"] == list(prepared.messages)

    beyond = await durable_context("show", "orders", "--at-turn", "28", "--prompt")
    assert beyond.code == 2
    assert "at_turn=28; allowed are 0 to 27" in beyond.errors
    assert "--message" not in beyond.errors


async def test_a_prompt_that_cannot_be_made_is_exit_code_1(durable_context: Run, compacted: Branch):
    arguments = ("show", "orders", "--message", "Where is it?", "--budget", "20")
    shown = await durable_context(*arguments)
    assert shown.code == 1
    assert "No prompt fits: the smallest has" in shown.out
    as_json = await durable_context(*arguments, "--json")
    assert as_json.figures["budget_exceeded"]["limit"] == 20


async def test_a_prompt_of_nothing_asks_for_the_message(
    durable_context: Run, client: ContextClient
):
    await client.open_branch("new")
    ended = await durable_context("show", "new", "--prompt")
    assert ended.code == 2
    assert "(--message TEXT)" in ended.errors


async def test_a_full_segment_is_due(durable_context: Run, client: ContextClient):
    branch = await client.open_branch("late")
    messages = talk(8)
    for turn in range(8):
        await branch.record_turn(messages[2 * turn : 2 * turn + 2])
    ended = await durable_context("show", "late")
    assert "lag 6 turns, " in ended.out
    assert "s; a segment is due" in ended.out


@pytest.mark.parametrize("width", range(4, 20))
def test_a_cut_line_never_ends_in_two_ellipses(width: int):
    stream = StringIO()
    out = Console(file=stream, width=width)
    out.print(Line(Text("turns 1… and … more…")))
    (printed,) = stream.getvalue().splitlines()
    assert "……" not in printed.replace(" ", "")
    assert printed.endswith("…")
    assert len(printed) <= width


async def test_an_unknown_conversation_is_an_error_and_is_not_made(
    durable_context: Run,
    compacted: Branch,
    connection: "asyncpg.Connection[asyncpg.Record]",
):
    for arguments in (("nowhere",), ("orders", "other"), ("orders", "--tenant", "other")):
        ended = await durable_context("show", *arguments)
        assert ended.code == 1
        assert "no branch" in ended.errors
        assert ended.errors.count("\n") == 1
    assert await connection.fetchval("select count(*) from durable_context.branches") == 1


async def test_showing_changes_nothing(
    durable_context: Run,
    compacted: Branch,
    connection: "asyncpg.Connection[asyncpg.Record]",
):
    counted = (
        "select n_tup_ins + n_tup_upd + n_tup_del from pg_stat_user_tables"
        " where schemaname = 'durable_context' order by relname"
    )
    await connection.execute("select pg_stat_force_next_flush()")
    before = await connection.fetch(counted)
    await durable_context("show", "orders", "--message", "Where is it?")
    assert await connection.fetch(counted) == before


async def test_text_of_others_is_shown_as_it_is_on_any_terminal(
    durable_context: Run, client: ContextClient, database_url: str
):
    branch = await client.open_branch("hostile")
    call = {"id": "c", "type": "function", "function": {"name": "run", "arguments": HOSTILE}}
    await branch.record_turn(
        [
            {"role": "user", "content": HOSTILE},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": HOSTILE},
        ]
    )
    shown = await run_process(
        ["-m", "durable_context.cli", "show", "hostile", "--prompt"],
        {"DURABLE_CONTEXT_DATABASE_URL": database_url, "PYTHONIOENCODING": "ascii"},
    )
    assert shown.code == 0, shown.errors
    assert "[bold]\\x1b]0;title\\x07" in shown.out
    assert "\x1b" not in shown.out
    as_json = await durable_context("show", "hostile", "--json")
    assert as_json.figures["tail"][0]["messages"][0]["content"] == HOSTILE
