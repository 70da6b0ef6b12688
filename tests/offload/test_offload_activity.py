"""The activity in a real Temporal server: nothing twice, and nothing that was said in a history."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Literal
from uuid import UUID, uuid4

import pytest
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.worker import Worker

from activities.compaction import CompactionActivities
from activities.offload import OffloadActivities
from activities.sweep import SweepActivities
from durable_context import Branch, ContextClient
from durable_context.compaction.compactor import Compactor
from durable_context.contracts import (
    SUMMARY_TASK_QUEUE,
    OffloadedMessages,
    OffloadParameters,
    OffloadRequest,
)
from durable_context.database import Pool
from durable_context.offload.durable import DurableOffload
from durable_context.summarizers import Summarizer, SummaryDraft, SummaryRequest
from durable_context.summarizers.extractive import ExtractiveSummarizer
from tests.offload.offload_worker import RUNNING, STALLED, OffloadOnce, OffloadSetup
from tests.offload.talks import Messages, Scripted, check_exchanges, talk
from tests.workflows.killed_workers import ROOT, WorkerProcess
from tests.workflows.test_histories import PAYLOAD_BYTES, payloads
from worker.service import make_workers
from worker.settings import Settings

TIGHT = OffloadParameters(max_total_tokens=300, compact_ratio_threshold=0)
Handle = WorkflowHandle[OffloadOnce, OffloadedMessages]


class Offloading:
    """Temporal as one test sees it: a workflow of the caller's, and workers for the activity."""

    def __init__(self, client: Client, pool: Pool) -> None:
        self.client = client
        self.queue = f"test-{uuid4().hex}"
        self.activity_queue = f"{self.queue}-summaries"
        self._pool = pool

    @asynccontextmanager
    async def worker(self, summarizer: Summarizer | None = None) -> AsyncIterator[None]:
        offloads = DurableOffload(self._pool, summarizer or ExtractiveSummarizer())
        activities = [OffloadActivities(offloads).offload]
        async with Worker(self.client, task_queue=self.activity_queue, activities=activities):
            yield

    async def start(self, request: OffloadRequest) -> Handle:
        return await self.client.start_workflow(
            OffloadOnce.run,
            args=[request, self.activity_queue],
            id=f"offload-{uuid4().hex}",
            task_queue=self.queue,
        )

    async def run(self, request: OffloadRequest) -> OffloadedMessages:
        return await (await self.start(request)).result()


@pytest.fixture
async def offloading(temporal: Client, pool: Pool) -> AsyncIterator[Offloading]:
    found = Offloading(temporal, pool)
    async with Worker(temporal, task_queue=found.queue, workflows=[OffloadOnce]):
        yield found


async def asked(branch: Branch, messages: Any = None, **parameters: Any) -> OffloadRequest:
    text = json.dumps(talk(4, 800) if messages is None else messages)
    artifact = await branch.put_artifact(text, name="messages", media_type="application/json")
    return OffloadRequest(
        tenant="default",
        branch_uuid=branch.branch_uuid,
        messages=artifact.handle,
        parameters=TIGHT.model_copy(update=parameters),
    )


async def read(branch: Branch, answer: OffloadedMessages) -> Messages:
    content = (await branch.load_artifact(answer.messages)).content
    assert isinstance(content, str)
    return json.loads(content)


async def check_once(branch: Branch) -> None:
    """Each content was put once."""
    for artifact in await branch.artifacts():
        if artifact.name != "messages":
            assert len(await branch.artifact_history(artifact.name or "")) == 1, artifact.name


