"""The inspector as a process, and what looking at it leaves behind: nothing."""

import asyncio
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from html import unescape
from typing import Any, NamedTuple

import httpx2
import pytest
from typer.testing import CliRunner

from durable_context import ContextClient
from durable_context.cli import app
from durable_context.cli.ui_command import _read_only, _said
from durable_context.database import Pool
from durable_context.errors import DatabaseUnavailable, InvalidArgument
from durable_context.inspector.security import access_for
from durable_context.inspector.server import address_of, listening_socket
from tests.cli.running import run_process
from tests.exports import eventful
from tests.inspector.conftest import Site
from tests.turns import chat, numbered

SECONDS = 60
LARGEST = 300_000
PAGES = 150
TOKEN = "a token of some length"
NO_UVICORN = """
import sys
sys.modules["uvicorn"] = None
from durable_context.cli import main
main()
"""


class Served(NamedTuple):
    process: asyncio.subprocess.Process
    address: str
    said: str


@asynccontextmanager
async def served(database_url: str, *arguments: str, **environment: str) -> AsyncIterator[Served]:
    command = ("-m", "durable_context.cli", "ui", "--port", "0", *arguments)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        env={**os.environ, "DURABLE_CONTEXT_DATABASE_URL": database_url, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(SECONDS):
            first, said = [(await process.stdout.readline()).decode().strip() for _ in range(2)]
        yield Served(process, first.removeprefix("The inspector is at "), said)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def ended(process: asyncio.subprocess.Process, by: signal.Signals) -> tuple[int, str]:
    process.send_signal(by)
    async with asyncio.timeout(SECONDS):
        _, errors = await process.communicate()
    assert process.returncode is not None
    return process.returncode, errors.decode()


async def stored(pool: Pool) -> dict[str, object]:
    """Each table by the hash of its rows, each sequence by its value."""
    tables = await pool.fetch(
        "select c.oid::regclass::text as name, c.relkind = 'S' as is_sequence"
        " from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace"
        " where n.nspname = 'durable_context' and c.relkind in ('r', 'S')"
    )
    found: dict[str, object] = {}
    for name, is_sequence in tables:
        row = "last_value" if is_sequence else "md5(string_agg(t::text, '|' order by t::text))"
        found[name] = await pool.fetchval(f"select {row} from {name} t")
    return found


async def crawl(site: Site) -> set[str]:
    """Follow links from the first page, parts of pages included; the paths that were shown."""
    waiting, seen = ["/"], {"/"}
    paths: dict[str, int] = {}
    while waiting and len(seen) < PAGES * 20:
        address = waiting.pop(0)
        path = address.partition("?")[0]
        paths[path] = paths.get(path, 0) + 1
        if paths[path] > PAGES // 15:
            continue
        answer = await site.http.get(address)
        assert answer.status_code == 200, (address, answer.text)
        if not answer.headers["content-type"].startswith("text/html"):
            continue
        assert len(answer.content) < LARGEST, address
        assert not re.search(r"<script(?![^>]*\ssrc=\"/static/)|<style|\sstyle=", answer.text)
        for found in re.findall(r'(?:href|hx-get|src)="(/[^"]*)"', answer.text):
            # An address that only a form may be sent to is none to look at.
            link = unescape(found).partition("#")[0]
            if link not in seen and not link.startswith("/static/") and not posted(link):
                seen.add(link)
                waiting.append(link)
    return set(paths)


def posted(path: str) -> bool:
    actions = ("pause", "resume", "compact", "pin", "unpin", "revert", "rebuild")
    return path in {f"/branch/{action}" for action in actions}


@pytest.fixture
async def talk(client: ContextClient, pool: Pool) -> None:
    """A branch with something of everything, and others beside it."""
    branch = await eventful(client, pool)
    fork = await branch.fork("a fork/<b>\u202e", at_turn=9)
    await fork.record_turn(chat("<script>alert(1)</script>", "javascript:alert(1) \x1b[31m"))
    await fork.pause("<i>wait</i>")
    await client.open_branch("empty")
    pool_branch = await client.open_branch("tail")
    for turn in range(1, 60):
        await pool_branch.record_turn(numbered(turn))


async def test_looking_at_any_page_changes_nothing(
    make_site: Callable[..., Site], talk: None, pool: Pool
) -> None:
    before = await stored(pool)
    paths = await crawl(make_site(allow_changes=True, temporal_ui="http://localhost:8233"))
    assert await stored(pool) == before
    assert {"/", "/conversation", "/branch", "/branch/confirm-revert"} <= paths


async def test_every_page_is_shown_by_a_database_that_refuses_writes(
    make_site: Callable[..., Site], talk: None, database_url: str
) -> None:
    url = _read_only(database_url)
    async with await ContextClient.connect(url, temporal=None) as reading:
        with pytest.raises(DatabaseUnavailable):
            await (await reading.find_branch("empty")).pause()
        assert "/branch" in await crawl(make_site(client=reading))


async def test_it_serves_until_it_is_interrupted(database_url: str, client: ContextClient) -> None:
    await client.open_branch("secret words")
    async with served(database_url) as server:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", server.address)
        assert server.said == "It is read-only. Ctrl-C ends it."
        async with httpx2.AsyncClient(base_url=server.address) as http:
            shown = await http.get("/conversation", params={"conversation": "secret words"})
            assert shown.status_code == 200 and "secret words" in shown.text
            assert shown.headers["x-content-type-options"] == "nosniff"
            assert "server" not in shown.headers
            assert (await http.get("/nowhere")).status_code == 404
            assert (await http.head("/")).content == b""
            assert (await http.post("/branch/pause")).status_code == 403
            assert await ended(server.process, signal.SIGINT) == (130, "")


async def test_others_reach_it_with_the_token_alone(database_url: str) -> None:
    async with served(database_url, "--host", "0.0.0.0", "--allow-changes") as server:
        found = re.fullmatch(r"http://.+:(\d+)/\?token=(\S{16,})", server.address)
        assert found is not None and "whoever has it" in server.said
        port, token = found.groups()
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
            assert (await http.get("/")).status_code == 401
            assert (await http.get("/", params={"token": token})).status_code == 303
            assert (await http.get("/")).status_code == 200
            assert await ended(server.process, signal.SIGTERM) == (0, "")


def test_a_token_that_was_given_is_not_printed() -> None:
    given = access_for("0.0.0.0", TOKEN)
    said = _said(given, None, allow_changes=True)
    assert "It may change" in said and "asks for the token of DURABLE_CONTEXT_UI_TOKEN" in said
    assert TOKEN not in said


async def test_what_it_cannot_begin_with_is_bad_input(database_url: str) -> None:
    environment = {"DURABLE_CONTEXT_DATABASE_URL": database_url}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for arguments, added, said in (
            (("--port", port), {}, f"port {port}: Address already in use; choose another --port"),
            (("--host", "no.such.host.invalid"), {}, "cannot listen at 'no.such.host.invalid'"),
            (("--temporal-ui", "javascript:1"), {}, "allowed is an address such as http://"),
            ((), {"DURABLE_CONTEXT_UI_TOKEN": "short"}, "at least 16"),
        ):
            result = await asyncio.to_thread(
                CliRunner().invoke, app, ["ui", *arguments], env=environment | added
            )
            assert (result.exit_code, result.stdout) == (2, ""), result.stderr
            assert said in result.stderr and len(result.stderr.splitlines()) == 1


async def test_without_its_extra_it_says_what_to_install(database_url: str) -> None:
    result = await run_process(("-c", NO_UVICORN, "ui"), {})
    assert result.code == 2
    assert result.errors == (
        "durable-context: the page needs uvicorn: pip install 'durable-context[ui]'\n"
    )


def test_addresses_are_ones_that_a_browser_understands() -> None:
    with listening_socket("127.0.0.1", 0) as listening:
        assert address_of(listening) == f"http://127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(InvalidArgument, match="in use"):
            listening_socket("127.0.0.1", listening.getsockname()[1])
    with listening_socket("0.0.0.0", 0) as listening:
        assert address_of(listening).startswith(f"http://{socket.gethostname()}:")


def test_a_database_url_keeps_its_options(database_url: str) -> None:
    option = "default_transaction_read_only=on"
    cases: tuple[tuple[Any, Any], ...] = (
        ("postgresql://h/d", f"postgresql://h/d?{option}"),
        ("postgresql://h/d?sslmode=require", f"postgresql://h/d?sslmode=require&{option}"),
        (None, None),
    )
    for url, expected in cases:
        assert _read_only(url) == expected
