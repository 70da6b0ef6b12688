"""`durable-context import FILE`."""

import sys
from collections.abc import Iterator
from itertools import chain
from typing import Annotated, BinaryIO

import typer

from durable_context import Branch
from durable_context.cli.connecting import connect
from durable_context.cli.export_command import STANDARD
from durable_context.cli.failures import BAD_INPUT, complain, run
from durable_context.cli.options import DatabaseUrl, Tenant
from durable_context.errors import InvalidExport
from durable_context.exports.lines import LONGEST_LINE, read_header


def import_(
    file: Annotated[
        str, typer.Argument(help="An export; - is standard input.", show_default=False)
    ],
    conversation: Annotated[
        str | None, typer.Option(help="Id of the new one; the old one's by default.")
    ] = None,
    branch: Annotated[
        str | None, typer.Option(help="Branch to make; named as the old one by default.")
    ] = None,
    database_url: DatabaseUrl = None,
    tenant: Tenant = "default",
) -> None:
    """Read what `durable-context export` wrote: a new root branch, all of it or nothing."""
    if file == STANDARD:
        run(_import(file, sys.stdin.buffer, conversation, branch, database_url, tenant))
    try:
        stream = open(file, "rb")  # noqa: SIM115
    except OSError as error:
        complain(f"{file}: cannot be read: {error.strerror or error}")
        raise typer.Exit(BAD_INPUT) from error
    with stream:
        run(_import(file, stream, conversation, branch, database_url, tenant))


async def _import(
    file: str,
    stream: BinaryIO,
    conversation_id: str | None,
    branch_id: str | None,
    database_url: str | None,
    tenant: str,
) -> int:
    lines = _lines(stream)
    try:
        first = next(lines, "")
        header = read_header(first)
        async with await connect(database_url, temporal=None, tenant=tenant) as client:
            branch = await client.import_branch(
                chain([first], lines),
                conversation_id=header.conversation_id
                if conversation_id is None
                else conversation_id,
                branch_id=header.branch_id if branch_id is None else branch_id,
            )
            typer.echo(await _said(branch))
    except InvalidExport as error:
        complain(f"{file}: {error}")
        return BAD_INPUT
    return 0


def _lines(stream: BinaryIO) -> Iterator[str]:
    """Lines of a file, however long it is without one. What is no UTF-8 is left to be refused."""
    while line := stream.readline(LONGEST_LINE + 1):
        yield line.decode(errors="surrogateescape")


async def _said(branch: Branch) -> str:
    state = await branch.inspect()
    ids = f"{branch.conversation_id!r} {branch.branch_id!r}"
    return f"{ids}: {state.head_turn} turns, {len(state.checkpoints)} checkpoints"