async def test_messages_are_offloaded_and_no_payload_tells_of_them(
    branch: Branch, offloading: Offloading
) -> None:
    async with offloading.worker():
        handle = await offloading.start(await asked(branch))
        answer = await handle.result()
    assert (answer.compacted, answer.compressed, answer.failed, answer.changed) == (4, 1, 0, True)
    messages = await read(branch, answer)
    check_exchanges(talk(4, 800), messages)
    assert answer.tokens_after < answer.tokens_before / 10 and messages[-1] == talk(4, 800)[-1]
    history = await handle.fetch_history()
    assert max(len(payload) for payload in payloads(history)) < PAYLOAD_BYTES
    assert not any(word in history.to_json() for word in ("SHP-", "row 0", "Rotterdam"))


@pytest.mark.parametrize("stall_at", ["summary", "end"])
async def test_a_worker_killed_midway_costs_nothing_twice(
    stall_at: Literal["summary", "end"], branch: Branch, offloading: Offloading, database_url: str
) -> None:
    setup = OffloadSetup(
        database_url=database_url,
        temporal_address=offloading.client.service_client.config.target_host,
        task_queue=offloading.activity_queue,
        stall_at=stall_at,
    )
    async with killed_worker(setup) as worker:
        handle = await offloading.start(await asked(branch))
        await worker.said(STALLED)
    before = {artifact.handle for artifact in await branch.artifacts()}
    assert len(before) == (5 if stall_at == "summary" else 9)
    summarizer = Scripted()
    async with offloading.worker(ExtractiveSummarizer() if stall_at == "end" else summarizer):
        answer = await handle.result()
    after = {artifact.handle for artifact in await branch.artifacts()}
    assert before <= after and (before == after) == (stall_at == "end")
    assert len(summarizer.requests) == (stall_at == "summary")
    assert answer.changed and not answer.failed
    await check_once(branch)


@asynccontextmanager
async def killed_worker(setup: OffloadSetup) -> AsyncIterator[WorkerProcess]:
    command = [sys.executable, "-m", "tests.offload.offload_worker", setup.model_dump_json()]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, cwd=ROOT
    )
    async with AsyncExitStack() as stack:
        worker = WorkerProcess(process)
        stack.push_async_callback(worker.kill)
        await worker.said(RUNNING)
        yield worker


async def test_the_same_request_has_the_same_answer_and_asks_no_model_again(
    branch: Branch, offloading: Offloading
) -> None:
    request = await asked(branch)
    summarizer = Scripted()
    async with offloading.worker(summarizer):
        first, again = await offloading.run(request), await offloading.run(request)
    assert first == again and len(summarizer.requests) == 1
    await check_once(branch)


async def test_the_same_request_at_the_same_time_has_one_answer(
    branch: Branch, offloading: Offloading, pool: Pool
) -> None:
    class Counting(Scripted):
        async def summarize(self, request: SummaryRequest) -> SummaryDraft:
            self.text = f"The user asked for shipments, {len(self.requests)}."
            return await super().summarize(request)

    request, offloads = await asked(branch), DurableOffload(pool, Counting())
    answers = await asyncio.gather(*(offloads.run(request) for _ in range(8)))
    assert {await offloads.run(request)} == set(answers)
    assert (await offloads.run(request.model_copy(update={"messages": answers[0].messages}))) == (
        answers[0].model_copy(
            update={
                "tokens_before": answers[0].tokens_after,
                "compacted": 0,
                "compressed": 0,
                "changed": False,
            }
        )
    )


async def test_what_others_put_in_the_place_of_an_answer_is_none(
    branch: Branch, client: ContextClient, pool: Pool
) -> None:
    offloads = DurableOffload(pool, ExtractiveSummarizer())
    await offloads.run((await asked(branch)).model_copy(update={"chat_id": "chat"}))
    elsewhere = await client.open_branch("elsewhere")
    for artifact in await branch.artifacts():
        if "answer" in (artifact.name or ""):
            await elsewhere.put_artifact("no answer", name=artifact.name or "")
    request = (await asked(elsewhere)).model_copy(update={"chat_id": "chat"})
    found = await offloads.run(request)
    assert (found.compacted, found.compressed, found.failed) == (4, 1, 0)
    assert await read(elsewhere, found) and await offloads.run(request) == found


