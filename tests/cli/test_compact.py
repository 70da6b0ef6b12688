"""`durable-context compact`: what is due, with a focus or without, with a real worker."""

from temporalio.client import Client

from durable_context import ContextClient
from durable_context.compaction.focus import focused_recipe
from durable_context.database import Pool
from tests.cli.running import Run
from tests.default_worker import default_worker
from tests.turns import numbered

FOCUS = "which depot each shipment has left"


async def record(client: ContextClient, turns: int) -> None:
    branch = await client.open_branch("orders")
    for turn in range(1, turns + 1):
        await branch.record_turn(numbered(turn))


async def test_what_is_due_is_compacted(
    durable_context: Run, client: ContextClient, temporal: Client, temporal_address: str, pool: Pool
):
    at = ("--temporal", temporal_address)
    await record(client, 14)
    async with default_worker(temporal, pool):
        ended = await durable_context("compact", "orders", *at)
        assert ended.code == 0, ended.errors
        said = "compacted in 2 passes by extractive/1; the newest checkpoint is at turn 12\n"
        assert (ended.out, ended.errors) == (said, "")
        again = await durable_context("compact", "orders", *at)
        assert again.out == "nothing is due; the newest checkpoint is at turn 12\n"
        focused = await durable_context("compact", "orders", "--focus", FOCUS, *at)
        assert focused.code == 0
        assert "Nothing was made with this focus: `durable-context rebuild --focus`" in focused.out


async def test_with_a_focus_it_is_in_the_recipe(
    durable_context: Run, client: ContextClient, temporal: Client, temporal_address: str, pool: Pool
):
    await record(client, 8)
    async with default_worker(temporal, pool):
        ended = await durable_context(
            *("compact", "orders", "--focus", FOCUS, "--json", "--temporal", temporal_address)
        )
    assert ended.code == 0, ended.errors
    figures = ended.figures
    assert (figures["conversation_id"], figures["branch_id"]) == ("orders", "main")
    assert (figures["passes"], figures["checkpoint_turn"]) == (1, 6)
    assert figures["recipe"] == focused_recipe("extractive/1", FOCUS)


async def test_a_focus_that_is_none_is_bad_input(durable_context: Run, client: ContextClient):
    await record(client, 1)
    for focus in ("", "x" * 501):
        ended = await durable_context("compact", "orders", "--focus", focus)
        assert ended.code == 2
        assert "allowed is text of 1 to 500 characters" in " ".join(ended.errors.split())


async def test_without_temporal_or_in_too_short_a_time_it_fails_in_a_line(
    durable_context: Run, client: ContextClient, temporal_address: str
):
    await record(client, 8)
    ended = await durable_context("compact", "orders", "--temporal", "127.0.0.1:1")
    assert (ended.code, ended.out) == (1, "")
    assert ended.errors.startswith("durable-context: Temporal could not be asked")
    assert ended.errors.count("\n") == 1
    late = await durable_context(
        "compact", "orders", "--timeout", "0.2", "--temporal", temporal_address
    )
    assert (late.code, late.errors.count("\n")) == (1, 1), "no worker runs"
    assert "did not finish in time" in late.errors or "within" in late.errors
