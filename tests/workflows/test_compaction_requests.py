"""Hints are bounded, harmless when lost, paced, and logged once; requests say why they failed."""

import asyncio
import base64
import logging
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError

from durable_context import Branch, ContextClient
from durable_context.compaction import requests as module
from durable_context.compaction.requests import CompactionRequests, register_search_attributes
from durable_context.contracts import (
    COMPACTION_WORKFLOW,
    SEARCH_ATTRIBUTES,
    CompactionRequest,
    TurnHint,
    compaction_workflow_id,
)
from durable_context.errors import CompactionTimeout, CompactionUnavailable
from tests.workflows.orchestration import QUICK, Orchestration, StartWorker, record
from worker.free_ports import free_ports


@pytest.fixture
async def silent_address() -> AsyncIterator[str]:
    """Somebody who takes connections and never answers."""
    held: list[asyncio.StreamWriter] = []

    async def hold(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()
    for writer in held:
        writer.close()


def refused_address() -> str:
    [port] = free_ports(1)
    return f"127.0.0.1:{port}"


def request() -> CompactionRequest:
    return CompactionRequest(tenant="default", branch_uuid=uuid4(), policy=QUICK)


async def test_a_hint_to_nobody_returns_false_in_time(silent_address: str) -> None:
    for address in (silent_address, refused_address()):
        requests = CompactionRequests(address)
        await requests.hint(request(), 1, timedelta(0))  # imports temporalio
        requests = CompactionRequests(address)
        before = time.monotonic()
        assert not await requests.hint(request(), 1, timedelta(0))
        assert time.monotonic() - before < 0.8


async def test_an_outage_is_logged_once_and_the_circuit_opens(
    silent_address: str, caplog: pytest.LogCaptureFixture
) -> None:
    requests = CompactionRequests(silent_address)
    with caplog.at_level(logging.INFO, logger=module.__name__):
        for _ in range(5):
            assert not await requests.hint(request(), 1, timedelta(0))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    before = time.monotonic()
    assert not await requests.hint(request(), 1, timedelta(0))
    assert time.monotonic() - before < 0.05


async def test_hints_work_again_after_an_outage(
    branch: Branch,
    orchestration: Orchestration,
    start_worker: StartWorker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The address is taken over by a real server, through a plain TCP relay."""
    monkeypatch.setattr(module, "CIRCUIT_OPEN_SECONDS", 0.2)
    [port] = free_ports(1)
    requests = CompactionRequests(f"127.0.0.1:{port}", task_queue=orchestration.task_queue)
    await record(branch, 8)
    assert not await requests.hint(orchestration.request(branch), 8, timedelta(0))
    target = orchestration.client.service_client.config.target_host
    async with _relay(port, target), start_worker():
        for _ in range(50):
            if await requests.hint(orchestration.request(branch), 8, timedelta(0)):
                break
            await asyncio.sleep(0.2)
        assert (await orchestration.result(branch)).checkpoint_turn == 6


async def test_recording_goes_on_while_temporal_is_away(database_url: str) -> None:
    async with await ContextClient.connect(database_url, temporal=refused_address()) as client:
        branch = await client.open_branch("conversation")
        before = time.monotonic()
        await record(branch, 20)
        assert time.monotonic() - before < 5
        assert (await branch.inspect()).head_turn == 20


async def test_compact_now_says_at_once_that_temporal_is_away() -> None:
    requests = CompactionRequests(refused_address())
    before = time.monotonic()
    with pytest.raises(CompactionUnavailable):
        await requests.compact_now(request(), timedelta(minutes=1))
    assert time.monotonic() - before < 6


async def test_compact_now_is_bounded_when_no_worker_runs(
    branch: Branch, orchestration: Orchestration
) -> None:
    await record(branch, 8)
    before = time.monotonic()
    with pytest.raises(CompactionTimeout):
        await orchestration.requests.compact_now(
            orchestration.request(branch, reason="request"), timedelta(seconds=1)
        )
    assert time.monotonic() - before < 2


async def test_compact_now_is_bounded_by_a_server_that_never_answers(silent_address: str) -> None:
    requests = CompactionRequests(silent_address)
    before = time.monotonic()
    with pytest.raises(CompactionTimeout):
        await requests.compact_now(request(), timedelta(seconds=0.5))
    assert time.monotonic() - before < 0.8


async def test_compact_now_can_be_cancelled(branch: Branch, orchestration: Orchestration) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await orchestration.compact(branch)


async def test_hints_in_the_background_are_paced_and_the_last_one_is_sent(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    policy = QUICK.model_copy(update={"debounce": timedelta(seconds=1)})
    await record(branch, 8)
    for turn in range(1, 31):
        orchestration.requests.hint_later(
            orchestration.request(branch, policy), turn, policy.debounce
        )
        await asyncio.sleep(0.01)
    await orchestration.requests.close()
    async with start_worker():
        assert (await orchestration.result(branch)).checkpoint_turn == 6
    history = (await orchestration.history(branch)).to_json_dict()
    signals = [
        event["workflowExecutionSignaledEventAttributes"]["input"]
        for event in history["events"]
        if event["eventType"] == "EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED"
    ]
    assert [_hinted(signal) for signal in signals] == [1, 30]


async def test_registering_search_attributes_twice_is_harmless(
    orchestration: Orchestration,
) -> None:
    await register_search_attributes(orchestration.client)
    assert await register_search_attributes(orchestration.client) == []


async def test_hints_work_where_no_search_attribute_is_registered(
    branch: Branch, orchestration: Orchestration
) -> None:
    client = await _client_of_new_namespace(orchestration.client)
    requests = CompactionRequests(client, task_queue=orchestration.task_queue)
    assert await requests.hint(orchestration.request(branch), 1, timedelta(0))
    workflow_id = compaction_workflow_id(branch.branch_uuid)
    description = await client.get_workflow_handle(workflow_id).describe()
    assert description.workflow_type == COMPACTION_WORKFLOW
    assert not set(SEARCH_ATTRIBUTES) & {
        pair.key.name for pair in description.typed_search_attributes
    }


def _hinted(signal: dict[str, Any]) -> int:
    [payload] = signal["payloads"]
    return TurnHint.model_validate_json(base64.b64decode(payload["data"])).turn_no


async def _client_of_new_namespace(client: Client) -> Client:
    name = f"test-{uuid4().hex}"
    await client.workflow_service.register_namespace(
        RegisterNamespaceRequest(
            namespace=name, workflow_execution_retention_period=Duration(seconds=86_400)
        )
    )
    config = client.config() | {"namespace": name}
    other = Client(**config)
    async with asyncio.timeout(30):
        while True:  # a new namespace takes a moment to be known everywhere
            try:
                await other.count_workflows()
                return other
            except RPCError:
                await asyncio.sleep(0.1)


class _relay:
    """A TCP relay from a port to an address, for as long as the block lasts."""

    def __init__(self, port: int, target: str) -> None:
        self._port = port
        self._host, _, self._target_port = target.rpartition(":")

    async def __aenter__(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self._port)

    async def __aexit__(self, *exc_info: object) -> None:
        self._server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        other_reader, other_writer = await asyncio.open_connection(
            self._host, int(self._target_port)
        )
        await asyncio.gather(
            _copy(reader, other_writer), _copy(other_reader, writer), return_exceptions=True
        )


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    writer.close()