async def test_a_second_run_changes_nothing(branch: Branch, offloading: Offloading) -> None:
    for ratio in (0.0, 0.75):
        request = await asked(branch, compact_ratio_threshold=ratio)
        async with offloading.worker():
            first = await offloading.run(request)
            again = await offloading.run(request.model_copy(update={"messages": first.messages}))
        assert first.changed and not again.changed and again.messages == first.messages
        assert again.tokens_before == again.tokens_after == first.tokens_after


async def test_messages_under_the_threshold_are_handed_back(
    branch: Branch, offloading: Offloading
) -> None:
    request = await asked(branch, max_total_tokens=1_000_000)
    async with offloading.worker():
        answer = await offloading.run(request)
    assert answer.messages == request.messages and not answer.changed
    await check_once(branch)


async def test_what_a_summarizer_fails_at_is_counted_and_tried_again_by_the_next_request(
    branch: Branch, offloading: Offloading
) -> None:
    request = await asked(branch)
    async with offloading.worker(Scripted("Error: 503 service unavailable")):
        failed = await offloading.run(request)
    assert (failed.compacted, failed.compressed, failed.failed) == (4, 0, 1)
    async with offloading.worker(Scripted()):
        assert (await offloading.run(request)).failed == 0


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ("no JSON", "InvalidArgument"),
        ('{"role": "user"}', "InvalidArgument"),
        ("[" * 100_000 + "]" * 100_000, "InvalidArgument"),
        ('[{"role": "robot", "content": "a secret plan"}]', "InvalidArgument"),
    ],
)
async def test_what_are_no_messages_fails_for_good_and_is_not_quoted(
    content: str, kind: str, branch: Branch, offloading: Offloading
) -> None:
    artifact = await branch.put_artifact(content, name="messages")
    request = (await asked(branch)).model_copy(update={"messages": artifact.handle})
    error = await _failure(offloading, request)
    assert (error.type, error.non_retryable) == (kind, True)
    assert "secret" not in str(error)


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"messages": "art_" + "0" * 22}, "ArtifactNotFound"),
        ({"messages": "../messages"}, "ArtifactNotFound"),
        ({"branch_uuid": UUID(int=7)}, "UnknownBranch"),
        ({"tenant": "another"}, "UnknownBranch"),
        ({"tenant": "\0"}, "InvalidId"),
        ({"tenant": ""}, "InvalidId"),
        ({"parameters": OffloadParameters(max_total_tokens=0)}, "InvalidArgument"),
    ],
)
async def test_what_is_not_there_or_not_allowed_fails_for_good(
    change: dict[str, Any], kind: str, branch: Branch, offloading: Offloading
) -> None:
    error = await _failure(offloading, (await asked(branch)).model_copy(update=change))
    assert (error.type, error.non_retryable) == (kind, True)


async def _failure(offloading: Offloading, request: OffloadRequest) -> ApplicationError:
    async with offloading.worker():
        with pytest.raises(WorkflowFailureError) as failure:
            await offloading.run(request)
    assert isinstance(failure.value.cause, ActivityError)
    assert isinstance(failure.value.cause.cause, ApplicationError)
    return failure.value.cause.cause


async def test_the_worker_offers_it_where_summaries_are_made(
    branch: Branch, offloading: Offloading, pool: Pool, database_url: str
) -> None:
    summarizer = ExtractiveSummarizer()
    compactor = Compactor(pool, summarizer)
    _, summaries = make_workers(
        offloading.client,
        CompactionActivities(compactor),
        OffloadActivities(DurableOffload(pool, summarizer)),
        SweepActivities(pool, summarizer.recipe),
        Settings.from_env({"DURABLE_CONTEXT_DATABASE_URL": database_url}),
    )
    offloading.activity_queue = SUMMARY_TASK_QUEUE
    request = await asked(branch)
    async with summaries:
        assert (await offloading.run(request)).changed
