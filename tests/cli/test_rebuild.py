"""`durable-context rebuild`: summaries made anew, with a real worker."""

import asyncio

from temporalio.client import Client

from durable_context import ContextClient
from durable_context.compaction.focus import focused_recipe
from durable_context.database import Pool
from tests.cli.running import Run
from tests.compacting import compact_all
from tests.compaction.told import Told
from tests.default_worker import default_worker
from tests.turns import numbered

FOCUS = "which depot each shipment has left"


async def compacted(client: ContextClient, pool: Pool, turns: int) -> None:
    branch = await client.open_branch("orders")
    for turn in range(1, turns + 1):
        await branch.record_turn(numbered(turn))
    await compact_all(pool, branch.branch_uuid)


async def test_the_summaries_of_some_turns_are_made_anew(
    durable_context: Run, client: ContextClient, temporal: Client, temporal_address: str, pool: Pool
):
    await compacted(client, pool, 14)
    branch = await client.open_branch("orders")
    before = await branch.summaries()
    async with default_worker(temporal, pool):
        ended = await durable_context(
            *("rebuild", "orders", "--from", "7", "--to", "12", "--temporal", temporal_address)
        )
    assert ended.code == 0, ended.errors
    assert ended.out.startswith("made 1 summary anew from ")
    assert ended.out.endswith(" tokens; the newest checkpoint is at turn 12\n")
    assert not ended.errors
    first, second = await branch.summaries()
    assert first == before[0] and second.summary_id != before[1].summary_id
    assert second.revision == 2


async def test_all_of_them_with_a_focus_and_as_json(
    durable_context: Run, client: ContextClient, temporal: Client, temporal_address: str, pool: Pool
):
    await compacted(client, pool, 14)
    async with default_worker(temporal, pool):
        ended = await durable_context(
            *("rebuild", "orders", "--focus", FOCUS, "--json", "--temporal", temporal_address)
        )
    assert ended.code == 0, ended.errors
    figures = ended.figures
    assert (figures["conversation_id"], figures["branch_id"]) == ("orders", "main")
    assert (figures["replaced"], figures["degraded"], figures["left"]) == (2, 0, 0)
    nodes = await (await client.open_branch("orders")).summaries()
    assert {node.recipe for node in nodes} == {focused_recipe("extractive/1", FOCUS)}


async def test_what_cannot_be_made_stays_and_the_command_fails(
    durable_context: Run, client: ContextClient, temporal: Client, temporal_address: str, pool: Pool
):
    await compacted(client, pool, 8)
    branch = await client.open_branch("orders")
    before = await branch.summaries()
    async with default_worker(temporal, pool):
        ended = await durable_context(
            *("rebuild", "orders", "--summarizers", "model:nowhere:it"),
            *("--temporal", temporal_address),
        )
    assert ended.code == 1
    assert "1 could not be made and stay as they were" in ended.out
    assert await branch.summaries() == before


async def test_a_rebuild_that_a_revert_ends_says_so_and_fails(
    durable_context: Run, client: ContextClient, temporal: Client, temporal_address: str, pool: Pool
):
    await compacted(client, pool, 14)
    branch = await client.open_branch("orders")
    told = Told()
    told.gate.clear()

    async def revert() -> None:
        await told.arrived.wait()
        await branch.revert(6)
        told.gate.set()

    async with default_worker(temporal, pool, told):
        ended, _ = await asyncio.gather(
            durable_context("rebuild", "orders", "--temporal", temporal_address), revert()
        )
    assert ended.code == 1
    assert ended.out == (
        "ended, because the branch was reverted meanwhile; the newest checkpoint is at turn 6\n"
    )


async def test_bad_input_is_named_with_what_is_allowed(
    durable_context: Run, client: ContextClient, pool: Pool
):
    await compacted(client, pool, 1)
    for options, said in (
        (("--from", "9", "--to", "3"), "--to 3 comes before --from 9"),
        (("--from", "0"), "greater than or equal to 1"),
        (("--summarizers", "gpt"), "'gpt' is not 'extractive' or 'model:PROVIDER:NAME'"),
        (("--summarizers", "model:openai:a|b"), "'model:openai:a|b' is not 'extractive' or"),
        (("--summarizers", "model:openai:a\n<b>"), "is not 'extractive' or 'model:PROVIDER:NAME'"),
        (("--summarizers", f"model:openai:{'a' * 200}"), "is not 'extractive' or"),
        (("--focus", "x" * 501), "allowed is text of 1 to 500 characters"),
    ):
        ended = await durable_context("rebuild", "orders", *options)
        assert ended.code == 2
        shown = " ".join(ended.errors.replace("│", " ").split())
        assert said in shown, shown


async def test_a_paused_branch_and_an_unknown_one_fail_in_a_line(
    durable_context: Run, client: ContextClient, temporal_address: str, pool: Pool
):
    await compacted(client, pool, 1)
    at = ("--temporal", temporal_address)
    ended = await durable_context("rebuild", "nobody", *at)
    assert (ended.code, ended.errors.count("\n")) == (1, 1)
    await (await client.open_branch("orders")).pause("the model is being changed")
    ended = await durable_context("rebuild", "orders", *at)
    assert (ended.code, ended.errors.count("\n")) == (1, 1)
    assert "is paused since" in ended.errors


async def test_without_temporal_it_fails_in_a_line(
    durable_context: Run, client: ContextClient, pool: Pool
):
    await compacted(client, pool, 8)
    ended = await durable_context("rebuild", "orders", "--temporal", "127.0.0.1:1")
    assert (ended.code, ended.out) == (1, "")
    assert ended.errors.startswith("durable-context: Temporal could not be asked")
    assert ended.errors.count("\n") == 1


async def test_a_dry_run_counts_summaries_and_tokens_and_makes_nothing(
    durable_context: Run, client: ContextClient, pool: Pool
):
    await compacted(client, pool, 26)
    branch = await client.open_branch("orders")
    before = await branch.summaries()
    ended = await durable_context("rebuild", "orders", "--from", "7", "--to", "14", "--dry-run")
    of_these = [node for node in before if node.to_turn >= 7 and node.from_turn <= 14]
    tokens = sum(node.input_tokens for node in of_these)
    assert ended.code == 0, ended.errors
    assert ended.out == (
        f"would make {len(of_these)} summaries anew from about {tokens:,} tokens;"
        " the newest checkpoint is at turn 24\n"
    )
    as_json = await durable_context("rebuild", "orders", "--dry-run", "--json")
    assert (as_json.figures["nodes"], as_json.figures["dry_run"]) == (len(before), True)
    assert await branch.summaries() == before
