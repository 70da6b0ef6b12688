"""A namespace of one test's own: the default queues of the shared one hold what other tests do."""

import asyncio
import contextlib
from uuid import uuid4

from google.protobuf.duration_pb2 import Duration
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError


async def own_namespace(address: str, prefix: str) -> Client:
    """A client of the new namespace, once the server knows it."""
    name = f"{prefix}-{uuid4().hex}"
    first = await Client.connect(address)
    await first.workflow_service.register_namespace(
        RegisterNamespaceRequest(
            namespace=name, workflow_execution_retention_period=Duration(seconds=86_400)
        )
    )
    client = await Client.connect(
        address, namespace=name, data_converter=pydantic_data_converter, identity="the test"
    )
    async with asyncio.timeout(60):  # the server's frontends learn of it one after the other
        while True:
            with contextlib.suppress(RPCError):
                await client.count_workflows("")
                return client
