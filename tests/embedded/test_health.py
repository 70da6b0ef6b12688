"""The health endpoint over real HTTP."""

import asyncio
import json
from collections.abc import AsyncIterator
from http.client import HTTPConnection

import pytest

from worker.free_ports import LOOPBACK, free_ports
from worker.health import HealthEndpoint
from worker.settings import Address


class Database:
    """Stands in for what a worker depends on."""

    is_there = True

    async def check(self) -> None:
        if not self.is_there:
            raise ConnectionRefusedError("postgresql://user:password@host")


async def _well() -> None:
    return


@pytest.fixture
def database() -> Database:
    return Database()


@pytest.fixture
async def port(database: Database) -> AsyncIterator[int]:
    [port] = free_ports(1)
    live = {"workers": _well}
    ready = live | {"postgres": database.check}
    async with HealthEndpoint(Address(LOOPBACK, port), live=live, ready=ready):
        yield port


async def test_it_tells_alive_from_ready(port: int, database: Database) -> None:
    assert await _request(port, "/ready") == (200, {"workers": "ok", "postgres": "ok"})
    database.is_there = False
    # The address it failed to reach is nobody's business.
    broken = {"workers": "ok", "postgres": "ConnectionRefusedError"}
    assert await _request(port, "/ready") == (503, broken)
    assert await _request(port, "/live") == (200, {"workers": "ok"})


async def test_it_answers_nothing_else(port: int) -> None:
    status, _ = await _request(port, "/")
    assert status == 404
    status, _ = await _request(port, "/live", method="POST")
    assert status == 405


async def test_it_outlives_clients_that_speak_no_http(port: int) -> None:
    for nonsense in (b"", b"\x16\x03\x01 hello", b"GET " + b"x" * 20_000):
        _, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.write(nonsense)
        writer.close()
    assert (await _request(port, "/live"))[0] == 200


async def _request(port: int, path: str, *, method: str = "GET") -> tuple[int, dict[str, str]]:
    def ask() -> tuple[int, dict[str, str]]:
        connection = HTTPConnection(LOOPBACK, port, timeout=10)
        try:
            connection.request(method, path)
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    return await asyncio.to_thread(ask)
