"""What the database refuses, whoever asks: plain SQL by the owner of the tables."""

from collections.abc import AsyncIterator
from typing import Any, TypeAlias
from uuid import UUID, uuid4

import asyncpg
import pytest

from durable_context import Branch, Budget, ContextClient
from durable_context.database import create_pool
from durable_context.migrations import migrate
from tests.compacting import compact_all
from tests.turns import chat, exchange, numbered
from worker.postgres_server import PostgresServer

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
# The codes of our own, and of keys and checks.
REFUSALS = {
    "immutable": "DC001",
    "overlap": "DC002",
    "order": "DC003",
    "lineage": "DC004",
    "foreign key": "23503",
    "unique": "23505",
    "check": "23514",
}
ROOT, CHILD, SIBLING, FOREIGN = "root", "child", "sibling", "foreign"
FORK_TURN = 10
HEAD = 18
TURN = """
insert into durable_context.turns (
    tenant, branch_uuid, turn_no, turn_key, content_hash, messages, message_tokens, token_count,
    stored_tokens, raw_tokens, outcome, continues, digest, digest_tokens, ledger,
    message_terms, occurred_at, recorded_at, head_tokens
)
select $1, $2, $3, 'forged', content_hash, messages, message_tokens, token_count, stored_tokens,
    raw_tokens, outcome, continues, digest, digest_tokens, ledger, message_terms, occurred_at,
    recorded_at, head_tokens
from durable_context.turns limit 1
"""
NODE = """
insert into durable_context.summaries (
    tenant, branch_uuid, level, from_turn, to_turn, recipe, input_hash, state, headline, text,
    token_count, input_tokens, covered_tokens, made_by
)
select $1, $2, $3, $4, $5, 'forged', input_hash, $6, headline, text, token_count, input_tokens,
    covered_tokens, made_by
from durable_context.summaries limit 1
returning summary_id
"""
CHECKPOINT = """
insert into durable_context.checkpoints (
    tenant, branch_uuid, turn_no, parent_id, frontier, leaf_count, sections, ledger, text,
    token_count, token_usage
)
select $1, $2, $3, $4, $5, 1, sections, ledger, text, token_count, token_usage
from durable_context.checkpoints limit 1
"""
ARTIFACT = """
insert into durable_context.artifacts (
    tenant, branch_uuid, artifact_no, handle, turn_no, source, name, version, media_type, sha256,
    size, token_count
)
values ($1, $2, $3, 'art_' || $4::text, $5, 'put', 'forged', 1, 'text/plain', $6, 4, 1)
"""
HANDLE = "A" * 22
BRANCH = """
insert into durable_context.branches (
    tenant, conversation_id, branch_id, parent_uuid, fork_turn, encoding, text_search, head_turn,
    checkpoint_turn, parent_publication
)
values ('default', $1, 'forged', $2, $3, 'o200k_base', 'english', $4, $5, (
    select p.publication + $6::integer from durable_context.branches p where p.branch_uuid = $2
))
"""
LINEAGE = """
insert into durable_context.lineage (
    tenant, branch_uuid, depth, ancestor_uuid, from_turn, to_turn, compacted_turn, artifact_limit
)
values ('default', $1, 9, $2, 1, 100, 100, 100)
"""
IMMUTABLE = {
    "turns": ("digest = 'x'", "messages = '[]'", "turn_no = turn_no + 100"),
    "checkpoints": (
        "text = 'x'",
        "frontier = '{}'",
        "turn_no = turn_no + 100",
        "revision = revision + 1",
    ),
    "branches": (
        "fork_turn = 1",
        "parent_uuid = null",
        "branch_id = branch_id || 'x'",
        "tenant = 'x'",
        "parent_publication = 0",
        "encoding = 'cl100k_base'",
    ),
    "lineage": ("to_turn = 100", "ancestor_uuid = branch_uuid", "artifact_limit = 100"),
    "summaries": ("text = 'x'", "to_turn = to_turn + 1", "headline = 'x'"),
    "artifacts": ("handle = handle", "name = 'x'", "turn_no = 0"),
    "artifact_contents": ("data = 'x'", "size = 1"),
    "events": ("data = '{}'", "event_no = event_no + 1"),
    "prompt_parts": ("parts = '{}'",),
}


