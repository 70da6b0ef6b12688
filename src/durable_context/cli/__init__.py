"""The `durable-context` command: look at branches, control what compaction does, move them."""

import sys

import typer

from durable_context.cli import (
    artifact_command,
    branches_command,
    compact_command,
    compactions_command,
    diff_command,
    doctor_command,
    events_command,
    export_command,
    gc_command,
    import_command,
    pause_command,
    pin_command,
    rebuild_command,
    replay_command,
    revert_command,
    schedules_command,
    show_command,
    status_command,
    tree_commands,
    ui_command,
    verify_command,
)
from durable_context.cli.panels import CONTROL, LOOK, MOVE
from durable_context.cli.version import Version

app = typer.Typer(
    name="durable-context",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command(rich_help_panel=LOOK)(status_command.status)
app.command(rich_help_panel=LOOK)(show_command.show)
app.command(rich_help_panel=LOOK)(branches_command.branches)
app.command(rich_help_panel=LOOK)(artifact_command.artifact)
app.command(rich_help_panel=LOOK)(events_command.events)
app.command(rich_help_panel=LOOK)(compactions_command.compactions)
app.command(rich_help_panel=LOOK)(tree_commands.checkpoints)
app.command(rich_help_panel=LOOK)(tree_commands.summaries)
app.command(rich_help_panel=LOOK)(diff_command.diff)
app.command(rich_help_panel=LOOK)(ui_command.ui)
app.add_typer(schedules_command.schedules, name="schedules", rich_help_panel=CONTROL)
app.command(rich_help_panel=CONTROL)(revert_command.revert)
app.command(rich_help_panel=CONTROL)(pin_command.pin)
app.command(rich_help_panel=CONTROL)(pin_command.unpin)
app.command(rich_help_panel=CONTROL)(compact_command.compact)
app.command(rich_help_panel=CONTROL)(rebuild_command.rebuild)
app.command(rich_help_panel=CONTROL)(pause_command.pause)
app.command(rich_help_panel=CONTROL)(pause_command.resume)
app.command(rich_help_panel=CONTROL)(verify_command.verify)
app.command(rich_help_panel=CONTROL)(doctor_command.doctor)
app.command(rich_help_panel=CONTROL)(gc_command.gc)
app.command(rich_help_panel=CONTROL)(gc_command.retention)
app.command(rich_help_panel=CONTROL)(gc_command.delete)
app.command(rich_help_panel=MOVE)(replay_command.replay)
app.command(rich_help_panel=MOVE)(export_command.export)
app.command("import", rich_help_panel=MOVE)(import_command.import_)


@app.callback()
def options(version: Version = False) -> None:
    """Keeps an LLM agent's conversation usable for ever."""


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        # What an odd terminal cannot show must not end the command.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    app()
