"""`durable-context status` and `durable-context compactions`."""

import re

from durable_context import ContextClient
from durable_context.compaction.worth import note_skipped_node
from durable_context.contracts import NodeRange
from durable_context.database import Pool
from tests.cli.running import Run
from tests.compacting import compact_all
from tests.compaction.scripted import ScriptedSummarizer
from tests.compaction.test_compactor import Steps, record
from tests.control.test_status import failed


async def talks(client: ContextClient, pool: Pool) -> None:
    """One that is behind and failed, one that was compacted by a model, a short one."""
    broken = await client.open_branch("[red]broken\x1b[31m")
    await record(broken, 20)
    await failed(pool, broken, "no [bold]quota\x1b[1m\nleft")
    orders = await client.open_branch("orders")
    await record(orders, 8)
    await Steps(pool, orders, ScriptedSummarizer(recipe="model/openai:gpt-4o-mini/1")).all()
    await record(orders, 4)
    short = await client.open_branch("short")
    await record(short, 1)
    await short.pause("a trial")


async def test_status_shows_branches_and_totals(
    durable_context: Run, client: ContextClient, pool: Pool
) -> None:
    await talks(client, pool)
    shown = await durable_context("status", "--iso")
    assert shown.code == 0, shown.errors
    totals, blank, title, heads, *rows = shown.out.splitlines()
    assert totals.startswith("3 branches, 33 turns · 1 behind (about 22 turns and ")
    assert " · 0 running · 1 failed · 1 paused · balance " in totals
    assert totals.endswith(" tokens for <$0.0001") and not blank
    assert title.rstrip() == "furthest behind first"
    assert heads.split() == ["branch", "head", "checkpoint", "lag", "balance", "state"]
    assert r"[red]broken\x1b[31m / main" in rows[0]
    assert re.search(r" 20 +0 +18, [\d,]+ tokens, \d+ s +0 +failed \d{4}-\d\d-\d\dT", rows[0])
    assert "\x1b" not in shown.out
    assert r"no [bold]quota\x1b[1m left" in " ".join(shown.out.split())
    [orders] = [row for row in rows if row.startswith("orders / main")]
    assert re.search(r" 12 +6 +4, [\d,]+ tokens, \d+ s +[+-][\d,]+", orders)
    [short] = [row for row in rows if row.startswith("short / main")]
    assert re.search(r" 1 +0 +- +0 +paused since ", short)


async def test_status_picks_those_that_are_asked_for(
    durable_context: Run, client: ContextClient, pool: Pool
) -> None:
    await talks(client, pool)
    broken = "[red]broken\x1b[31m"
    for option, names in {
        "--behind": [broken],
        "--failed": [broken],
        "--paused": ["short"],
        "--running": [],
    }.items():
        shown = (await durable_context("status", option, "--json")).figures
        assert [one["conversation_id"] for one in shown["branches"]] == names
        assert shown["totals"]["branches"] == 3
    [one] = (await durable_context("status", "orders", "--json")).figures["branches"]
    assert (one["head_turn"], one["checkpoint_turn"], one["lag"]["turns"]) == (12, 6, 4)
    assert one["price"] == "0.000087"


async def test_status_goes_on_where_a_page_ended(
    durable_context: Run, client: ContextClient, pool: Pool
) -> None:
    await talks(client, pool)
    first = await durable_context("status", "--limit", "2")
    more = first.out.splitlines()[-1]
    assert more.startswith("more with --after ")
    second = await durable_context("status", "--after", more.rpartition(" ")[2], "--json")
    assert [one["conversation_id"] for one in second.figures["branches"]] == ["short"]
    assert (second.figures["totals"], second.figures["after"]) == (None, None)
    totals = await durable_context("status", "--limit", "0")
    assert len(totals.out.splitlines()) == 1