class Family:
    """A root that was compacted before and beyond the fork of two children, and a branch of another
    tenant.
    """

    def __init__(self, connection: Connection, branches: dict[str, Branch]) -> None:
        self.connection = connection
        self.branches = branches

    def uuid(self, name: str) -> UUID:
        return self.branches[name].branch_uuid

    def tenant(self, name: str) -> str:
        return "other" if name == FOREIGN else "default"

    async def node(self, name: str, from_turn: int, to_turn: int) -> UUID:
        """One of its own published leaves."""
        return await self.connection.fetchval(
            "select summary_id from durable_context.summaries where branch_uuid = $1"
            " and level = 0 and from_turn = $2 and to_turn = $3 and state = 'current'",
            self.uuid(name),
            from_turn,
            to_turn,
        )

    async def checkpoint(self, name: str, turn_no: int) -> UUID:
        return await self.connection.fetchval(
            "select checkpoint_id from durable_context.checkpoints"
            " where branch_uuid = $1 and turn_no = $2",
            self.uuid(name),
            turn_no,
        )

    async def run(self, statement: str, name: str, *arguments: Any) -> Any:
        """For a row of the branch."""
        return await self.connection.fetchval(
            statement, self.tenant(name), self.uuid(name), *arguments
        )

    async def refused(self, why: str, statement: str, name: str, *arguments: Any) -> None:
        await self.refused_as_it_is(why, statement, self.tenant(name), self.uuid(name), *arguments)

    async def refused_as_it_is(self, why: str, statement: str, *arguments: Any) -> None:
        with pytest.raises(asyncpg.PostgresError) as refusal:
            async with self.connection.transaction():
                await self.connection.execute(statement, *arguments)
                await self.connection.execute("set constraints all immediate")
        assert refusal.value.sqlstate == REFUSALS[why], refusal.value


@pytest.fixture(scope="module")
async def rules_url(postgres: PostgresServer) -> AsyncIterator[str]:
    """A migrated database for all tests here, each of which takes back what it did."""
    admin = await asyncpg.connect(postgres.url_of("postgres"))
    await admin.execute("create database row_rules")
    await migrate(postgres.url_of("row_rules"))
    yield postgres.url_of("row_rules")
    await admin.execute("drop database row_rules with (force)")
    await admin.close()


@pytest.fixture(scope="module")
async def branches(rules_url: str) -> AsyncIterator[dict[str, Branch]]:
    pool = await create_pool(rules_url)
    mine = await ContextClient.connect(rules_url, temporal=None)
    theirs = await ContextClient.connect(rules_url, temporal=None, tenant="other")
    async with mine, theirs:
        root = await mine.open_branch("conversation")
        await _record(root, 1, FORK_TURN)
        await compact_all(pool, root.branch_uuid)
        child = await root.fork(CHILD)
        sibling = await root.fork(SIBLING)
        await _record(root, FORK_TURN + 1, 14)
        await compact_all(pool, root.branch_uuid)
        for branch in (child, sibling):
            report = exchange("a", f"line of text of {branch.branch_id}\n" * 400)
            await branch.record_turn([*chat("Read it", "Wait"), *report])
            await _record(branch, FORK_TURN + 2, HEAD)
            await branch.put_artifact(f"the {branch.branch_id}'s", name="plan")
            await compact_all(pool, branch.branch_uuid)
        foreign = await theirs.open_branch("conversation")
        await foreign.record_turn(numbered(1))
        await foreign.put_artifact("secret", name="plan")
        yield {ROOT: root, CHILD: child, SIBLING: sibling, FOREIGN: foreign}
    await pool.close()


async def _record(branch: Branch, first: int, last: int) -> None:
    for n in range(first, last + 1):
        prepared = await branch.prepare(f"question {n}", budget=Budget(max_tokens=9000))
        assert prepared
        await branch.record_turn(numbered(n), prepared=prepared)


@pytest.fixture
async def family(branches: dict[str, Branch], rules_url: str) -> AsyncIterator[Family]:
    connection = await asyncpg.connect(rules_url)
    undone = connection.transaction()
    await undone.start()
    yield Family(connection, branches)
    await undone.rollback()
    await connection.close()


@pytest.mark.parametrize(
    ("table", "change"),
    [(table, change) for table, changes in IMMUTABLE.items() for change in changes],
)
async def test_what_is_published_cannot_be_changed(family: Family, table: str, change: str):
    assert await family.connection.fetchval(f"select count(*) from durable_context.{table}")
    await family.refused_as_it_is("immutable", f"update durable_context.{table} set {change}")


@pytest.mark.parametrize("table", IMMUTABLE)
@pytest.mark.parametrize("statement", ["delete from {}", "truncate {} cascade"])
async def test_what_is_published_cannot_be_taken_away(family: Family, table: str, statement: str):
    await family.refused_as_it_is("immutable", statement.format(f"durable_context.{table}"))


