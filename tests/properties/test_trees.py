"""Invariants 2, 5, 6 and 7 over random trees of records, forks, compactions and artifacts, against
plain lists.
"""

import json
from base64 import b64encode
from typing import Any, TypeAlias
from uuid import UUID, uuid4

import asyncpg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from durable_context import Branch, Budget, BudgetExceeded, CompactionPolicy, ContextClient
from durable_context.database import Pool
from durable_context.errors import ArtifactNotFound
from durable_context.prompts.rendering import is_record
from tests.compacting import compact_all, compact_once
from tests.oracle import WORD, ToldArtifact, ToldBranch, ToldTurn, words
from tests.prompts import check_prompt, raw_turns
from tests.turns import call, calling, result
from tests.unit.test_media import png

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
AMPLE = Budget(max_tokens=1_000_000)
LARGEST_TREE = 8
LINES = {"small": 2, "offloaded": 100, "large": 400}
"""Lines of a result: kept as it is, shown whole while it is raw, and never shown whole."""
TABLES = (
    "branches",
    "lineage",
    "turns",
    "artifacts",
    "summaries",
    "summary_parts",
    "checkpoints",
    "compactions",
    "indexed_documents",
    "postings",
)
FINGERPRINTS = " union all ".join(
    f"select branch_uuid, '{table}' as name, md5(string_agg(t::text, '|' order by t::text))"
    f" from durable_context.{table} t where branch_uuid = any($1) group by branch_uuid"
    for table in TABLES
)

policies = st.builds(
    CompactionPolicy,
    segment_turns=st.integers(2, 4),
    keep_raw_turns=st.integers(0, 3),
    fan_out=st.integers(2, 3),
    run_raw_tokens=st.sampled_from([0, 400, 8_000]),
    summary_max_tokens=st.just(100),
)
kinds = st.sampled_from(
    ["plain", "plain", "small", "offloaded", "large", "image", "interrupted", "begin", "go on"]
)
numbers = st.integers(0, 1_000)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("record"), numbers, st.lists(kinds, min_size=1, max_size=4)),
        st.tuples(st.just("record"), numbers, st.lists(kinds, min_size=1, max_size=4)),
        st.tuples(st.sampled_from(["fork", "restore"]), numbers, numbers),
        st.tuples(st.just("compact"), numbers, st.booleans()),
        st.tuples(st.just("put"), numbers, st.sampled_from(["plan", "notes"])),
        st.tuples(st.just("prepare"), numbers, numbers),
    ),
    min_size=10,
    max_size=20,
)


