"""HTTP answers for whoever runs the worker: is it alive, can it do its work, and its figures.

Not alive means restart it. Not ready means something it depends on is away, which a restart would
not bring back.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from worker.settings import Address

REQUEST_SECONDS = 5.0
REQUEST_BYTES = 8192

Check = Callable[[], Awaitable[None]]
"""Returns when all is well and raises what is wrong."""
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics(Protocol):
    """What `/metrics` says. `missing`: why there is no page."""

    @property
    def missing(self) -> str | None: ...

    def page(self) -> bytes: ...


class Answer(NamedTuple):
    status: HTTPStatus
    body: bytes
    media_type: str = "application/json"


class HealthEndpoint:
    """`async with`: serves `GET /live` and `GET /ready`, each of which is well when all its checks
    are, and `GET /metrics`.
    """

    def __init__(
        self,
        address: Address,
        *,
        live: Mapping[str, Check],
        ready: Mapping[str, Check],
        metrics: Metrics | None = None,
    ) -> None:
        self._address = address
        self._metrics = metrics
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
                writer.write(_response(await self._respond(request)))
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a client that went away, or never spoke HTTP
        finally:
            writer.close()

    async def _respond(self, request: bytes) -> Answer:
        method, _, rest = request.decode("latin-1").partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        checks = self._checks.get(path)
        if checks is None and path != "/metrics":
            return _refused(HTTPStatus.NOT_FOUND, "only /live, /ready and /metrics are here")
        if method != "GET":
            return _refused(HTTPStatus.METHOD_NOT_ALLOWED, "only GET is allowed")
        return await self._figures() if checks is None else await _checked(checks)

    async def _figures(self) -> Answer:
        missing = "nothing is measured here" if self._metrics is None else self._metrics.missing
        if self._metrics is None or missing is not None:
            return _refused(HTTPStatus.NOT_FOUND, missing or "")
        return Answer(HTTPStatus.OK, await asyncio.to_thread(self._metrics.page), METRICS_TYPE)


async def _checked(checks: Mapping[str, Check]) -> Answer:
    results = dict(zip(checks, await asyncio.gather(*map(_outcome, checks.values())), strict=True))
    well = all(outcome == "ok" for outcome in results.values())
    return _said(HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE, results)


def _refused(status: HTTPStatus, why: str) -> Answer:
    return _said(status, {"error": why})


def _said(status: HTTPStatus, content: Mapping[str, str]) -> Answer:
    return Answer(status, json.dumps(content).encode())


async def _outcome(check: Check) -> str:
    try:
        async with asyncio.timeout(REQUEST_SECONDS * 0.8):
            await check()
    except Exception as error:  # whatever is wrong is the answer
        # Only its kind: the message of a driver may hold addresses and names.
        return type(error).__name__
    return "ok"


def _response(answer: Answer) -> bytes:
    status = answer.status
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {answer.media_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + answer.body