async def test_what_was_replaced_or_rejected_never_comes_back(family: Family):
    """And a draft could be deleted."""
    node = await family.node(ROOT, 1, 6)
    change = "update durable_context.summaries set state = $2 where summary_id = $1"
    for state, refused in (
        ("current", ["draft"]),
        ("superseded", ["draft", "current"]),
        ("rejected", ["draft", "current", "superseded"]),
    ):
        await family.connection.execute(change, node, state)
        for earlier in refused:
            await family.refused_as_it_is("immutable", change, node, earlier)


async def test_a_checkpoint_that_was_replaced_never_comes_back(family: Family):
    checkpoint = await family.checkpoint(ROOT, 12)
    change = "update durable_context.checkpoints set state = $2 where checkpoint_id = $1"
    await family.connection.execute(change, checkpoint, "superseded")
    await family.refused_as_it_is("immutable", change, checkpoint, "current")


async def test_a_turn_has_one_current_checkpoint(family: Family):
    nodes = [await family.node(ROOT, 1, 6), await family.node(ROOT, 7, 12)]
    await family.refused("lineage", CHECKPOINT, ROOT, 12, None, nodes)


async def test_a_fork_sees_its_parent_as_it_stood_whatever_the_parent_replaces(family: Family):
    seen = "select summary_id from durable_context.visible_summaries where tenant = $1"
    seen += " and seen_by = $2 and from_turn = 1"
    node = await family.node(ROOT, 1, 6)
    await family.run(
        "update durable_context.branches set publication = publication + 1"
        " where tenant = $1 and branch_uuid = $2",
        ROOT,
    )
    await family.connection.execute(
        "update durable_context.summaries set state = 'superseded' where summary_id = $1", node
    )
    newer = await family.run(NODE, ROOT, 0, 1, 6, "current")
    assert await family.run(seen, ROOT) == newer
    assert await family.run(seen, CHILD) == node


@pytest.mark.parametrize("turn_no", [1, FORK_TURN, HEAD, HEAD + 2, HEAD + 100])
async def test_a_turn_that_does_not_follow_the_head_is_refused(family: Family, turn_no: int):
    await family.refused("order", TURN, CHILD, turn_no)


async def test_a_turn_follows_the_head_of_its_own_branch(family: Family):
    await family.refused("order", TURN, ROOT, HEAD + 1)
    await family.refused_as_it_is("order", TURN, "other", family.uuid(CHILD), HEAD + 1)
    await family.run(TURN, CHILD, HEAD + 1)


@pytest.mark.parametrize(
    ("from_turn", "to_turn"), [(1, 6), (6, 8), (3, 4), (1, 20), (12, 13), (8, 9)]
)
async def test_nodes_that_overlap_are_refused_inherited_ones_too(
    family: Family, from_turn: int, to_turn: int
):
    child = await family.branches[CHILD].summaries()
    assert [(node.from_turn, node.to_turn) for node in child] == [(1, 6), (7, 12)]
    await family.refused("overlap", NODE, CHILD, 0, from_turn, to_turn, "current")


async def test_a_draft_that_overlaps_cannot_be_published(family: Family):
    draft = await family.run(NODE, CHILD, 0, 5, 8, "draft")
    publish = "update durable_context.summaries set state = 'current' where summary_id = $1"
    await family.refused_as_it_is("overlap", publish, draft)


async def test_what_a_child_publishes_is_no_obstacle_to_its_parent_and_siblings(family: Family):
    await family.run(NODE, CHILD, 0, 13, 16, "current")
    await family.run(NODE, ROOT, 0, 13, 15, "current")
    await family.run(NODE, SIBLING, 0, 13, 14, "current")


@pytest.mark.parametrize("owner", [ROOT, SIBLING], ids=["straddles the fork", "of a sibling"])
async def test_a_checkpoint_over_a_node_that_the_branch_does_not_see_is_refused(
    family: Family, owner: str
):
    inherited = await family.node(ROOT, 1, 6)
    parent = await family.checkpoint(CHILD, 12)
    other = await family.node(owner, 7, 12)
    assert inherited and parent and other
    await family.refused("lineage", CHECKPOINT, CHILD, 16, parent, [inherited, other])
    own = await family.node(CHILD, 7, 12)
    await family.run(CHECKPOINT, CHILD, 16, parent, [inherited, own])


async def test_a_checkpoint_over_drafts_unknown_repeated_or_later_nodes_is_refused(family: Family):
    inherited, own = await family.node(ROOT, 1, 6), await family.node(CHILD, 7, 12)
    draft = await family.run(NODE, CHILD, 0, 13, 14, "draft")
    parent = await family.checkpoint(ROOT, 6)
    for frontier in ([inherited, own, draft], [inherited, uuid4()], [inherited, inherited]):
        await family.refused("lineage", CHECKPOINT, CHILD, 14, parent, frontier)
    await family.refused("lineage", CHECKPOINT, CHILD, 11, parent, [inherited, own])