class Tree:
    """The real branches beside what is told of them."""

    def __init__(self, pool: Pool, connection: Connection, root: Branch) -> None:
        self._pool = pool
        self._connection = connection
        self._words = words()
        self.branches = [(root, ToldBranch("main"))]

    def at(self, number: int) -> tuple[Branch, ToldBranch]:
        return self.branches[number % len(self.branches)]

    async def record(self, number: int, kinds: list[str]) -> None:
        branch, told = self.at(number)
        for kind in kinds:
            word = next(self._words)
            messages = _messages(kind, word)
            outcome = "interrupted" if kind == "interrupted" else "complete"
            turn = await branch.record_turn(
                messages, outcome=outcome, continues=kind in ("begin", "go on")
            )
            assert turn.turn_no == len(told.turns) + 1
            told.turns.append(ToldTurn(word, messages, turn, kind == "large"))
            if kind in ("offloaded", "large", "image"):
                artifact = (await branch.artifacts())[-1]
                assert artifact.turn_no == turn.turn_no
                content = png(64, 48) if kind == "image" else messages[2]["content"]
                told.artifacts.append(ToldArtifact(artifact, content, word))

    async def fork(self, number: int, turn: int) -> None:
        await self._fork(number, turn, restore=False)

    async def restore(self, number: int, turn: int) -> None:
        await self._fork(number, turn, restore=True)

    async def _fork(self, number: int, turn: int, *, restore: bool) -> None:
        if len(self.branches) == LARGEST_TREE:
            return
        branch, told = self.at(number)
        at_turn = turn % (len(told.turns) + 1)
        name = f"branch-{len(self.branches)}"
        fork = branch.restore(at_turn) if restore else branch.fork(name, at_turn=at_turn)
        self.branches.append((await fork, told.fork(name, at_turn)))

    async def compact(self, number: int, all_passes: bool) -> None:
        branch, _ = self.at(number)
        passes = compact_all if all_passes else compact_once
        await passes(self._pool, branch.branch_uuid, branch.policy)

    async def put(self, number: int, name: str) -> None:
        branch, told = self.at(number)
        word = next(self._words)
        content = f"{name} of {word}\nsecond line"
        artifact = await branch.put_artifact(content, name=name)
        versions = [t.artifact for t in told.artifacts if t.artifact.name == name]
        assert artifact.version == len([one for one in versions if one.version]) + 1
        assert artifact.turn_no == len(told.turns)
        told.artifacts.append(ToldArtifact(artifact, content, word))

    async def prepare(self, number: int, turn: int) -> None:
        """The prompt at an earlier turn is that of a fork made there."""
        branch, told = self.at(number)
        at_turn = turn % (len(told.turns) + 1)
        fork = await branch.fork(f"probe-{uuid4().hex}", at_turn=at_turn)
        asked = self._question(turn)
        early = await branch.prepare(asked, budget=AMPLE, at_turn=at_turn)
        forked = await fork.prepare(asked, budget=AMPLE)
        assert early and forked
        assert early.messages == forked.messages
        assert early.manifest.blocks == forked.manifest.blocks
        await self.check(fork, told.fork("probe", at_turn), turn)

    async def check(self, branch: Branch, told: ToldBranch, number: int) -> None:
        turns = await branch.turns()
        assert [turn.messages for turn in turns] == [t.stored.messages for t in told.turns]
        assert [turn.turn_no for turn in turns] == list(range(1, len(told.turns) + 1))
        state = await branch.inspect()
        assert state.head_turn == len(told.turns) and state.open_run_turn == told.open_run()
        if state.checkpoint is not None:
            assert state.checkpoint.turn_no <= len(told.turns) - branch.policy.keep_raw_turns
            covered = [(node.from_turn, node.to_turn) for node in state.frontier]
            starts = [1, *(to_turn + 1 for _, to_turn in covered)]
            assert [*(first for first, _ in covered), state.checkpoint.turn_no + 1] == starts
        await self._check_artifacts(branch, told, number)
        found = [one for hit in await branch.search(self._question(number)) for one in hit.excerpts]
        assert set(WORD.findall(" ".join(found))) <= told.words()
        await self._check_prompt(branch, told, None, number)
        await self._check_prompt(branch, told, number % (len(told.turns) + 1), number)

    async def _check_artifacts(self, branch: Branch, told: ToldBranch, number: int) -> None:
        assert [one.handle for one in await branch.artifacts()] == told.listed()
        everything = [one for _, other in self.branches for one in other.artifacts]
        if not everything:
            return
        one = everything[number % len(everything)]
        if one in told.artifacts:
            loaded = await branch.load_artifact(one.artifact.handle)
            assert loaded.content == one.content
        else:
            with pytest.raises(ArtifactNotFound):
                await branch.load_artifact(one.artifact.handle)

    async def _check_prompt(
        self, branch: Branch, told: ToldBranch, at_turn: int | None, number: int
    ) -> None:
        head = len(told.turns) if at_turn is None else at_turn
        seen = told.fork("", head)
        asked, policy = self._question(number), branch.policy
        prepared = await branch.prepare(asked, budget=AMPLE, at_turn=at_turn)
        assert prepared and prepared == await branch.prepare(asked, budget=AMPLE, at_turn=at_turn)
        check_prompt(prepared, head, policy)
        raw = raw_turns(prepared)
        assert raw == list(range(head - len(raw) + 1, head + 1))
        assert len(raw) >= min(head, policy.keep_raw_turns)
        *said, last = (await prepared.load_parts()).messages
        assert last == {"role": "user", "content": asked}
        assert [m for m in said if not is_record(m["content"])] == seen.raw(raw)
        assert set(WORD.findall(json.dumps(said))) <= seen.words()
        await self._check_smallest(branch, asked, at_turn, head, seen)

    async def _check_smallest(
        self, branch: Branch, asked: str, at_turn: int | None, head: int, seen: ToldBranch
    ) -> None:
        refused = await branch.prepare(asked, budget=Budget(max_tokens=1), at_turn=at_turn)
        assert isinstance(refused, BudgetExceeded)
        budget = Budget(max_tokens=refused.smallest)
        smallest = await branch.prepare(asked, budget=budget, at_turn=at_turn)
        assert smallest
        check_prompt(smallest, head, branch.policy)
        assert set(WORD.findall(json.dumps(smallest.messages[:-1]))) <= seen.words()

    def _question(self, number: int) -> str:
        """About a turn of any branch, so that others' turns would be found if they could be."""
        everything = sorted({word for _, told in self.branches for word in told.words()})
        about = everything[number % len(everything)] if everything else "nothing"
        return f"What did {about} say?"

    async def fingerprints(self) -> dict[tuple[UUID, str], str]:
        ids = [branch.branch_uuid for branch, _ in self.branches]
        rows = await self._connection.fetch(FINGERPRINTS, ids)
        return {(row[0], row[1]): row[2] for row in rows}


