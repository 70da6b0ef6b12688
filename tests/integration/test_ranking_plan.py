"""How PostgreSQL runs the read before a model call: by indexes alone, and however long a branch is,
with no more postings than the bounds say.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from benchmarks.database import TENANT, Database, silence
from benchmarks.retrieval.lineage import lineage
from benchmarks.retrieval.lineage_rows import stored
from durable_context import Branch
from durable_context.database import Pool, acquired
from durable_context.prompts.query import READ_PROMPT, read_prompt
from durable_context.prompts.ranking_query import BOUNDS, Bounds
from durable_context.search_queries import search_query
from tests.talks import market

TIGHT = Bounds(terms=8, whole=60, newest=12, candidates=10)
ASKED = "Which stall sells the cheapest saffron, and who carried the crates of order ORD-0007?"
GROWING = {"turns", "postings", "indexed_documents", "summaries", "checkpoints"}
"""Tables that a branch adds rows to as long as it lives."""

Plan = Mapping[str, Any]


async def branch_of(pool: Pool, turns: int) -> Branch:
    """A branch of so many turns, a leaf for every six of them."""
    name = f"{turns} turns"
    return await stored(Database(pool, pool), name, lineage([market()], turns), silence)


async def plan_of(pool: Pool, branch: Branch, statement: str) -> list[Plan]:
    """The nodes of the plan that were run."""
    query = search_query(ASKED)
    async with acquired(pool) as connection:
        prepared = await connection.prepare(statement)
        (explained,) = await prepared.explain(
            *(TENANT, branch.branch_uuid, 2, 8, 8_000, 4_000),
            *(query.text, list(query.terms), list(query.weights), 0.0, 3),
            analyze=True,
        )
    return [node for node in _nodes(explained["Plan"]) if node["Actual Loops"]]


def _nodes(node: Plan) -> Iterator[Plan]:
    yield node
    for child in node.get("Plans", ()):
        yield from _nodes(child)


def rows_of(nodes: list[Plan], table: str) -> int:
    """Rows of the table that were read, those that a filter then dropped among them."""
    return sum(
        (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
        for node in nodes
        if node.get("Relation Name") == table
    )


@pytest.fixture
async def branches(pool: Pool) -> list[Branch]:
    """Of 74 leaves and of 299, among others."""
    made = [await branch_of(pool, turns) for turns in (150, 450, 1_800)]
    async with acquired(pool) as connection:
        await connection.execute("vacuum analyze")
    return made[1:]


async def test_the_read_before_a_model_call_goes_by_indexes(
    pool: Pool, branches: list[Branch]
) -> None:
    for branch in branches:
        nodes = await plan_of(pool, branch, READ_PROMPT)
        scanned = {node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan"}
        assert scanned.isdisjoint(GROWING)
        read = [node for node in nodes if node.get("Relation Name") == "postings"]
        assert {node["Index Name"] for node in read} == {"postings_pkey"}
        assert {node["Node Type"] for node in read} <= {"Index Scan", "Index Only Scan"}
        assert "turns_pkey" in {node.get("Index Name") for node in nodes}


async def test_no_posting_is_fetched_before_its_leaf_is_a_candidate(
    pool: Pool, branches: list[Branch]
) -> None:
    nodes = await plan_of(pool, branches[-1], READ_PROMPT)
    fetched = [
        node["Actual Loops"]
        for node in nodes
        if node.get("Relation Name") == "postings" and node["Node Type"] == "Index Scan"
    ]
    assert len(fetched) == 1
    assert fetched[0] <= BOUNDS.candidates


async def test_four_times_the_leaves_cost_no_more_postings_than_the_bounds_allow(
    pool: Pool, branches: list[Branch]
) -> None:
    terms = len((await pool.fetchval("select to_tsvector('english', $1)::text", ASKED)).split())
    terms += len(search_query(ASKED).terms)
    allowed = terms + TIGHT.whole + TIGHT.terms * TIGHT.newest + terms * TIGHT.candidates
    short, long = [
        rows_of(await plan_of(pool, branch, read_prompt(TIGHT)), "postings") for branch in branches
    ]
    assert 0 < short <= allowed
    assert 0 < long <= allowed
    unbounded = read_prompt(Bounds(terms=64, whole=10_000, newest=10_000, candidates=10))
    assert rows_of(await plan_of(pool, branches[-1], unbounded), "postings") > allowed