async def test_status_of_what_is_not_there_or_contradicts_itself(
    durable_context: Run, client: ContextClient
) -> None:
    missing = await durable_context("status", "nowhere")
    assert missing.code == 1 and "has no conversation 'nowhere'" in missing.errors
    both = await durable_context("status", "--failed", "--paused")
    assert both.code == 2 and "--failed and --paused" in both.errors
    odd = await durable_context("status", "--after", "page 2")
    assert odd.code == 2 and "after='page 2'" in odd.errors
    empty = await durable_context("status")
    assert empty.code == 0 and empty.out.startswith("0 branches, 0 turns · 0 behind")


async def test_compactions_say_what_they_cost_and_why_they_were_skipped(
    durable_context: Run, client: ContextClient, pool: Pool
) -> None:
    await talks(client, pool)
    branch = await client.find_branch("orders")
    node = NodeRange(level=1, from_turn=1, to_turn=24)
    await note_skipped_node(pool, "default", branch.branch_uuid, node, "merge", "too dear")
    shown = await durable_context("compactions", "orders", "--iso")
    assert shown.code == 0, shown.errors
    _, _, skipped, made, rest, sum_line = shown.out.splitlines()
    assert re.search(r"Z +1–24 +merge 1 +skipped +too dear *$", skipped)
    one = (await branch.compactions())[1]
    balance = f"{one.balance:+,}"
    begun, _, told = made.partition("completed")
    assert re.search(r"Z +1–6 +turn +$", begun)
    assert f"{told.strip()} {rest.strip()}" == (
        f"{one.tokens_before} → {one.tokens_after} tokens · read 500, wrote 20 for <$0.0001 ·"
        f" saves {one.saved_tokens} a turn, broke {one.broken_tokens} · balance {balance}"
    )
    assert sum_line == f"balance of these: {balance} tokens for <$0.0001"
    figures = (await durable_context("compactions", "orders", "--json")).figures
    assert [row["status"] for row in figures["compactions"]] == ["skipped", "completed"]
    assert [row["balance"] for row in figures["compactions"]] == [0, one.balance]
    assert figures["compactions"][0]["error"] == "too dear"


async def test_compactions_of_all_conversations_name_them(
    durable_context: Run, client: ContextClient, pool: Pool
) -> None:
    await talks(client, pool)
    shown = await durable_context("compactions")
    assert shown.code == 0 and "orders / main" in shown.out
    assert r"[red]broken\x1b[31m / main" in shown.out
    assert r"no [bold]quota\x1b[1m left" in shown.out
    listed = (await durable_context("compactions", "--limit", "1", "--json")).figures
    assert [row["conversation_id"] for row in listed["compactions"]] == ["orders"]


async def test_compactions_of_a_branch(
    durable_context: Run, client: ContextClient, pool: Pool
) -> None:
    main = await client.open_branch("orders")
    await record(main, 8)
    idea = await main.fork("idea")
    await compact_all(pool, idea.branch_uuid)
    assert (await durable_context("compactions", "orders")).out == "no compactions\n"
    own = await durable_context("compactions", "orders", "--branch", "idea", "--json")
    assert len(own.figures["compactions"]) == 1
    missing = await durable_context("compactions", "orders", "--branch", "other")
    assert missing.code == 1 and "has no branch 'other'" in missing.errors
    nothing = await durable_context("compactions", "--branch", "idea")
    assert nothing.code == 2 and "of a conversation" in nothing.errors


async def test_compactions_say_what_a_revert_took_back(
    durable_context: Run, client: ContextClient, pool: Pool
) -> None:
    branch = await client.open_branch("orders")
    await record(branch, 14)
    await compact_all(pool, branch.branch_uuid)
    await branch.revert(6)
    listed = " ".join((await durable_context("compactions", "orders")).out.split())
    assert listed.count("reverted after turn 14: saved") == 1
    as_json = await durable_context("compactions", "orders", "--json")
    assert [one["saved_until"] for one in as_json.figures["compactions"]] == [14, None]
