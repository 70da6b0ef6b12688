"""The `durable-context` command: replay conversations, look at branches."""

import sys

import typer

from durable_context.cli import replay_command, show_command

app = typer.Typer(
    name="durable-context",
    help="Keeps an LLM agent's conversation usable for ever.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(replay_command.replay)
app.command()(show_command.show)


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        # What an odd terminal cannot show must not end the command.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    app()
