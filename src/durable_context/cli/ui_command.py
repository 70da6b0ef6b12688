"""`durable-context ui`: the inspector, a local web page."""

import asyncio
import os
import webbrowser
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit

import typer

from durable_context.cli.connecting import connect
from durable_context.cli.failures import BAD_INPUT, INTERRUPTED, complain, run
from durable_context.cli.options import DatabaseUrl, TemporalAddress, Tenant
from durable_context.cli.output import visible
from durable_context.client import FROM_ENVIRONMENT
from durable_context.errors import InvalidArgument

if TYPE_CHECKING:
    from durable_context.inspector.pages import Inspector
    from durable_context.inspector.security import Access

TEMPORAL_UI_URL: Final = "DURABLE_CONTEXT_TEMPORAL_UI_URL"
_EXTRA: Final = ("starlette", "uvicorn", "jinja2")


def ui(
    host: Annotated[
        str, typer.Option(help="Where to listen; anywhere but on loopback a token is asked for.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8234,
    allow_changes: Annotated[
        bool,
        typer.Option(
            "--allow-changes", metavar="", help="Let pages pause, compact, pin, revert, rebuild."
        ),
    ] = False,
    open_browser: Annotated[
        bool, typer.Option("--open", metavar="", help="Open it in the browser.")
    ] = False,
    temporal_ui: Annotated[
        str | None,
        typer.Option(
            "--temporal-ui",
            metavar="URL",
            envvar=TEMPORAL_UI_URL,
            help="Temporal's UI, for links to runs.",
            show_default=False,
        ),
    ] = None,
    database_url: DatabaseUrl = None,
    temporal: TemporalAddress = None,
    tenant: Tenant = "default",
) -> None:
    """Show branches, prompts and compactions as a web page, until Ctrl-C.

    Without --allow-changes even the database refuses to write. A token for --host other than
    loopback is taken from DURABLE_CONTEXT_UI_TOKEN, else made up.
    """
    _check_extra()
    from durable_context.inspector.pages import Inspector
    from durable_context.inspector.security import TOKEN_VARIABLE, access_for

    async def command() -> int:
        given = os.environ.get(TOKEN_VARIABLE) or None
        access = access_for(host, given)
        links = None if temporal_ui is None else _checked_url(temporal_ui)
        namespace = _namespace() if links else "default"
        url = database_url if allow_changes else _read_only(database_url)
        address = temporal or FROM_ENVIRONMENT
        async with await connect(url, temporal=address, tenant=tenant) as client:
            inspected = Inspector(client, links, namespace, allow_changes, tenant)
            shown = access.token if given is None else None
            return await _serve(inspected, access, host, port, shown, open_browser=open_browser)

    run(command())


async def _serve(
    inspected: "Inspector",
    access: "Access",
    host: str,
    port: int,
    token: str | None,
    *,
    open_browser: bool,
) -> int:
    """`token`: one that was made up, which nobody knows otherwise."""
    from durable_context.inspector.app import make_app
    from durable_context.inspector.server import address_of, listening_socket, serve

    with listening_socket(host, port) as listening:
        address = address_of(listening) + ("/" if token is None else f"/?token={token}")

        def begun() -> None:
            typer.echo(f"The inspector is at {address}")
            typer.echo(_said(access, token, allow_changes=inspected.allow_changes))
            if open_browser:
                opening.append(asyncio.create_task(asyncio.to_thread(webbrowser.open, address)))

        opening: list[asyncio.Task[bool]] = []
        interrupted = await serve(make_app(inspected, access), listening, begun)
        await asyncio.gather(*opening, return_exceptions=True)
    return INTERRUPTED if interrupted else 0


def _said(access: "Access", token: str | None, *, allow_changes: bool) -> str:
    from durable_context.inspector.security import TOKEN_VARIABLE

    mode = "It may change what it shows" if allow_changes else "It is read-only"
    asks = ""
    if access.token is not None and token is None:
        asks = f", and asks for the token of {TOKEN_VARIABLE}: add ?token=… to the address once"
    elif not access.is_local:
        asks = ". The address holds the token: whoever has it sees all conversations of the tenant"
    return f"{mode}{asks}. Ctrl-C ends it."


def _check_extra() -> None:
    try:
        for name in _EXTRA:
            __import__(name)
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA:
            raise
        complain(f"the page needs {error.name}: pip install 'durable-context[ui]'")
        raise typer.Exit(BAD_INPUT) from None


def _checked_url(url: str) -> str:
    """Without a slash at its end. Raises InvalidArgument."""
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_url = False
    if not is_url:
        raise InvalidArgument(
            f"--temporal-ui {visible(url)!r:.80}; allowed is an address such as"
            " http://localhost:8233"
        )
    return url.rstrip("/")


def _namespace() -> str:
    """The one of Temporal's own environment configuration."""
    from temporalio.envconfig import ClientConfig

    return ClientConfig.load_client_connect_config().get("namespace") or "default"


def _read_only(database_url: str | None) -> str | None:
    """The same database, where the server refuses every write."""
    if database_url is None or "://" not in database_url:
        return database_url
    return f"{database_url}{'&' if '?' in database_url else '?'}default_transaction_read_only=on"
