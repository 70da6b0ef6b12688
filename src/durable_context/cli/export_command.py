"""`durable-context export CONVERSATION`."""

import os
import sys
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from durable_context import ContextClient
from durable_context.cli.connecting import connect
from durable_context.cli.failures import BAD_INPUT, complain, run
from durable_context.cli.options import DatabaseUrl, Tenant

STANDARD = "-"
"""Standard input or output."""


def export(
    conversation: Annotated[str, typer.Argument(help="Its id.", show_default=False)],
    branch: Annotated[str, typer.Option(help="Its branch.")] = "main",
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Where to; - is standard output.")
    ] = STANDARD,
    database_url: DatabaseUrl = None,
    tenant: Tenant = "default",
) -> None:
    """Write a branch as lines of JSON, with all it inherits, for `durable-context import`."""
    run(_export(conversation, branch, output, database_url, tenant))


async def _export(
    conversation_id: str, branch_id: str, output: str, database_url: str | None, tenant: str
) -> int:
    async with await connect(database_url, temporal=None, tenant=tenant) as client:
        if output == STANDARD:
            await _write(client, conversation_id, branch_id, sys.stdout.buffer)
            return 0
        try:
            lines = await _write_file(client, conversation_id, branch_id, Path(output))
        except OSError as error:
            complain(f"{output}: cannot be written: {error.strerror or error}")
            return BAD_INPUT
    typer.echo(f"{output}: {lines} lines")
    return 0


async def _write_file(
    client: ContextClient, conversation_id: str, branch_id: str, path: Path
) -> int:
    """Beside the file first: one that is there is replaced by a whole one or not at all."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with beside.open("xb") as file:
            lines = await _write(client, conversation_id, branch_id, file)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    return lines


async def _write(
    client: ContextClient, conversation_id: str, branch_id: str, file: BinaryIO
) -> int:
    lines = 0
    async for line in client.export_branch(conversation_id, branch_id):
        file.write(line.encode())
        lines += 1
    file.flush()
    return lines
