"""Leaves, nodes above them and artifacts compete for a prompt's blocks, and nothing of the prompt
is said twice.
"""

from typing import Any

import pytest

from durable_context import Branch, CompactionPolicy, ContextClient
from durable_context.database import Pool
from durable_context.summarizers import SummaryDraft, SummaryRequest
from tests.compacting import compact_all, compact_once
from tests.compaction.scripted import ScriptedSummarizer
from tests.compaction.test_compactor import Steps
from tests.prompts import raw_turns
from tests.retrieving import asked, blocks, converse, found, remembered, retrieved
from tests.turns import chat, exchange

OSPREY = {4: chat("We saw an osprey at the weir.", "The osprey dives for trout.")}
REPORT = "\n".join(f"Line {n}: all is well in hall {n % 7}." for n in range(1, 400))
REPORT += "\nLine 400: the turbine in hall 3 vibrates at 47 hertz.\n" + REPORT


class _Titled(ScriptedSummarizer):
    """Says in one node above the leaves a word that no turn has."""

    async def summarize(self, request: SummaryRequest) -> SummaryDraft:
        draft = await super().summarize(request)
        if (request.from_turn, request.to_turn) != (1, 24):
            return draft
        return draft.model_copy(
            update={"text": f"{draft.text} All of it was the palimpsest affair of the osprey."}
        )


async def _with_nodes(branch: Branch, pool: Pool, turns: int = 62) -> None:
    await converse(branch, turns, OSPREY)
    steps = Steps(pool, branch, _Titled())
    while (await steps.all()).more:
        pass


async def test_a_node_is_retrieved_for_what_only_it_says(client: ContextClient, pool: Pool):
    branch = await client.open_branch("nodes")
    await _with_nodes(branch, pool, 110)
    nodes = {(node.from_turn, node.to_turn): node.level for node in await branch.summaries()}
    assert nodes[1, 24] == 1 and nodes[1, 96] == 2
    prepared = await asked(branch, "What was the palimpsest about?")
    assert blocks(prepared)[0] == (1, 24)
    assert "- All of it was the palimpsest affair of the osprey." in retrieved(prepared)
    (source,) = next(b for b in prepared.manifest.blocks if b.kind == "retrieved").source_ids
    (node,) = [node for node in await branch.summaries() if str(node.summary_id) == source]
    assert (node.level, node.from_turn, node.to_turn) == (1, 1, 24)


async def test_a_node_of_the_frontier_is_not_retrieved(client: ContextClient, pool: Pool):
    branch = await client.open_branch("nodes")
    await _with_nodes(branch, pool)
    state = await branch.inspect()
    assert (1, 24) in {(node.from_turn, node.to_turn) for node in state.frontier}
    prepared = await asked(branch, "What was the palimpsest about?")
    assert "palimpsest" not in retrieved(prepared)


async def test_a_node_gives_way_to_its_leaf(client: ContextClient, pool: Pool):
    branch = await client.open_branch("nodes")
    await _with_nodes(branch, pool, 110)
    prepared = await asked(branch, "Where did the osprey dive for trout at the weir?")
    first, last = blocks(prepared)[0]
    assert first == 1 and last is not None and last < 24
    assert "The osprey dives for trout." in retrieved(prepared)
    assert "palimpsest" not in retrieved(prepared)


async def test_a_leaf_that_stands_in_the_frontier_is_quoted_without_its_headline(
    client: ContextClient, pool: Pool
):
    branch = await client.open_branch("leaf")
    await remembered(branch, pool, 14, OSPREY)
    text = await found(branch, "Where did we see the osprey?")
    assert "We saw an osprey at the weir." in text
    assert "[turns " not in text
    await converse(branch, 40, start=15)
    await compact_all(pool, branch.branch_uuid)
    leaf = next(one for one in await branch.summaries() if (one.level, one.from_turn) == (0, 1))
    text = await found(branch, "Where did we see the osprey?")
    assert "We saw an osprey at the weir." in text
    assert text.startswith(f"[turns 1-6] {leaf.headline[:20]}")


async def test_hits_side_by_side_share_a_block(client: ContextClient, pool: Pool):
    branch = await client.open_branch("beside")
    said = OSPREY | {10: chat("The osprey is back.", "The osprey again!")}
    said[40] = chat("An osprey in town!", "That osprey is lost.")
    await remembered(branch, pool, 62, said)
    prepared = await asked(branch, "When and where did we see an osprey?")
    assert sorted(blocks(prepared))[:2] == [(1, 12), (37, 42)]
    text = retrieved(prepared)
    assert text.index("[turn 4, ") < text.index("[turn 10, ")
    both = next(b for b in prepared.manifest.blocks if (b.from_turn, b.to_turn) == (1, 12))
    assert both.kind == "retrieved" and len(both.source_ids) == 2


@pytest.mark.parametrize("most", [1, 2, 3, 5])
async def test_there_are_no_more_blocks_than_the_policy_says(
    make_client: Any, pool: Pool, most: int
):
    client = await make_client(CompactionPolicy(retrieved_blocks=most))
    branch = await client.open_branch("many")
    said = {turn: chat(f"Osprey number {turn}.", "Seen.") for turn in range(4, 120, 13)}
    await remembered(branch, pool, 120, said)
    assert len(blocks(await asked(branch, "List each osprey we counted"))) == most