def _messages(kind: str, word: str) -> list[dict[str, Any]]:
    asked: dict[str, Any] = {"role": "user", "content": f"Question {word} about order 1042."}
    answer = {"role": "assistant", "content": f"Order 1042 of {word} left Rotterdam."}
    if kind == "plain":
        return [asked, answer]
    if kind == "image":
        url = f"data:image/png;base64,{b64encode(png(64, 48)).decode()}"
        image = {"type": "image_url", "image_url": {"url": url}}
        return [asked | {"content": [{"type": "text", "text": asked["content"]}, image]}, answer]
    request = calling(call("c1", "read_log", word=word))
    if kind == "interrupted":
        return [asked, request]
    if kind == "go on":
        return [request, result("c1", _lines("small", word))]
    size = kind if kind in LINES else "small"
    return [asked, request, result("c1", _lines(size, word)), answer][: 3 if kind == "begin" else 4]


def _lines(size: str, word: str) -> str:
    return "\n".join(f"{word} sensor {n % 13}: reading {n * 7} kPa" for n in range(LINES[size]))


@settings(
    max_examples=25,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking would take an hour
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(policy=policies, trunk=st.lists(kinds, min_size=8, max_size=16), steps=steps)
async def test_every_branch_of_any_tree_is_what_its_lineage_says(
    client: ContextClient,
    pool: Pool,
    connection: Connection,
    policy: CompactionPolicy,
    trunk: list[str],
    steps: list[Any],
):
    client._policy = policy
    tree = Tree(pool, connection, await client.open_branch(uuid4().hex))
    for action, number, argument in [("record", 0, trunk), ("compact", 0, True), *steps]:
        branch, told = tree.at(number)
        before = await tree.fingerprints()
        await getattr(tree, action)(number, argument)
        after = await tree.fingerprints()
        others = {key for key in before if key[0] != branch.branch_uuid}
        assert {key: after[key] for key in others} == {key: before[key] for key in others}
        await tree.check(branch, told, number)
    for number, (branch, told) in enumerate(tree.branches):
        await tree.check(branch, told, number)
        await tree.prepare(number, 7 * number)
