"""`python -m benchmarks.recall`: the share of a tool call's values that the prompt before it holds.

Asked are values that appeared earlier in the same task. Real traces, cut into branches of at least
150 user messages, are recorded as the README shows it, compaction kept up.
"""

import asyncio
import signal
import tempfile
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.database import Report, benchmark_database
from benchmarks.recall.measure import Recall, Values, measure
from benchmarks.recall.misses import dump, show_misses
from benchmarks.recall.report import as_json, show
from benchmarks.recall.values import argument_values, command_values
from benchmarks.sizes import sizes_of
from benchmarks.traces import DEFAULT_DATA, Half, Trace, swe, taubench
from durable_context.errors import DurableContextError
from worker.errors import WorkerError
from worker.termination import Termination


class Only(StrEnum):
    TAUBENCH = "taubench"
    SWE = "swe"


@dataclass(frozen=True)
class Corpus:
    name: str
    traces: list[Trace]
    values: Values


def main(
    data: Annotated[
        Path, typer.Option(help="Folder with the recorded traces.", show_default="../shared/data")
    ] = DEFAULT_DATA,
    half: Annotated[Half, typer.Option(help="Of tau-bench.")] = Half.DEV,
    budgets: Annotated[str, typer.Option(help="Tokens, with commas.")] = "1000,2000,4000",
    only: Annotated[Only | None, typer.Option(help="This corpus.")] = None,
    limit: Annotated[int | None, typer.Option(help="First branches of each corpus.", min=1)] = None,
    misses: Annotated[int, typer.Option(help="Show so many missed values.", min=0)] = 0,
    dump_to: Annotated[
        Path | None, typer.Option("--dump", help="File for the prompts of those.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Measure what of a tool call's values the prompt before it holds, beside other prompts."""
    sizes = sizes_of(budgets)
    progress = Console(stderr=True, highlight=False)
    try:
        corpora = _corpora(data, half, only, limit)
        measured = asyncio.run(
            _measured(corpora, sizes, lambda line: progress.print(line, markup=False))
        )
    except KeyboardInterrupt:
        raise typer.Exit(128 + signal.SIGINT) from None
    except (WorkerError, DurableContextError) as error:
        progress.print(str(error), markup=False, soft_wrap=True)
        raise typer.Exit(1) from error
    if dump_to is not None:
        dump_to.write_text("")
        for recall in measured:
            dump(recall.corpus, recall.misses, misses or 20, dump_to)
    if json:
        typer.echo(as_json(measured, half.value))
        return
    console = Console(highlight=False)
    for recall in measured if misses else ():
        for size, found in recall.misses.items():
            show_misses(recall.corpus, size, found, misses, console)
    show(measured, console)


def _corpora(data: Path, half: Half, only: Only | None, limit: int | None) -> list[Corpus]:
    corpora: list[Corpus] = []
    if only is not Only.SWE:
        name = f"tau-bench, {half.value}"
        corpora.append(Corpus(name, taubench(data, half)[:limit], argument_values))
    if only is not Only.TAUBENCH:
        corpora.append(Corpus("coding runs", swe(data)[:limit], command_values))
    return corpora


async def _measured(corpora: list[Corpus], budgets: list[int], report: Report) -> list[Recall]:
    measured: list[Recall] = []
    with Termination(), tempfile.TemporaryDirectory(prefix="durable-context-bench-") as folder:
        async with benchmark_database(Path(folder)) as database:
            for corpus in corpora:
                begun = time.perf_counter()
                recall = await measure(
                    database, corpus.name, corpus.traces, corpus.values, budgets, report
                )
                recall.seconds = time.perf_counter() - begun
                measured.append(recall)
    return measured


if __name__ == "__main__":
    typer.run(main)
