"""A stack as an operator finds it: conversations with compactions, a fork, a rebuild, a run that
failed. PostgreSQL, Temporal with its UI and the worker are real; a model is made up.
"""

import contextlib
import os
import re
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from durable_context import Branch, Budget, CompactionPolicy, ContextClient, PreparedContext
from durable_context.compaction.requests import CompactionRequests
from durable_context.contracts import COMPACTION_TASK_QUEUE, CompactionRequest
from durable_context.errors import CompactionFailed
from durable_context.sweeps.schedule_calls import ScheduleCalls
from durable_context.transcripts import TranscriptTurn, read_transcripts
from tests.model_server import (
    ModelServer,
    ReceivedRequest,
    Reply,
    answers,
    rate_limited,
    unauthorized,
)
from tests.turns import numbered
from worker.embedded import EmbeddedStack

CONVERSATION = "brightwater"
FORK = "sea-freight"
REMOVED = UUID("00000000-0000-4000-8000-00000000dead")
"""A branch that is not in the database: its compaction fails."""
# Of a model that has a price. The server that answers is the tests' own.
SUMMARIZER = "model:openai:gpt-4o-mini"
POLICY = CompactionPolicy(
    debounce=timedelta(0),
    retry_interval=timedelta(milliseconds=500),
    degrade_after=timedelta(seconds=20),
    expose_ids=True,
)
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-zäöü]{4,}")
BUDGET = Budget(max_tokens=12_000)
PATIENCE = timedelta(minutes=2)
TRANSCRIPT = Path(__file__).parents[2] / "examples" / "conversation.json"


@dataclass(frozen=True)
class LiveStack:
    """`client` compacts by `POLICY`. `main` is the branch of 60 turns, `fork` leaves it at 30."""

    database_url: str
    artifact_url: str
    temporal_address: str
    temporal_namespace: str
    temporal_ui_url: str
    temporal: Client
    client: ContextClient
    main: Branch
    fork: Branch
    model: ModelServer


def open_directory() -> Path:
    """A new one. Under root PostgreSQL runs as another user, who must be able to come here."""
    directory = Path(tempfile.mkdtemp(prefix="durable-context-"))
    directory.chmod(0o711)
    return directory


@contextlib.asynccontextmanager
async def live_stack(directory: Path) -> AsyncGenerator[LiveStack]:
    """Takes about a minute; `directory` keeps the data."""
    async with contextlib.AsyncExitStack() as exits:
        model = await exits.enter_async_context(ModelServer(_Model()))
        variables = {
            "DURABLE_CONTEXT_MODEL_BASE_URL": model.base_url,
            "DURABLE_CONTEXT_POLICY": POLICY.model_dump_json(),
            "OPENAI_API_KEY": "made-up",
        }
        exits.enter_context(_environment(variables))
        stack = await exits.enter_async_context(EmbeddedStack(directory, [SUMMARIZER]))
        yield await exits.enter_async_context(_filled(stack, model))


@contextlib.asynccontextmanager
async def _filled(stack: EmbeddedStack, model: ModelServer) -> AsyncGenerator[LiveStack]:
    assert stack.ui_url is not None
    temporal = await Client.connect(
        stack.temporal_address,
        namespace=stack.temporal_namespace,
        data_converter=pydantic_data_converter,
    )
    connected = await ContextClient.connect(
        stack.database_url, temporal=temporal, policy=POLICY, artifact_url=stack.artifact_url
    )
    async with connected as client:
        main = await _talked(client)
        fork = await _forked(main, stack)
        await main.rebuild(1, 12, focus="what was promised to customers", timeout=PATIENCE)
        await _others(client)
        await _fail(temporal)
        await ScheduleCalls(temporal, COMPACTION_TASK_QUEUE).trigger("catch-up")
        yield LiveStack(
            stack.database_url,
            stack.artifact_url,
            stack.temporal_address,
            stack.temporal_namespace,
            stack.ui_url,
            temporal,
            client,
            main,
            fork,
            model,
        )


async def _talked(client: ContextClient) -> Branch:
    (transcript,) = read_transcripts(TRANSCRIPT)
    branch = await client.open_branch(CONVERSATION)
    for turn in transcript.turns:
        await _record(branch, turn)
        await branch.wait_until_compacted(timeout=PATIENCE)
    return branch


async def _record(branch: Branch, turn: TranscriptTurn) -> None:
    """Prepared before, so that it is known what the model saw."""
    asked, *_ = turn.messages
    prepared = await branch.prepare(asked, budget=BUDGET)
    assert isinstance(prepared, PreparedContext)
    await branch.record_turn(
        turn.messages, outcome=turn.outcome, occurred_at=turn.occurred_at, prepared=prepared
    )


async def _forked(main: Branch, stack: EmbeddedStack) -> Branch:
    """Recorded without hints, so that one run compacts all of it."""
    fork = await main.fork(FORK, at_turn=30)
    connected = await ContextClient.connect(
        stack.database_url, temporal=None, policy=POLICY, artifact_url=stack.artifact_url
    )
    async with connected as quiet:
        unheard = await quiet.find_branch(CONVERSATION, FORK)
        for number in range(31, 46):
            await unheard.record_turn(numbered(number))
    await fork.compact(timeout=PATIENCE)
    return fork


async def _others(client: ContextClient) -> None:
    """One that waits for nothing, and one that is paused."""
    greeting = await client.open_branch("greeting")
    await greeting.record_turn(numbered(1))
    returns = await client.open_branch("returns")
    await returns.pause("the customer's lawyer looks into it")
    for number in range(1, 13):
        await returns.record_turn(numbered(number))


async def _fail(temporal: Client) -> None:
    requests = CompactionRequests(temporal)
    request = CompactionRequest(
        tenant="default",
        branch_uuid=REMOVED,
        policy=POLICY,
        reason="request",
        label="removed/main",
    )
    try:
        with contextlib.suppress(CompactionFailed):
            await requests.compact_now(request, PATIENCE)
    finally:
        await requests.close()


class _Model:
    """Its first summary takes a second attempt, one in the middle is degraded."""

    def __init__(self) -> None:
        self._failures = {
            "[turns 1-6] of the conversation": rate_limited(retry_after_ms="200"),
            "[turns 25-30] of the conversation": unauthorized(),
        }

    def __call__(self, request: ReceivedRequest) -> Reply:
        for asked in tuple(self._failures):
            if asked in request.text:
                return self._failures.pop(asked)
        return _summary(request)


def _summary(request: ReceivedRequest) -> Reply:
    """Of what is named most often in it, where no sentence begins."""
    names = Counter(_NAME.findall(request.body["messages"][-1]["content"]))
    said = ", ".join(name for name, _ in names.most_common(5)) or "nothing much"
    return answers(f"About {said}", f"They spoke of {said}. What was promised stands as it was.")


@contextlib.contextmanager
def _environment(variables: dict[str, str]) -> Generator[None]:
    """For what the stack starts."""
    before: dict[str, Any] = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
