"""Each damage is found, named exactly and told once."""

from pathlib import Path

import pytest

from durable_context import Branch, ContextClient
from durable_context.database import Pool
from durable_context.errors import UnknownBranch
from durable_context.verification.damages import tell
from durable_context.verification.findings import Finding
from durable_context.verification.subject import find_subject
from tests.verification.conftest import Damage, told, verified
from tests.verification.kinds_of_damage import ALL, OF_FORKS, Place


@pytest.mark.parametrize("what", ALL)
async def test_a_damage_is_found_named_exactly_and_told_once(
    what: str, branch: Branch, damage: Damage
):
    statement, expected = ALL[what]
    await damage(statement, branch)
    first = await branch.verify()
    assert {place(one) for one in first.findings} == expected
    assert {(one.conversation_id, one.branch_id) for one in first.findings} == {("harbour", "main")}
    assert (await branch.verify()).told == 0
    events = await told(branch)
    assert first.told == len(events) == len(first.findings)
    assert {(one.data["check"], one.data.get("from_turn")) for one in events} == {
        (one[0], one[1]) for one in expected
    }


@pytest.mark.parametrize("what", OF_FORKS)
async def test_a_fork_that_is_no_fork_of_its_parent_is_found(
    what: str, child: Branch, damage: Damage
):
    statement, expected = OF_FORKS[what]
    await damage(statement, child)
    assert {place(one) for one in (await child.verify()).findings} == expected


def lose_and_change(objects: Path) -> list[Path]:
    kept = [path for path in objects.rglob("*") if path.is_file()]
    assert len(kept) == 2
    kept[0].unlink()
    kept[1].write_bytes(kept[1].read_bytes()[:-1] + b"?")
    return kept


async def test_what_the_object_store_lost_or_changed_is_found(branch: Branch, objects: Path):
    kept = lose_and_change(objects)
    found = (await branch.verify()).findings
    assert [one.check for one in found] == ["content_hash", "content_hash"]
    assert all(one.expected.endswith("in the object store") for one in found)
    assert {one.ids[1] for one in found} == {path.stem for path in kept}


async def test_what_is_mended_and_damaged_again_is_told_again(branch: Branch, damage: Damage):
    change = "update durable_context.branches set head_tokens = head_tokens + {}"
    change += " where branch_uuid = $1"
    await damage(change.format(1), branch)
    assert (await branch.verify()).told == 1
    await damage(change.format(1), branch)
    assert (await branch.verify()).told == 0  # the same finding with other figures
    await damage(change.format(-2), branch)
    assert (await branch.verify()).findings == ()
    await damage(change.format(1), branch)
    assert (await branch.verify()).told == 1
    assert [event.data["check"] for event in await told(branch)] == ["branch_head"] * 2


async def test_no_event_and_no_finding_holds_content(branch: Branch, damage: Damage):
    await damage(
        "update durable_context.turns set messages = messages, digest = 'SHP-0001 SECRET',"
        " manifest = null where branch_uuid = $1",
        branch,
    )
    await damage(
        "update durable_context.summaries set text = 'SHP-0001 SECRET' where branch_uuid = $1",
        branch,
    )
    found = (await branch.verify()).findings
    assert len(found) > 15
    for told_of in (*found, *await told(branch)):
        assert "SHP" not in told_of.model_dump_json() and "SECRET" not in told_of.model_dump_json()


async def test_rows_of_no_branch_are_found(client: ContextClient, child: Branch, damage: Damage):
    await damage("delete from durable_context.branches where branch_uuid = $1", child)
    found = next(one for one in await verified(client) if one.branch_uuid is None).findings
    assert {one.expected.removeprefix("the branch of ") for one in found} == {
        *("turns", "summaries", "checkpoints", "compactions", "indexed_documents", "lineage"),
        *("events", "pins", "postings"),
    }
    assert {one.ids for one in found} == {(str(child.branch_uuid),)}
    assert {(one.check, one.severity) for one in found} == {("orphan_row", "warning")}


async def test_another_tenant_s_damage_is_not_told(
    database_url: str, child: Branch, branch: Branch, damage: Damage
):
    await damage("delete from durable_context.branches where branch_uuid = $1", child)
    await damage(
        "update durable_context.branches set head_tokens = 1 where branch_uuid = $1", branch
    )
    async with await ContextClient.connect(database_url, temporal=None, tenant="other") as client:
        (only,) = await verified(client)
    assert {one.expected for one in only.findings} <= {"the branch of postings"}


async def test_a_branch_that_is_deleted_while_it_is_verified_is_unknown(
    client: ContextClient, branch: Branch, damage: Damage, pool: Pool
):
    await damage(
        "update durable_context.branches set head_tokens = 1 where branch_uuid = $1", branch
    )
    async with pool.acquire() as connection:
        subject = await find_subject(connection, "default", branch.branch_uuid)
    assert subject is not None
    found = [*(await branch.verify()).findings]
    await client.delete_conversation("harbour")
    with pytest.raises(UnknownBranch):
        await tell(pool, subject, found)


async def test_a_verification_writes_nothing_but_events(branch: Branch, damage: Damage, pool: Pool):
    await damage(
        "update durable_context.branches set head_turn = 14 where branch_uuid = $1", branch
    )
    before = await _rows(pool)
    await branch.verify()
    after = await _rows(pool)
    assert after.pop("events") == before.pop("events") + 1
    assert after == before


async def test_turns_of_older_versions_are_checked_by_what_they_were_recorded_with(
    branch: Branch, damage: Damage
):
    await damage(
        "update durable_context.turns set stored_hash = null where branch_uuid = $1", branch
    )
    one = await branch.verify()
    assert one.findings == ()
    assert one.unverifiable == 3  # turns whose messages are views of artifacts


def place(one: Finding) -> Place:
    return one.check, one.from_turn, one.to_turn


async def _rows(pool: Pool) -> dict[str, int]:
    tables = ("turns", "summaries", "checkpoints", "branches", "lineage", "compactions", "events")
    return {
        table: await pool.fetchval(f"select count(*) from durable_context.{table}")
        for table in tables
    }
