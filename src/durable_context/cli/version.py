"""`durable-context --version`."""

from importlib.metadata import version
from typing import Annotated

import typer


def _show(asked: bool) -> None:
    if asked:
        typer.echo(f"durable-context {version('durable-context')}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option(
        "--version", metavar="", is_eager=True, callback=_show, help="Print it, and no more."
    ),
]
