"""Two HTTP answers for whoever runs the worker: is it alive, and can it do its work.

Not alive means restart it. Not ready means something it depends on is away, which a restart would
not bring back.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from types import TracebackType
from typing import Self

from worker.settings import Address

REQUEST_SECONDS = 5.0
REQUEST_BYTES = 8192

Check = Callable[[], Awaitable[None]]
"""Returns when all is well and raises what is wrong."""


class HealthEndpoint:
    """`async with`: serves `GET /live` and `GET /ready`; each is well when all its checks are."""

    def __init__(
        self, address: Address, *, live: Mapping[str, Check], ready: Mapping[str, Check]
    ) -> None:
        self._address = address
        self._checks = {"/live": live, "/ready": ready}
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._answer, self._address.host, self._address.port, limit=REQUEST_BYTES
        )
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._server is not None:
            self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                request = await reader.readuntil(b"\r\n\r\n")
                writer.write(_response(*await self._respond(request)))
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a client that went away, or never spoke HTTP
        finally:
            writer.close()

    async def _respond(self, request: bytes) -> tuple[HTTPStatus, dict[str, str]]:
        method, _, rest = request.decode("latin-1").partition(" ")
        checks = self._checks.get(rest.partition(" ")[0].partition("?")[0])
        if checks is None:
            return HTTPStatus.NOT_FOUND, {"error": "only /live and /ready are here"}
        if method != "GET":
            return HTTPStatus.METHOD_NOT_ALLOWED, {"error": "only GET is allowed"}
        results = dict(
            zip(checks, await asyncio.gather(*map(_outcome, checks.values())), strict=True)
        )
        well = all(outcome == "ok" for outcome in results.values())
        return (HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE), results


async def _outcome(check: Check) -> str:
    try:
        async with asyncio.timeout(REQUEST_SECONDS * 0.8):
            await check()
    except Exception as error:  # whatever is wrong is the answer
        # Only its kind: the message of a driver may hold addresses and names.
        return type(error).__name__
    return "ok"


def _response(status: HTTPStatus, content: dict[str, str]) -> bytes:
    body = json.dumps(content).encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
