"""`python -m benchmarks.retrieval`: what is retrieved for questions whose evidence is known.

Conversations are recorded turn by turn and compacted, and every question is asked when its
conversation is over, as the next message.
"""

import asyncio
import signal
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.database import Report, benchmark_database
from benchmarks.retrieval.comparing import earlier
from benchmarks.retrieval.floor import strangers
from benchmarks.retrieval.measure import Measured, measure
from benchmarks.retrieval.misses import show_answered, show_misses
from benchmarks.retrieval.questions import Talk, joined, talks
from benchmarks.retrieval.report import as_json, show
from benchmarks.retrieval.speed import Speed, measure_speed
from benchmarks.retrieval.speed_database import kept_database
from benchmarks.retrieval.speed_report import show_speed, speed_as_json
from benchmarks.traces import DEFAULT_DATA, Half
from durable_context.errors import DurableContextError
from worker.errors import WorkerError
from worker.termination import Termination

_WIDTH = 108
"""Columns that the tables need: a narrow terminal wraps lines, and no figure is cut off."""


def main(
    data: Annotated[
        Path, typer.Option(help="Folder with the recordings.", show_default="../shared/data")
    ] = DEFAULT_DATA,
    half: Annotated[Half, typer.Option(help="Of the conversations.")] = Half.DEV,
    conversations: Annotated[
        str, typer.Option(help="These, with commas: locomo-26,locomo-30.")
    ] = "",
    as_one: Annotated[
        bool, typer.Option("--joined", help="All conversations as one long lineage.")
    ] = False,
    against: Annotated[
        Path | None, typer.Option(help="Compare with an earlier run, the output of --json.")
    ] = None,
    misses: Annotated[int, typer.Option(help="Show so many missed questions.", min=0)] = 0,
    speed: Annotated[
        bool,
        typer.Option("--speed", help="Time and bounds of retrieval in a long lineage, instead."),
    ] = False,
    turns: Annotated[int, typer.Option(help="Of the long lineage.", min=1_200)] = 100_000,
    rounds: Annotated[int, typer.Option(help="Timed calls of each kind.", min=10)] = 300,
    keep: Annotated[
        Path | None, typer.Option(help="Build the long lineage in this folder, or find it there.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Measure what is retrieved for a question, beside other rankings and other prompts."""
    progress = Console(stderr=True, highlight=False)
    names = [name.strip() for name in conversations.split(",") if name.strip()]
    try:
        before = None if against is None else earlier(against)
        asked = talks(data, half, names)
        if speed:
            return _show_speed(asked, turns, rounds, keep, progress, as_json_object=json)
        corpus = f"LoCoMo, {half.value}"
        if as_one:
            asked, corpus = [joined(asked)], f"{corpus}, joined"
        measured = asyncio.run(
            _measured(
                corpus,
                asked,
                strangers(data, half),
                lambda line: progress.print(line, markup=False),
            )
        )
    except KeyboardInterrupt:
        raise typer.Exit(128 + signal.SIGINT) from None
    except (WorkerError, DurableContextError) as error:
        progress.print(str(error), markup=False, soft_wrap=True)
        raise typer.Exit(1) from error
    if json:
        typer.echo(as_json(measured, half.value))
        return
    console = Console(highlight=False)
    console.width = max(console.width, _WIDTH)
    if misses:
        show_misses(measured.misses, misses, console)
        show_answered(measured.floor, misses, console)
    show(measured, before, console)


def _show_speed(
    asked: list[Talk],
    turns: int,
    rounds: int,
    keep: Path | None,
    progress: Console,
    *,
    as_json_object: bool,
) -> None:
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
    found = asyncio.run(
        _speed(asked, turns, rounds, keep, lambda line: progress.print(line, markup=False))
    )
    if as_json_object:
        return typer.echo(speed_as_json(found))
    console = Console(highlight=False)
    console.width = max(console.width, _WIDTH)
    show_speed(found, console)


async def _speed(
    asked: list[Talk], turns: int, rounds: int, keep: Path | None, report: Report
) -> Speed:
    with Termination(), tempfile.TemporaryDirectory(prefix="durable-context-bench-") as folder:
        async with kept_database(keep or Path(folder)) as database:
            return await measure_speed(database, asked, turns, rounds, report)


async def _measured(
    corpus: str, asked: list[Talk], messages: dict[str, list[str]], report: Report
) -> Measured:
    with Termination(), tempfile.TemporaryDirectory(prefix="durable-context-bench-") as folder:
        async with benchmark_database(Path(folder)) as database:
            return await measure(database, corpus, asked, messages, report)


if __name__ == "__main__":
    typer.run(main)