async def test_a_checkpoint_follows_one_that_its_branch_sees(family: Family):
    frontier = [await family.node(ROOT, 1, 6), await family.node(CHILD, 7, 12)]
    for owner in (ROOT, SIBLING):
        other = await family.checkpoint(owner, 12)
        assert other
        await family.refused("lineage", CHECKPOINT, CHILD, 14, other, frontier)
    later = await family.checkpoint(CHILD, 12)
    await family.refused("lineage", CHECKPOINT, CHILD, 12, later, frontier)


async def test_an_inherited_checkpoint_cannot_be_given_a_second_one(family: Family):
    """Prompts take the one checkpoint at a turn."""
    inherited = await family.node(ROOT, 1, 6)
    await family.refused("lineage", CHECKPOINT, CHILD, 6, None, [inherited])


async def test_content_of_another_tenant_cannot_be_pointed_at(family: Family):
    [theirs] = await family.branches[FOREIGN].artifacts()
    content = bytes.fromhex(theirs.sha256)
    await family.refused("foreign key", ARTIFACT, CHILD, 9, HANDLE, HEAD, content)
    disguised = ("other", family.uuid(CHILD), 9, HANDLE, HEAD, content)
    await family.refused_as_it_is("foreign key", ARTIFACT, *disguised)
    await family.run(ARTIFACT, FOREIGN, 9, HANDLE, 1, content)


@pytest.mark.parametrize("turn_no", [0, FORK_TURN - 1, HEAD + 1])
async def test_artifacts_of_turns_that_are_not_the_branchs_own_are_refused(
    family: Family, turn_no: int
):
    content = await _own_content(family)
    await family.refused("order", ARTIFACT, CHILD, 9, HANDLE, turn_no, content)
    await family.run(ARTIFACT, CHILD, 9, HANDLE, HEAD, content)


async def test_an_artifact_number_and_a_handle_are_given_once(family: Family):
    content = await _own_content(family)
    await family.refused("unique", ARTIFACT, CHILD, 1, HANDLE, HEAD, content)
    [brought, _] = await family.branches[CHILD].artifacts()
    taken = brought.handle.removeprefix("art_")
    await family.refused("unique", ARTIFACT, CHILD, 9, taken, HEAD, content)
    await family.refused("check", ARTIFACT, CHILD, 9, "short", HEAD, content)


async def _own_content(family: Family) -> bytes:
    [_, plan] = await family.branches[CHILD].artifacts()
    assert plan.name == "plan"
    return bytes.fromhex(plan.sha256)


@pytest.mark.parametrize(("reader", "read"), [(ROOT, CHILD), (CHILD, SIBLING), (SIBLING, FOREIGN)])
async def test_nothing_can_be_added_to_a_lineage(family: Family, reader: str, read: str):
    added = (family.uuid(reader), family.uuid(read))
    await family.refused_as_it_is("immutable", LINEAGE, *added)


@pytest.mark.parametrize(
    ("conversation", "fork_turn", "head_turn", "checkpoint_turn", "publication"),
    [
        ("conversation", 10, 12, 12, 0),
        ("conversation", 10, 10, 8, 0),
        ("conversation", 15, 15, 0, 0),
        ("conversation", 10, 9, 0, 0),
        ("another", 10, 10, 0, 0),
        ("conversation", 10, 10, 6, 1),
    ],
    ids=[
        "a checkpoint beyond the fork",
        "no checkpoint there",
        "beyond the parent's head",
        "not at the fork",
        "of another conversation",
        "of a publication to come",
    ],
)
async def test_a_fork_that_would_read_what_came_later_is_refused(
    family: Family,
    conversation: str,
    fork_turn: int,
    head_turn: int,
    checkpoint_turn: int,
    publication: int,
):
    fork = (conversation, family.uuid(ROOT), fork_turn, head_turn, checkpoint_turn, publication)
    await family.refused_as_it_is("lineage", BRANCH, *fork)


async def test_a_parent_of_another_tenant_is_refused(family: Family):
    fork = ("conversation", family.uuid(FOREIGN), 1, 1, 0, 0)
    await family.refused_as_it_is("lineage", BRANCH, *fork)


async def test_a_fork_of_what_the_parent_has_is_taken(family: Family):
    await family.connection.execute(BRANCH, "conversation", family.uuid(ROOT), 10, 10, 6, 0)