async def test_an_artifact_that_was_put_is_found_by_its_lines(client: ContextClient, pool: Pool):
    branch = await client.open_branch("files")
    await converse(branch, 30)
    artifact = await branch.put_artifact(REPORT, name="inspection.txt")
    await converse(branch, 40, start=31)
    await compact_all(pool, branch.branch_uuid)
    prepared = await asked(branch, "Which turbine vibrates at 47 hertz?")
    text = retrieved(prepared)
    assert f"artifact {artifact.handle} (inspection.txt, text/plain" in text
    assert "the turbine in hall 3 vibrates at 47 hertz" in text
    assert text.startswith("[turn 30] ")
    assert artifact.handle in {s for b in prepared.manifest.blocks for s in b.source_ids}


async def test_an_offloaded_result_is_found_by_its_lines(client: ContextClient, pool: Pool):
    branch = await client.open_branch("files")
    said = {9: [{"role": "user", "content": "Read it."}, *exchange("c", REPORT)]}
    await remembered(branch, pool, 40, said)
    text = await found(branch, "Which turbine vibrates at 47 hertz?")
    assert "the turbine in hall 3 vibrates at 47 hertz" in text
    assert "[turn 9] artifact " in text


async def test_an_artifact_that_a_raw_turn_shows_is_not_repeated(client: ContextClient, pool: Pool):
    branch = await client.open_branch("files", "raw")
    small = "\n".join(f"Gauge {n} shows {n * 3} bar." for n in range(150))
    said = [{"role": "user", "content": "Read it."}, *exchange("c", small)]
    await remembered(branch, pool, 40, {9: said})
    (first,) = await branch.artifacts()
    message = "Which gauge shows 141 bar?"
    assert first.handle in await found(branch, message)
    await branch.record_turn(said)
    await Steps(pool, branch).index(37, 41)  # ahead of the leaf, of which the worker died
    (_, second) = await branch.artifacts()
    assert second.handle in {hit.handle for hit in await branch.search(message)}
    prepared = await asked(branch, message)
    assert raw_turns(prepared) == [40, 41]
    assert second.handle not in retrieved(prepared)
    assert "Gauge 47 shows 141 bar." in str(prepared.messages[-4:])


async def test_an_artifact_that_child_and_parent_indexed_is_one_hit(
    client: ContextClient, pool: Pool
):
    branch = await client.open_branch("files")
    await converse(branch, 30)
    artifact = await branch.put_artifact(REPORT, name="inspection.txt")
    child = await branch.fork("child")
    for one in (child, branch):
        await converse(one, 40, start=31)
        await compact_all(pool, one.branch_uuid)
    indexed = await pool.fetchval(
        "select count(*) from durable_context.indexed_documents where artifact_no > 0"
    )
    assert indexed == 2
    for one in (child, branch):
        assert (await found(one, "Which turbine vibrates at 47 hertz?")).count(artifact.handle) == 1


@pytest.mark.parametrize("put", [True, False])
async def test_a_child_finds_the_same_artifacts_however_late_its_parent_indexes_them(
    client: ContextClient, pool: Pool, put: bool
):
    branch = await client.open_branch("files")
    said = {9: [{"role": "user", "content": "Read it."}, *exchange("c", REPORT)]}
    await converse(branch, 30, {} if put else said)
    if put:
        await branch.put_artifact(REPORT, name="inspection.txt")
    child = await branch.fork("child")
    before = await asked(child, "Which turbine vibrates at 47 hertz?")
    await branch.put_artifact("turbine, hertz, 47", name="later.txt")
    await converse(branch, 40, start=31)
    await compact_all(pool, branch.branch_uuid)
    after = await asked(child, "Which turbine vibrates at 47 hertz?")
    assert after.messages == before.messages


async def test_an_artifact_that_is_put_after_the_fork_is_not_the_childs(
    make_client: Any, pool: Pool
):
    """Though no turn came between and all turns are compacted."""
    client = await make_client(CompactionPolicy(keep_raw_turns=0))
    branch = await client.open_branch("files")
    await remembered(branch, pool, 30)
    child = await branch.fork("child")
    await branch.put_artifact(REPORT, name="inspection.txt")
    await compact_all(pool, branch.branch_uuid, branch.policy)
    assert "47 hertz" in await found(branch, "Which turbine vibrates at 47 hertz?")
    assert await found(child, "Which turbine vibrates at 47 hertz?") == ""


async def test_an_artifact_of_an_earlier_turn_is_found_as_a_fork_made_there_finds_it(
    client: ContextClient, pool: Pool
):
    """A fork made at 31 has turns up to 24 compacted, and the artifact is of turn 30."""
    branch = await client.open_branch("files")
    await converse(branch, 30)
    await branch.put_artifact(REPORT, name="inspection.txt")
    await converse(branch, 40, start=31)
    await compact_all(pool, branch.branch_uuid)
    for at_turn in (29, 30, 31, 40):
        child = await branch.fork(f"at {at_turn}", at_turn=at_turn)
        message = "Which turbine vibrates at 47 hertz?"
        here = await asked(branch, message, at_turn=at_turn)
        assert here.messages == (await asked(child, message)).messages
        assert ("47 hertz" in retrieved(here)) is (at_turn == 40)


async def test_an_artifact_that_is_indexed_before_any_leaf_is_found(
    client: ContextClient, pool: Pool
):
    branch = await client.open_branch("files")
    await converse(branch, 3)
    artifact = await branch.put_artifact(REPORT, name="inspection.txt")
    await compact_once(pool, branch.branch_uuid, branch.policy)
    text = await found(branch, "Which turbine vibrates at 47 hertz?")
    assert artifact.handle in text and "vibrates at 47 hertz" in text
