"""The production worker command against a separate PostgreSQL and a real Temporal cluster."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client

from durable_context import Budget, ContextClient, PreparedContext
from durable_context.contracts import COMPACTION_TASK_QUEUE
from worker.postgres_server import PostgresServer
from worker.temporal_server import TemporalServer
from worker.worker_process import WorkerProcess

CONVERSATIONS = 12
TURNS = 20
# With segments of 6 turns and 2 that stay raw, 20 turns make three leaves.
LEAVES = 3
WAIT = timedelta(seconds=90)


@pytest.fixture
async def client(
    postgres: PostgresServer, temporal_server: TemporalServer
) -> AsyncIterator[ContextClient]:
    async with await _connect(postgres, temporal_server) as client:
        yield client


async def test_postgres_is_another_one_than_the_embedded_one(postgres: PostgresServer) -> None:
    connection = await asyncpg.connect(postgres.database_url)
    try:
        assert connection.get_server_version().major >= 15
        assert await connection.fetchval("show fsync") == "on"
    finally:
        await connection.close()


async def test_two_workers_compact_what_is_recorded_through_the_public_api(
    directory: Path,
    environment: dict[str, str],
    client: ContextClient,
    temporal_server: TemporalServer,
) -> None:
    async with (
        WorkerProcess(directory / "worker-1", environment),
        WorkerProcess(directory / "worker-2", environment),
    ):
        await asyncio.gather(*(_converse(client, f"talk-{n}") for n in range(CONVERSATIONS)))
        assert len(await _pollers(temporal_server)) == 2
    assert "stopped" in (directory / "worker-1" / "worker.log").read_text()


async def test_a_killed_workers_compactions_are_finished_by_the_other(
    directory: Path, environment: dict[str, str], client: ContextClient
) -> None:
    async with WorkerProcess(directory / "survivor", environment):
        async with WorkerProcess(directory / "victim", environment) as victim:
            talks = [asyncio.create_task(_converse(client, f"cut-{n}")) for n in range(6)]
            await talks[0]
            os.kill(victim.pid, signal.SIGKILL)
            assert (await victim.failed()).exit_code == -signal.SIGKILL
        await asyncio.gather(*talks)


async def test_workers_go_on_after_the_database_dropped_their_connections(
    directory: Path,
    environment: dict[str, str],
    postgres: PostgresServer,
    temporal_server: TemporalServer,
) -> None:
    async with WorkerProcess(directory / "worker", environment):
        async with await _connect(postgres, temporal_server) as client:
            await _converse(client, "before")
        connection = await asyncpg.connect(postgres.database_url)
        try:
            await connection.fetch(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where pid <> pg_backend_pid() and datname = 'durable_context'"
            )
        finally:
            await connection.close()
        async with await _connect(postgres, temporal_server) as client:
            await _converse(client, "after")


async def _connect(postgres: PostgresServer, temporal_server: TemporalServer) -> ContextClient:
    return await ContextClient.connect(postgres.database_url, temporal=temporal_server.address)


async def _converse(client: ContextClient, conversation: str) -> None:
    branch = await client.open_branch(conversation, "main")
    for turn in range(1, TURNS + 1):
        await branch.record_turn(
            [
                {"role": "user", "content": f"What became of order A-{turn}00 of {conversation}?"},
                {
                    "role": "assistant",
                    "content": f"Order A-{turn}00 left the warehouse in Lyon on day {turn}. " * 12,
                },
            ],
            turn_key=str(turn),
        )
    await branch.wait_until_compacted(timeout=WAIT)
    leaves = [summary for summary in await branch.summaries() if summary.level == 0]
    assert [(leaf.from_turn, leaf.to_turn) for leaf in leaves] == [
        (6 * n + 1, 6 * n + 6) for n in range(LEAVES)
    ]
    prepared = await branch.prepare("And order A-300?", budget=Budget(max_tokens=4_000))
    assert isinstance(prepared, PreparedContext)
    assert prepared.token_count <= 4_000


async def _pollers(temporal_server: TemporalServer) -> set[str]:
    client = await Client.connect(temporal_server.address, namespace=temporal_server.namespace)
    described = await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(
            namespace=client.namespace,
            task_queue=TaskQueue(name=COMPACTION_TASK_QUEUE),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
        )
    )
    return {poller.identity for poller in described.pollers}
