"""`durable-context doctor` with a database, and a namespace of Temporal, that nobody else uses."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError
from typer.testing import CliRunner

from durable_context.cli import app
from durable_context.compaction.search_attributes import registered_search_attributes
from tests.cli.running import Ended

Examine = Callable[..., Any]
KNOWN_WITHIN = timedelta(seconds=30)


@pytest.fixture
async def namespace(temporal: Client) -> str:
    """Without workers, schedules or search attributes."""
    name = f"doctor-{uuid4().hex[:8]}"
    await temporal.workflow_service.register_namespace(
        RegisterNamespaceRequest(
            namespace=name, workflow_execution_retention_period=Duration(seconds=86_400)
        )
    )
    client = await _connect(temporal, name)
    async with asyncio.timeout(KNOWN_WITHIN.total_seconds()):
        while not await _is_known(client):
            pass  # each look takes a moment
    return name


@pytest.fixture
async def patient(temporal: Client, namespace: str) -> AsyncIterator[Client]:
    yield await _connect(temporal, namespace)


@pytest.fixture
def examine(database_url: str, temporal_address: str, namespace: str, tmp_path: Path) -> Examine:
    """Runs the command: what it says, by check, after `Ended`. Variables of the environment may be
    given, None for one that is not set.
    """

    async def run(*arguments: str, **environment: str | None) -> Ended:
        variables = {
            "DURABLE_CONTEXT_DATABASE_URL": database_url,
            "DURABLE_CONTEXT_ARTIFACT_URL": (tmp_path / "objects").as_uri(),
            "TEMPORAL_ADDRESS": temporal_address,
            "TEMPORAL_NAMESPACE": namespace,
        }
        result = await asyncio.to_thread(
            CliRunner().invoke, app, ["doctor", *arguments], env=variables | environment
        )
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ended(result.exit_code, result.stdout, result.stderr)

    return run


def states(ended: Ended) -> dict[str, str]:
    return {one["check"]: one["state"] for one in ended.figures["diagnoses"]}


def said(ended: Ended, check: str) -> tuple[str, str]:
    """The message, and how to mend it."""
    (one,) = [one for one in ended.figures["diagnoses"] if one["check"] == check]
    return one["message"], one["mend"]


async def _connect(temporal: Client, namespace: str) -> Client:
    return await Client.connect(
        temporal.service_client.config.target_host,
        namespace=namespace,
        data_converter=pydantic_data_converter,
    )


async def _is_known(client: Client) -> bool:
    try:
        await registered_search_attributes(client)
        await client.count_workflows()
    except RPCError:
        return False
    return True
