"""`durable-context pin` and `unpin`: what stands in every prompt, seen and changed by operators."""

import json

from durable_context import ContextClient
from tests.cli.running import Run
from tests.turns import chat, numbered


async def recorded(client: ContextClient, turns: int = 12):
    branch = await client.open_branch("orders")
    for turn in range(1, turns + 1):
        await branch.record_turn(numbered(turn))
    return branch


async def test_a_turn_is_pinned_listed_and_unpinned(durable_context: Run, client: ContextClient):
    branch = await recorded(client)
    pinned = await durable_context("pin", "orders", "3")
    assert (pinned.code, pinned.out) == (0, "turn 3 is pinned\n")
    assert (await durable_context("pin", "orders", "3")).code == 0
    fact = await durable_context("pin", "orders", "5", "--fact", "SHP-0005")
    assert fact.out == "SHP-0005 of turn 5 is pinned\n"
    listed = await durable_context("pin", "orders", "--iso")
    first, second = listed.out.splitlines()
    [turn, _] = pins = await branch.pins()
    assert first.split()[:2] == ["3", f"{turn.pinned_at:%Y-%m-%dT%H:%M:%SZ}"]
    assert "turn · " in first and "SHP-0003" in first
    assert "identifier · SHP-0005" in second
    as_json = await durable_context("pin", "orders", "--json")
    assert as_json.figures == {"pins": [json.loads(pin.model_dump_json()) for pin in pins]}
    shown = await durable_context("show", "orders", "--message", "hi", "--json")
    kinds = [block["kind"] for block in shown.figures["prompt"]["manifest"]["blocks"]]
    assert kinds[:3] == ["pinned", "pinned", "digest"]
    gone = await durable_context("unpin", "orders", "3")
    assert (gone.code, gone.out) == (0, "turn 3 is not pinned any more\n")
    again = await durable_context("unpin", "orders", "3")
    assert (again.code, again.out) == (1, "")
    assert "turn 3 was not pinned; " in again.errors
    again = await durable_context("unpin", "orders", "5", "--fact", "SHP-0005", "--json")
    assert again.figures == {"turn_no": 5, "fact": "SHP-0005", "was_pinned": True}
    assert (await durable_context("pin", "orders")).out == "nothing is pinned\n"


async def test_json_of_a_pin_says_what_is_pinned(durable_context: Run, client: ContextClient):
    branch = await recorded(client, 2)
    pinned = await durable_context("pin", "orders", "2", "--fact", "SHP-0002", "--json")
    [pin] = await branch.pins()
    assert pinned.figures == {"pin": json.loads(pin.model_dump_json())}


async def test_a_branch_is_pinned_by_name(durable_context: Run, client: ContextClient):
    branch = await recorded(client, 2)
    idea = await branch.fork("idea")
    assert (await durable_context("pin", "orders", "2", "--branch", "idea")).code == 0
    assert len(await idea.pins()) == 1
    assert await branch.pins() == ()
    assert (await durable_context("unpin", "orders", "2", "--branch", "idea")).code == 0


async def test_unpinning_what_is_not_pinned_names_the_pins(
    durable_context: Run, client: ContextClient
):
    branch = await recorded(client, 3)
    none = await durable_context("unpin", "orders", "2")
    assert none.code == 1 and "the branch has no pins" in none.errors
    await branch.pin(1)
    await branch.pin(2, fact="SHP-0002")
    ended = await durable_context("unpin", "orders", "2")
    assert (ended.code, ended.out) == (1, "")
    assert "turn 2 was not pinned; pinned are turn 1, SHP-0002 of turn 2" in ended.errors
    typo = await durable_context("unpin", "orders", "2", "--fact", "SHP-002", "--json")
    assert typo.code == 1 and '"was_pinned":false' in typo.out.replace(" ", "")
    assert len(await branch.pins()) == 2


async def test_what_cannot_be_pinned_ends_with_exit_code_two(
    durable_context: Run, client: ContextClient
):
    await recorded(client, 2)
    for arguments, reason in (
        (("pin", "orders", "7"), "turn_no=7; allowed are 1 to 2"),
        (("pin", "orders", "2", "--fact", "nothing"), "The nearest are"),
        (("pin", "orders", "--fact", "SHP-0002"), "name it, too"),
        (("pin", "orders", "two"), "valid integer"),
        (("unpin", "orders", "2", "--fact", ""), "must be a value"),
    ):
        ended = await durable_context(*arguments)
        assert (ended.code, ended.out) == (2, ""), arguments
        assert reason in ended.errors
    missing = await durable_context("pin", "nobody", "1")
    assert missing.code == 1
    assert "nobody" in missing.errors


async def test_hostile_text_is_listed_as_text(durable_context: Run, client: ContextClient):
    branch = await client.open_branch("orders")
    await branch.record_turn(chat("[red]see\x1b[31m\n\u202eC-7719", "ok"))
    await branch.pin(1)
    listed = await durable_context("pin", "orders")
    assert len(listed.out.splitlines()) == 1
    assert "\x1b" not in listed.out and "\u202e" not in listed.out
