"""The inspector of a live stack on a port of its own, for the time of a test."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import uvicorn

from durable_context.inspector.app import make_app
from durable_context.inspector.pages import Inspector
from durable_context.inspector.server import LONGEST_REQUEST, address_of, listening_socket
from tests.browser.live_stack import LiveStack


@contextlib.asynccontextmanager
async def inspector_site(stack: LiveStack, *, allow_changes: bool = False) -> AsyncGenerator[str]:
    """Its address, without a slash at the end."""
    inspected = Inspector(
        stack.client, stack.temporal_ui_url, stack.temporal_namespace, allow_changes
    )
    listening = listening_socket("127.0.0.1", 0)
    config = uvicorn.Config(
        make_app(inspected),
        log_config=None,
        access_log=False,
        lifespan="on",
        http="h11",
        h11_max_incomplete_event_size=LONGEST_REQUEST,
    )
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield address_of(listening)
    finally:
        server.should_exit = True
        await running
