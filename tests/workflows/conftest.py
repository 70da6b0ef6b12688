"""Compaction with real workflows: a task queue per test, workers in this process."""

from collections.abc import AsyncIterator
from functools import partial
from uuid import uuid4

import pytest
from temporalio.client import Client

from durable_context import Branch, ContextClient
from durable_context.compaction.requests import CompactionRequests
from durable_context.database import Pool
from tests.model_server import ModelServer
from tests.workflows.orchestration import Orchestration, StartWorker
from tests.workflows.worker_process import WorkerSetup


@pytest.fixture
async def branch(client: ContextClient) -> Branch:
    return await client.open_branch("conversation")


@pytest.fixture
async def orchestration(temporal: Client) -> AsyncIterator[Orchestration]:
    task_queue = f"test-{uuid4().hex}"
    requests = CompactionRequests(temporal, task_queue=task_queue)
    yield Orchestration(temporal, requests, task_queue)
    await requests.close()


@pytest.fixture
def start_worker(orchestration: Orchestration, pool: Pool) -> StartWorker:
    return partial(orchestration.worker, pool)


@pytest.fixture
async def model() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server
        server.release()


@pytest.fixture
def setup(orchestration: Orchestration, database_url: str) -> WorkerSetup:
    return WorkerSetup(
        database_url=database_url,
        temporal_address=orchestration.client.service_client.config.target_host,
        task_queue=orchestration.task_queue,
        summary_task_queue=orchestration.summary_task_queue,
    )
