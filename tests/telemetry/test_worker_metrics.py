"""What compactions count: each thing once, however often a step is repeated."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from opentelemetry.trace import SpanKind, StatusCode
from pydantic_ai import Agent

from durable_context import Branch, CompactionPolicy, ContextClient
from durable_context.compaction.compactor import Compactor
from durable_context.compaction.counting import count_nothing
from durable_context.contracts import (
    CommitRequest,
    Plan,
    PlanRequest,
    SummarizeRequest,
    SummarizeResult,
)
from durable_context.database import Pool
from durable_context.errors import (
    StalePlan,
    SummarizerError,
    SummarizerRejected,
    SummarizerUnavailable,
)
from durable_context.summarizers import Summarizer
from durable_context.summarizers.chain import SummarizerChain
from durable_context.summarizers.extractive import ExtractiveSummarizer
from durable_context.summarizers.model import ModelSummarizer
from durable_context.telemetry.recipes import named_by_caller
from tests import model_server
from tests.captured_telemetry import CapturedTelemetry
from tests.compacting import compact_all, compact_once
from tests.compaction.scripted import ScriptedSummarizer
from tests.model_server import ModelServer, Reply
from tests.rebuilding import RebuildSteps
from tests.segments import booking, leaf
from tests.turns import numbered

POLICY = CompactionPolicy(segment_turns=2, keep_raw_turns=0, degrade_after=timedelta(0))
COMPACTIONS = "durable_context.compactions"
SUMMARIES = "durable_context.summaries"
DURATION = "durable_context.summarizer.duration"
CALLS = "durable_context.summarizer.calls"
SPENT = "durable_context.summarizer.tokens"
COST = "durable_context.summarizer.cost"
MODEL = "model/openai:gpt-4o-mini/1"


@pytest.fixture
async def branch(client: ContextClient) -> Branch:
    branch = await client.open_branch("conversation")
    for number in range(1, 5):
        await branch.record_turn(numbered(number))
    return branch


@pytest.fixture
async def model() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


class Steps:
    """Of a compaction, which a test may repeat."""

    def __init__(self, pool: Pool, branch: Branch, summarizer: Summarizer, **options: Any) -> None:
        self._compactor = Compactor(pool, summarizer, **options)
        self._target: dict[str, Any] = {
            "tenant": "default",
            "branch_uuid": branch.branch_uuid,
            "policy": POLICY,
        }

    async def plan(self) -> Plan:
        return await self._compactor.plan(PlanRequest(**self._target))

    async def summarize(self, plan: Plan) -> SummarizeResult:
        of_plan = self._target | {"compaction_id": plan.compaction_id}
        return await self._compactor.summarize(SummarizeRequest(**of_plan, node=plan.nodes[0]))

    async def commit(self, plan: Plan, times: int) -> None:
        of_plan = self._target | {"compaction_id": plan.compaction_id}
        for _ in range(times):
            made = await self.summarize(plan)
        request = CommitRequest(
            **of_plan, checkpoint_turn=plan.checkpoint_turn, summary_ids=(made.summary_id,)
        )
        for _ in range(times):
            await self._compactor.commit(request)


async def test_a_repeated_commit_counts_once(
    pool: Pool, branch: Branch, telemetry: CapturedTelemetry
) -> None:
    steps = Steps(pool, branch, ScriptedSummarizer())
    await steps.commit(await steps.plan(), times=3)
    [summary] = await branch.summaries()
    completed = {"state": "completed", "reason": "turn"}
    assert telemetry.value(COMPACTIONS, **completed) == 1
    before, after = f"{COMPACTIONS[:-1]}.tokens_before", f"{COMPACTIONS[:-1]}.tokens_after"
    assert telemetry.value(before, reason="turn") == summary.covered_tokens
    assert telemetry.value(after, reason="turn") == summary.token_count
    made = {"recipe": "scripted/1", "level": "0", "degraded": False}
    assert telemetry.value(SUMMARIES) == telemetry.value(SUMMARIES, **made) == 1
    assert telemetry.count(DURATION, recipe="scripted/1", outcome="made") == 1


async def test_of_two_who_make_the_same_node_one_counts(
    pool: Pool, branch: Branch, telemetry: CapturedTelemetry
) -> None:
    summarizer = ScriptedSummarizer()
    summarizer.gate.clear()
    steps = Steps(pool, branch, summarizer)
    plan = await steps.plan()
    summarizer.before = lambda: summarizer.gate.set() if len(summarizer.asked) == 2 else None
    first, second = await asyncio.gather(steps.summarize(plan), steps.summarize(plan))
    assert first.summary_id == second.summary_id
    assert telemetry.value(SUMMARIES) == 1
    assert telemetry.count(DURATION, outcome="made") == 2


async def test_what_nobody_can_make_has_failed_once(
    pool: Pool, branch: Branch, telemetry: CapturedTelemetry
) -> None:
    rejected = [SummarizerRejected("no"), SummarizerRejected("no")]
    summarizer = ScriptedSummarizer(*rejected)
    steps = Steps(pool, branch, summarizer, fallback=summarizer)
    plan = await steps.plan()
    for _ in rejected:
        with pytest.raises(SummarizerRejected):
            await steps.commit(plan, times=1)
    assert telemetry.value(COMPACTIONS, state="failed", reason="turn") == 1
    assert telemetry.count(DURATION, outcome="rejected") == 2
    assert telemetry.value(SUMMARIES) == 0


async def test_what_the_branch_left_behind_has_failed(
    pool: Pool, branch: Branch, telemetry: CapturedTelemetry
) -> None:
    steps = Steps(pool, branch, ScriptedSummarizer())
    plan = await steps.plan()
    other = POLICY.model_copy(update={"segment_turns": 3})
    assert await compact_once(pool, branch.branch_uuid, other)
    with pytest.raises(StalePlan):
        await steps.commit(plan, times=1)
    assert telemetry.value(COMPACTIONS, state="failed", reason="turn") == 1
    assert telemetry.value(COMPACTIONS, state="completed", reason="turn") == 1


async def test_that_nothing_was_due_is_skipped_once_until_something_happens(
    pool: Pool, branch: Branch, telemetry: CapturedTelemetry
) -> None:
    await compact_all(pool, branch.branch_uuid, POLICY)  # its last look finds nothing
    for _ in range(3):
        await Steps(pool, branch, ExtractiveSummarizer()).plan()
    assert telemetry.value(COMPACTIONS, state="skipped", reason="turn") == 1


async def test_a_stand_in_is_degraded_in_the_name_of_who_was_asked(
    pool: Pool, branch: Branch, telemetry: CapturedTelemetry
) -> None:
    summarizer = ScriptedSummarizer(SummarizerUnavailable("away"))
    assert await compact_once(pool, branch.branch_uuid, POLICY, summarizer=summarizer)
    assert telemetry.value(SUMMARIES, recipe="scripted/1", degraded=True) == 1
    assert telemetry.count(DURATION, recipe="scripted/1", outcome="failed") == 1


async def test_what_a_rule_makes_of_an_artifact_is_not_in_the_name_of_a_model(
    pool: Pool, branch: Branch, telemetry: CapturedTelemetry
) -> None:
    summarizer = ScriptedSummarizer(SummarizerUnavailable("away"))
    media_type = "application/octet-stream"
    await branch.put_artifact(bytes(range(256)), name="x", media_type=media_type)
    await branch.record_turn(numbered(5))
    await branch.record_turn(numbered(6))
    await compact_all(pool, branch.branch_uuid, POLICY, summarizer)
    assert telemetry.value(SUMMARIES, recipe="rule/1", level="artifact", degraded=False) == 1
    assert telemetry.value(SUMMARIES, recipe="scripted/1", level="artifact") == 0


async def test_a_rebuild_counts_the_nodes_it_replaced(
    pool: Pool, branch: Branch, telemetry: CapturedTelemetry
) -> None:
    assert await compact_all(pool, branch.branch_uuid, POLICY) == 2
    telemetry.clear()
    rebuild = RebuildSteps(
        pool, branch.branch_uuid, ScriptedSummarizer(), "rebuild", POLICY, to_turn=4
    )
    await rebuild.all()
    assert telemetry.value(COMPACTIONS, state="completed", reason="rebuild") == 2
    assert telemetry.value(COMPACTIONS) == 2
    assert telemetry.value(SUMMARIES, recipe="scripted/1") == 2


async def test_calls_count_with_what_they_cost_whatever_came_of_them(
    model: ModelServer, telemetry: CapturedTelemetry
) -> None:
    summarizer = ModelSummarizer("openai:gpt-4o-mini", base_url=model.base_url)
    model.script(model_server.unauthorized(), model_server.bad_json())
    for _ in range(2):
        with pytest.raises(SummarizerError):
            await summarizer.summarize(leaf(booking()))
    assert telemetry.value(CALLS, recipe=MODEL, outcome="rejected") == 1
    assert telemetry.value(CALLS, recipe=MODEL, outcome="invalid") == 1
    draft = await summarizer.summarize(leaf(booking()))
    assert telemetry.value(CALLS, recipe=MODEL, outcome="ok") == 1
    [call] = draft.attempts
    paid = telemetry.value(SPENT, recipe=MODEL, direction="input")
    assert paid > call.input_tokens > 0  # the answer that was no JSON was paid for
    assert telemetry.value(SPENT, recipe=MODEL, direction="output") > call.output_tokens
    assert 0 < telemetry.value(COST, recipe=MODEL) < 0.01


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (model_server.failed(500, None, "SECRET"), "500"),
        (model_server.unauthorized(), "401"),
        (model_server.bad_json(), "UnexpectedModelBehavior"),
        (model_server.dropped(), "ModelConnectionError"),
    ],
)
async def test_a_call_that_failed_is_an_error_of_a_kind_and_says_no_more(
    model: ModelServer, telemetry: CapturedTelemetry, reply: Reply, kind: str
) -> None:
    model.script(reply)
    summarizer = ModelSummarizer("openai:gpt-4o-mini", base_url=model.base_url)
    with pytest.raises(SummarizerError):
        await summarizer.summarize(leaf(booking()))
    call = telemetry.span("chat gpt-4o-mini")
    assert call.kind is SpanKind.CLIENT
    assert call.status.status_code is StatusCode.ERROR and call.status.description is None
    assert dict(call.attributes or {})["error.type"] == kind
    assert not call.events
    assert "SECRET" not in telemetry.everything()


async def test_a_program_that_has_its_agents_told_of_is_told_nothing_of_what_ours_read(
    model: ModelServer, telemetry: CapturedTelemetry
) -> None:
    Agent.instrument_all()
    try:
        summarizer = ModelSummarizer("openai:gpt-4o-mini", base_url=model.base_url)
        await summarizer.summarize(leaf(booking()))
    finally:
        Agent.instrument_all(False)
    assert telemetry.span("chat gpt-4o-mini").kind is SpanKind.CLIENT  # the only one
    assert "gen_ai.input.messages" not in telemetry.everything()
    assert not telemetry.spans("invoke_agent agent")


async def test_of_models_that_callers_name_only_those_that_are_configured_are_told(
    pool: Pool, branch: Branch, telemetry: CapturedTelemetry
) -> None:
    ours = SummarizerChain([ScriptedSummarizer(), ScriptedSummarizer(recipe="second/1")])
    await compact_all(pool, branch.branch_uuid, POLICY, ours)
    nodes = telemetry.value(SUMMARIES, recipe=ours.recipe)
    for recipe, label in (("kanari/1", "other"), ("second/1", "second/1")):
        steps = RebuildSteps(
            *(pool, branch.branch_uuid, ours, "rebuild", POLICY), summarizers=("model:any:one",)
        )
        named = partial(ScriptedSummarizer, recipe=recipe)
        steps.compactor = Compactor(pool, ours, make_summarizer=lambda _, named=named: named())
        await steps.all()
        assert telemetry.value(SUMMARIES, recipe=label) == nodes > 0
        assert telemetry.count(DURATION, recipe=label) == nodes
    assert "kanari" not in str(telemetry.points(SUMMARIES) + telemetry.points(DURATION))


async def test_calls_of_models_that_callers_name_are_not_told_by_name(
    model: ModelServer, telemetry: CapturedTelemetry
) -> None:
    with named_by_caller(MODEL):
        for name in ("gpt-4o-mini", "kanari"):
            summarizer = ModelSummarizer(f"openai:{name}", base_url=model.base_url)
            await summarizer.summarize(leaf(booking()))
    assert telemetry.value(CALLS, recipe=MODEL) == telemetry.value(CALLS, recipe="other") == 1
    assert "kanari" not in str(telemetry.points(CALLS) + telemetry.points(SPENT))


def test_every_kind_of_end_is_there_before_there_is_one(telemetry: CapturedTelemetry) -> None:
    count_nothing()
    assert len(telemetry.points(COMPACTIONS)) == 18
    assert telemetry.value(COMPACTIONS) == 0
