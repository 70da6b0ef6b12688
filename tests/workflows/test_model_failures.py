"""A model endpoint that fails in each way, end to end: retried, or degraded, never published."""

from datetime import timedelta
from typing import Any

import pytest

from durable_context import Branch
from durable_context.summarizers.extractive import RECIPE
from tests import model_server as server
from tests.model_server import ModelServer, Reply
from tests.workflows.models import model_summarizer
from tests.workflows.orchestration import QUICK, Orchestration, StartWorker, record

# Calls are counted: an answer that a loaded machine brings late must not be asked for again.
PATIENT = QUICK.model_copy(
    update={"degrade_after": timedelta(minutes=2), "summarizer_timeout": timedelta(seconds=4)}
)
IMPATIENT = PATIENT.model_copy(update={"degrade_after": timedelta(milliseconds=200)})
PASSING = {
    "rate limited": server.rate_limited(retry_after_ms="200"),
    "overloaded": server.failed(503),
    "server error": server.failed(500),
    "timeout": server.held(),
    "dropped": server.dropped(),
    "half an answer": server.bad_json(),
    "another schema": server.wrong_schema(),
    "nothing": server.empty(),
    "no choices": server.no_choices(),
    "an error page": server.html(),
    "cut": server.cut_by_length(),
    "an error as the summary": server.answers(text="Error: rate limit exceeded."),
}
FINAL = {
    "bad key": server.unauthorized(),
    "unknown model": server.failed(404, "model_not_found"),
    "no quota": server.out_of_quota(),
    "filtered": server.filtered(),
}


@pytest.mark.parametrize("reply", PASSING.values(), ids=PASSING)
async def test_what_passes_is_retried_until_the_model_answers(
    branch: Branch,
    orchestration: Orchestration,
    start_worker: StartWorker,
    model: ModelServer,
    reply: Reply,
) -> None:
    model.script(reply)
    await record(branch, 8)
    async with start_worker(model_summarizer(model.base_url)):
        result = await orchestration.compact(branch, PATIENT)
    assert result.checkpoint_turn == 6 and result.degraded == 0
    assert model.count == 2 and result.attempts == 2
    [compaction] = await branch.compactions()
    assert _outcomes(compaction.usage)[-1] == "ok" and len(compaction.usage) == 2


@pytest.mark.parametrize("reply", PASSING.values(), ids=PASSING)
async def test_what_does_not_pass_in_time_is_replaced_by_extraction(
    branch: Branch,
    orchestration: Orchestration,
    start_worker: StartWorker,
    model: ModelServer,
    reply: Reply,
) -> None:
    model.always(reply)
    await record(branch, 8)
    async with start_worker(model_summarizer(model.base_url)):
        result = await orchestration.compact(branch, IMPATIENT)
    assert result.degraded == 1 and result.checkpoint_turn == 6
    [summary] = await branch.summaries()
    assert summary.degraded and summary.made_by == RECIPE
    assert summary.recipe == "model/openai:made-up/1"


@pytest.mark.parametrize("reply", FINAL.values(), ids=FINAL)
async def test_what_cannot_pass_is_replaced_after_one_call(
    branch: Branch,
    orchestration: Orchestration,
    start_worker: StartWorker,
    model: ModelServer,
    reply: Reply,
) -> None:
    model.always(reply)
    await record(branch, 8)
    async with start_worker(model_summarizer(model.base_url)):
        result = await orchestration.compact(branch, PATIENT)
    assert result.degraded == 1 and model.count == 1
    [compaction] = await branch.compactions()
    assert compaction.status == "completed" and compaction.attempts == 1


async def test_no_answer_of_a_provider_gets_into_a_history(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker, model: ModelServer
) -> None:
    quoting = server.failed(500, message="Cannot process 'my password is hunter2'")
    model.script(quoting, server.answers(text="hunter2 said: Error: no"), quoting)
    await record(branch, 8)
    async with start_worker(model_summarizer(model.base_url)):
        await orchestration.compact(branch, PATIENT)
        await orchestration.result(branch)
        history = await orchestration.history(branch)
    assert "hunter2" not in history.to_json()


def _outcomes(usage: tuple[dict[str, Any], ...]) -> list[str]:
    return [call["outcome"] for call in usage]
