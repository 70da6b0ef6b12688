"""`durable-context gc`, `retention` and `delete`: what is kept, and what goes."""

import pytest

from durable_context import ContextClient
from durable_context.database import Pool
from tests.cli.running import Run, run_process
from tests.retention.aged import Connection, at_once, talk
from tests.turns import numbered


async def left(connection: Connection) -> int:
    return await connection.fetchval("select count(*) from durable_context.branches")


async def test_a_dry_run_says_what_would_go_and_a_run_takes_it(
    durable_context: Run, client: ContextClient, pool: Pool
):
    root = await talk(client, pool)
    await root.revert(18)
    await client.set_retention(at_once(checkpoints_kept=1))
    shown = await durable_context("gc", "--dry-run")
    assert shown.code == 0, shown.errors
    assert "would go" in shown.out and "checkpoints" in shown.out
    announced = await durable_context("gc", "--dry-run", "--json")
    taken = await durable_context("gc", "--json")
    assert taken.figures["taken"] == announced.figures["taken"] != []
    assert (announced.figures["dry_run"], taken.figures["dry_run"]) == (True, False)
    assert {kind["kind"] for kind in taken.figures["taken"]} == {"checkpoints", "summaries"}
    again = await durable_context("gc")
    assert again.out.startswith("Nothing deleted: ")


async def test_retention_is_shown_and_changed_by_name(durable_context: Run, client: ContextClient):
    shown = await durable_context("retention")
    assert shown.code == 0, shown.errors
    rows = dict(line.split() for line in shown.out.splitlines()[2:])
    assert rows["superseded_after"] == "30d"
    assert (rows["conversations_after"], rows["conversations_kept"]) == ("never", "all")
    changed = await durable_context(
        "retention", "superseded_after=12h", "conversations_kept=1000", "drafts_after=never"
    )
    assert changed.code == 0, changed.errors
    policy = await client.retention()
    assert policy.superseded_after is not None
    assert (policy.superseded_after.total_seconds(), policy.conversations_kept) == (43_200, 1000)
    assert policy.drafts_after is None
    shown = await durable_context("retention", "conversations_kept=all", "--json")
    assert shown.figures["retention"]["superseded_after"] == "PT12H"
    assert shown.figures["retention"]["conversations_kept"] is None


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("superseded", "allowed is NAME=VALUE"),
        ("unknown_after=7d", "NAME one of superseded_after,"),
        ("superseded_after=a week", "allowed are ages such as"),
        ("superseded_after=-1d", "allowed are ages such as"),
        ("superseded_after=999999d", "superseded_after:"),
        ("compactions_kept=all", "allowed are whole numbers"),
        ("compactions_kept=0", "compactions_kept:"),
        ("objects_after=1m", "objects_after:"),
    ],
)
async def test_a_setting_that_cannot_be_is_refused_and_nothing_changes(
    durable_context: Run, client: ContextClient, setting: str, complaint: str
):
    before = await client.retention()
    ended = await durable_context("retention", "checkpoints_kept=3", setting)
    assert ended.code == 2
    assert complaint in ended.errors
    assert await client.retention() == before


async def test_a_conversation_is_deleted_only_when_that_is_meant(
    durable_context: Run, client: ContextClient, connection: Connection
):
    for name in ("[red]talk\x1b", "other"):
        await (await client.open_branch(name)).record_turn(numbered(1))
    refused = await durable_context("delete", "[red]talk\x1b")
    assert refused.code == 2
    assert "--yes" in refused.errors
    shown = await durable_context("delete", "[red]talk\x1b", "--dry-run")
    assert "1 would go" in shown.out and "[red]talk\\x1b" in shown.out
    assert await left(connection) == 2
    deleted = await durable_context("delete", "[red]talk\x1b", "--yes", "--json")
    assert deleted.code == 0, deleted.errors
    assert deleted.figures["conversation_ids"] == ["[red]talk\x1b"]
    assert await left(connection) == 1
    again = await durable_context("delete", "[red]talk\x1b", "--yes")
    assert again.code == 1
    assert "has no conversation" in again.errors


async def test_the_command_runs_as_a_process(client: ContextClient, database_url: str):
    await (await client.open_branch("talk")).record_turn(numbered(1))
    environment = {"DURABLE_CONTEXT_DATABASE_URL": database_url}
    ended = await run_process(["-m", "durable_context.cli", "gc", "--json"], environment)
    assert ended.code == 0, ended.errors
    assert ended.errors == ""
    assert ended.figures["taken"] == []
