"""`durable-context verify`, run as users do."""

from durable_context import Branch
from tests.cli.running import Run
from tests.verification.conftest import Damage

SPOILED = (
    "update durable_context.summaries set text = 'SECRET' where branch_uuid = $1 and level = 0"
)


async def test_what_is_whole_ends_with_0(durable_context: Run, branch: Branch):
    shown = await durable_context("verify")
    assert shown.code == 0, shown.errors
    assert "Looked at 2 branches, 19 turns" in shown.out and "Nothing is damaged." in shown.out


async def test_damage_ends_with_1_and_names_the_place(
    durable_context: Run,
    branch: Branch,
    damage: Damage,
):
    await damage(SPOILED + " and from_turn = 3", branch)
    shown = await durable_context("verify", "harbour")
    assert shown.code == 1 and shown.errors == ""
    assert "harbour main turns 3-4: node hash: expected the headline and text of its" in shown.out
    assert "2 damaged, 0 left over or stuck; 2 new." in shown.out
    assert "SECRET" not in shown.out
    other = await durable_context("verify", "harbour", "--branch", "child", "--json")
    assert other.code == 0 and other.figures["branches"] == 1
    again = await durable_context("verify", "harbour", "--branch", "main", "--json")
    assert again.code == 1
    assert (again.figures["found"], again.figures["told"]) == (2, 0)
    assert {(one["check"], one["from_turn"]) for one in again.figures["findings"]} == {
        ("node_hash", 3),
        ("node_input", 1),
    }
    events = await durable_context("events", "harbour")
    lines = [line for line in events.out.splitlines() if "damaged" in line]
    assert len(lines) == 2
    assert "check node_hash · from turn 3 · to turn 4 · ids " in lines[0]


async def test_what_is_left_over_ends_with_1_too(
    durable_context: Run,
    branch: Branch,
    damage: Damage,
):
    await damage(
        "insert into durable_context.pins (tenant, branch_uuid, turn_no) values ('default', $1, 12)"
        " returning 1",
        branch,
    )
    assert (await durable_context("verify")).code == 0
    await damage(
        "update durable_context.pins set turn_no = 99 where branch_uuid = $1 and turn_no = 12",
        branch,
    )
    shown = await durable_context("verify")
    assert shown.code == 1 and "0 damaged, 1 left over or stuck; 1 new." in shown.out


async def test_what_cannot_be_verified_is_told_in_a_line(durable_context: Run):
    unknown = await durable_context("verify", "nowhere")
    assert unknown.code == 1 and "no branch 'main' of conversation 'nowhere'" in unknown.errors
    lone = await durable_context("verify", "--branch", "main")
    assert lone.code == 2 and "--branch needs the conversation" in lone.errors
