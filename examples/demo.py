"""`python -m examples.demo`: starts PostgreSQL, Temporal and a worker, replays a conversation, and
shows what compaction made of it; then forks it in the middle. Its last line of output is one JSON
object.
"""

import asyncio
import sys
import tempfile
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.console import Console

from durable_context import ContextClient
from durable_context.cli.branch_reading import read_branch
from durable_context.cli.branch_view import print_branch
from durable_context.cli.failures import FAILED, run
from durable_context.cli.options import DEFAULT_BUDGET, BudgetTokens
from durable_context.cli.output import console, plain, print_json
from durable_context.cli.replay import compactions_of
from durable_context.cli.replay_model import ReplayOptions
from durable_context.cli.replay_run import (
    Replay,
    complain_of_failures,
    print_replay,
    replay_policy,
    run_replay,
)
from durable_context.contracts import compaction_workflow_id
from durable_context.transcripts import Transcript, read_transcripts
from examples.demo_fork import ForkShown, show_fork
from examples.plot import write_plot
from worker.embedded import EmbeddedStack
from worker.errors import WorkerError

OWN_TRANSCRIPT = Path(__file__).with_name("conversation.json")
WAIT = timedelta(minutes=2)

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def demo(
    transcript: Annotated[
        Path, typer.Option(envvar="TRANSCRIPT", help="Any file `durable-context replay` takes.")
    ] = OWN_TRANSCRIPT,
    keep: Annotated[
        bool, typer.Option(envvar="KEEP", metavar="", help="Leave the servers up until Ctrl-C.")
    ] = False,
    stretch: Annotated[
        int | None,
        typer.Option(
            min=1, envvar="STRETCH", help="Record long runs in stretches of so many exchanges."
        ),
    ] = None,
    budget: BudgetTokens = DEFAULT_BUDGET,
    flat_out: Annotated[
        bool,
        typer.Option("--flat-out", metavar="", help="Replay as fast as the database takes it."),
    ] = False,
    data_dir: Annotated[
        Path | None, typer.Option(help="Keeps everything; a new folder for this run by default.")
    ] = None,
    plot: Annotated[Path, typer.Option(help="Where the plot goes.")] = Path("demo.png"),
) -> None:
    """Compact a recorded conversation while it is replayed."""
    options = ReplayOptions(budget=budget, stretch=stretch)
    if flat_out:
        options = options.model_copy(update={"pace": None})
    with ExitStack() as exits:
        if data_dir is None:
            folder = tempfile.TemporaryDirectory(prefix="durable-context-demo-")
            data_dir = Path(exits.enter_context(folder))
        try:
            run(_demo(transcript, options, data_dir, plot.absolute(), keep))
        except WorkerError as error:
            console(sys.stderr).print(plain(error), soft_wrap=True)
            raise typer.Exit(FAILED) from error


async def _demo(file: Path, options: ReplayOptions, data_dir: Path, plot: Path, keep: bool) -> int:
    transcripts = read_transcripts(file)
    out = console()
    out.print("Starting PostgreSQL, Temporal and a worker …")
    async with EmbeddedStack(data_dir) as stack:
        replay, fork = await _show(stack, transcripts, options, out, keep)
        write_plot(replay.turns, options.budget, plot)
        out.print(f"\nPlot of raw against prompt tokens: {plot}", markup=False)
        complain_of_failures(replay, WAIT)
        if keep:
            _say_how_to_go_on(stack)
        print_json(replay.figures | {"fork": fork.figures})
        if keep:
            await _stay(stack)
    if keep:
        console(sys.stderr).print("Stopped.")
    return 0 if replay.succeeded and fork.parent_unchanged else FAILED


class _Shown(NamedTuple):
    replay: Replay
    fork: ForkShown


async def _show(
    stack: EmbeddedStack,
    transcripts: list[Transcript],
    options: ReplayOptions,
    out: Console,
    keep: bool,
) -> _Shown:
    async with await ContextClient.connect(
        stack.database_url,
        temporal=stack.temporal_address,
        policy=replay_policy(),
        artifact_url=stack.artifact_url,
    ) as client:
        replay = await run_replay(
            client, transcripts, options, temporal=stack.temporal_address, wait=WAIT
        )
        print_replay(replay, options.budget, out)
        out.print()
        shown = max(replay.turns, key=lambda turn: (turn.compactions, turn.turn_no))
        branch = await client.find_branch(shown.conversation_id)
        print_branch(out, await read_branch(client, branch), iso=False)
        fork = await show_fork(client, shown.conversation_id, out, budget=options.budget, wait=WAIT)
        out.print()
        if keep:
            await _print_where_to_look(stack, client, shown.conversation_id, out)
        else:
            out.print("KEEP=1 make demo leaves everything up, with Temporal's UI.")
    return _Shown(replay, fork)


async def _print_where_to_look(
    stack: EmbeddedStack, client: ContextClient, conversation_id: str, out: Console
) -> None:
    branch = await client.find_branch(conversation_id)
    workflow_id = compaction_workflow_id(branch.branch_uuid)
    if stack.ui_url is None:
        out.print(f"No Temporal UI could be had. Workflow: {workflow_id}")
        return
    newest = next(iter(await compactions_of([branch])), None)
    run_path = f"/{newest.run_id}/history" if newest and newest.run_id else ""
    namespace = f"{stack.ui_url}/namespaces/{stack.temporal_namespace}"
    out.print(f"Temporal UI: {stack.ui_url}", markup=False)
    out.print(f"Newest run: {namespace}/workflows/{workflow_id}{run_path}", soft_wrap=True)


def _say_how_to_go_on(stack: EmbeddedStack) -> None:
    notes = console(sys.stderr)
    notes.print(f"Database: {stack.database_url}", markup=False, soft_wrap=True)
    notes.print(f"Temporal: {stack.temporal_address}", markup=False)
    notes.print(f"Large artifacts: {stack.artifact_url}", markup=False, soft_wrap=True)
    notes.print("Everything stays up until Ctrl-C.")


async def _stay(stack: EmbeddedStack) -> None:
    """Until Ctrl-C, which is how this is meant to end, or until a process of the stack ends."""
    try:
        raise await stack.failed()
    except asyncio.CancelledError:
        current = asyncio.current_task()
        if current is not None:
            current.uncancel()


if __name__ == "__main__":
    app()
