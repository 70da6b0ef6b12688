"""The `durable-context` command: replay conversations, look at branches, move them."""

import sys

import typer

from durable_context.cli import (
    artifact_command,
    branches_command,
    events_command,
    export_command,
    import_command,
    replay_command,
    show_command,
)

app = typer.Typer(
    name="durable-context",
    help="Keeps an LLM agent's conversation usable for ever.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(replay_command.replay)
app.command()(show_command.show)
app.command()(branches_command.branches)
app.command()(artifact_command.artifact)
app.command()(events_command.events)
app.command()(export_command.export)
app.command("import")(import_command.import_)


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        # What an odd terminal cannot show must not end the command.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    app()
