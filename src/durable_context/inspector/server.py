"""The inspector on a port, until somebody ends it."""

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Generator
from types import FrameType
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from durable_context.errors import InvalidArgument

LONGEST_REQUEST: Final = 1024 * 1024
"""Bytes of an address and headers: the message to prepare for is in both, percent-encoded."""
SHUTDOWN_SECONDS: Final = 3
_ENDING: Final = (signal.SIGINT, signal.SIGTERM)
_ANY: Final = ("0.0.0.0", "::")


def listening_socket(host: str, port: int) -> socket.socket:
    """Bound and listening; port 0 is any that is free. Raises InvalidArgument."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, *_, address = found[0]
        return socket.create_server((str(address[0]), port), family=family)
    except (OSError, UnicodeError) as error:
        raise InvalidArgument(
            f"cannot listen at {host!r:.80}, port {port}: {_why(error)}; choose another --port (0:"
            " any that is free) or --host"
        ) from error


def _why(error: OSError | UnicodeError) -> str:
    if isinstance(error, UnicodeError | socket.gaierror) or not error.errno:
        return getattr(error, "strerror", None) or str(error)
    return os.strerror(error.errno)


def address_of(listening: socket.socket) -> str:
    """For a browser: of a server on all addresses, by the name of this machine."""
    host, port = listening.getsockname()[:2]
    if host in _ANY:
        host = socket.gethostname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def serve(app: ASGIApp, listening: socket.socket, begun: Callable[[], None]) -> bool:
    """Until SIGINT or SIGTERM: whether it was the former. `begun` is called once it answers."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="on",
        ws="none",
        http="h11",
        h11_max_incomplete_event_size=LONGEST_REQUEST,
        server_header=False,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    server = _Server(config, begun)
    await server.serve(sockets=[listening])
    return server.was_interrupted


class _Server(uvicorn.Server):
    """One that leaves its signals where they are: uvicorn raises them anew, which would end the
    process before connections are closed.
    """

    def __init__(self, config: uvicorn.Config, begun: Callable[[], None]) -> None:
        super().__init__(config)
        self._begun = begun
        self.was_interrupted = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.should_exit:
            self._begun()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {ending: signal.signal(ending, self.handle_exit) for ending in _ENDING}
        try:
            yield
        finally:
            for ending, handler in before.items():
                signal.signal(ending, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.was_interrupted = self.was_interrupted or sig == signal.SIGINT
        super().handle_exit(sig, frame)
