"""`durable-context artifact HANDLE`: a content, whole or in part."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from durable_context.artifacts.reading import ArtifactContent
from durable_context.cli.artifact_view import artifact_text
from durable_context.cli.connecting import connect
from durable_context.cli.failures import BAD_INPUT, FAILED, complain, run
from durable_context.cli.options import BranchName, DatabaseUrl, Json, Tenant
from durable_context.cli.output import console, plain, print_json


def artifact(
    handle: Annotated[str, typer.Argument(help="As `show` lists it.", show_default=False)],
    conversation: Annotated[str, typer.Option(help="The conversation's id.", show_default=False)],
    branch: BranchName = "main",
    start: Annotated[
        int | None, typer.Option(min=1, help="Begin with this line.", show_default=False)
    ] = None,
    length: Annotated[
        int | None, typer.Option(min=1, help="So many lines.", show_default=False)
    ] = None,
    grep: Annotated[
        str | None,
        typer.Option(
            help="Of these only lines that hold a text, in whatever case, with their numbers; exit"
            " code 1 if none does.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(dir_okay=False, help="Write it there, as it is.", show_default=False),
    ] = None,
    database_url: DatabaseUrl = None,
    tenant: Tenant = "default",
    as_json: Json = False,
) -> None:
    """Print the content of an artifact that a branch sees.

    On a terminal text is shown so that it cannot act on it; elsewhere it is written as it is.
    """

    async def command() -> int:
        async with await connect(database_url, temporal=None, tenant=tenant) as client:
            seen_by = await client.find_branch(conversation, branch)
            read = await seen_by.load_artifact(handle, start=start, length=length, grep=grep)
        return _give(read, output, as_json=as_json)

    run(command())


def _give(read: ArtifactContent, output: Path | None, *, as_json: bool) -> int:
    found = FAILED if read.matches == 0 else 0
    if output is not None and not _write(read, output):
        return BAD_INPUT
    if as_json:
        print_json(read)
    elif output is None and not _print(read):
        return FAILED
    return found


def _write(read: ArtifactContent, output: Path) -> bool:
    try:
        output.write_bytes(_bytes(read))
    except OSError as error:
        complain(f"{str(output)!r} cannot be written: {error.strerror or error}")
        return False
    return True


def _print(read: ArtifactContent) -> bool:
    if not sys.stdout.isatty():
        typer.echo(_bytes(read), nl=False)
        return True
    if isinstance(read.content, bytes):
        artifact = read.artifact
        complain(
            f"artifact {artifact.handle} is {artifact.media_type!r}, which no terminal shows:"
            " write it to a file with --output"
        )
        return False
    console(sys.stderr).print(artifact_text(read))
    console().print(plain(read.content), soft_wrap=True)
    return True


def _bytes(read: ArtifactContent) -> bytes:
    """The content itself; of a part of it the lines, each with its end."""
    if isinstance(read.content, bytes):
        return read.content
    whole = read.matches is None and (read.from_line, read.to_line) == (1, read.line_count)
    end = "" if whole or not read.content else "\n"
    return (read.content + end).encode(errors="surrogatepass")
