"""`python -m benchmarks`: every figure as a ratio to a bare counterpart in the same run.

Servers are the benchmark's own, in a temporary folder, and commits wait for the disk.
"""

import asyncio
import signal
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.compactions import compactions_stack
from benchmarks.corpus import Corpus
from benchmarks.database import Database, Report, benchmark_database, compact, record
from benchmarks.fork import measure_fork
from benchmarks.goals import compaction_goals, fork_goals, prepare_goals, record_goals
from benchmarks.prepare import measure_prepare
from benchmarks.record import measure_record
from benchmarks.report import Results
from durable_context import Branch
from durable_context.errors import DurableContextError
from worker.errors import WorkerError
from worker.termination import Termination


class Part(StrEnum):
    PREPARE = "prepare"
    RECORD = "record"
    FORK = "fork"
    COMPACTIONS = "compactions"


@dataclass(frozen=True)
class Extent:
    """How much is measured."""

    turns: Sequence[int]
    rounds: int
    branches: int
    repetitions: int
    parts: frozenset[Part]


FULL = (10, 1_000, 20_000)
QUICK = (10, 1_000)


def main(
    turns: Annotated[
        str | None, typer.Option(help="Lengths of the branches, with commas. [10,1000,20000]")
    ] = None,
    quick: Annotated[bool, typer.Option(help="Short branches, fewer rounds.")] = False,
    rounds: Annotated[int | None, typer.Option(help="Calls of each kind.", min=20)] = None,
    only: Annotated[list[Part] | None, typer.Option(help="These parts; may be repeated.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Measure prepare, fork, record_turn and compaction beside bare counterparts."""
    extent = Extent(
        turns=_lengths(turns) or (QUICK if quick else FULL),
        rounds=rounds or (100 if quick else 300),
        branches=20 if quick else 40,
        repetitions=2 if quick else 5,
        parts=frozenset(only or Part),
    )
    progress = Console(stderr=True, highlight=False)
    try:
        results = asyncio.run(_measure(extent, lambda line: progress.print(line, markup=False)))
    except KeyboardInterrupt:
        raise typer.Exit(128 + signal.SIGINT) from None
    except (WorkerError, DurableContextError) as error:
        progress.print(str(error), markup=False, soft_wrap=True)
        raise typer.Exit(1) from error
    if as_json:
        typer.echo(results.json())
    else:
        results.show(Console(highlight=False))


def _lengths(text: str | None) -> tuple[int, ...]:
    if text is None:
        return ()
    lengths = tuple(part.strip() for part in text.split(","))
    if not all(each.isdecimal() and int(each) > 0 for each in lengths):
        raise typer.BadParameter(f"{text!r} must be numbers of turns such as 10,1000,20000")
    return tuple(sorted({int(each) for each in lengths}))


async def _measure(extent: Extent, report: Report) -> Results:
    results, corpus = Results(), Corpus()
    with Termination(), tempfile.TemporaryDirectory(prefix="durable-context-bench-") as folder:
        if extent.parts - {Part.COMPACTIONS}:
            async with benchmark_database(Path(folder) / "database") as database:
                await _measure_calls(database, extent, corpus, results, report)
        if Part.COMPACTIONS in extent.parts:
            async with compactions_stack(Path(folder) / "stack", corpus, report) as stack:
                throughput = await stack.throughput(extent.branches, extent.repetitions, report)
                results.throughput, results.histories = throughput, await stack.histories()
                results.goals += compaction_goals(throughput, results.histories)
    return results


async def _measure_calls(
    database: Database, extent: Extent, corpus: Corpus, results: Results, report: Report
) -> None:
    branches = {turns: await _compacted(database, turns, corpus, report) for turns in extent.turns}
    await database.settle()
    if Part.PREPARE in extent.parts:
        report("measuring prepare")
        results.prepare = await measure_prepare(database, branches, corpus, extent.rounds)
        results.goals += prepare_goals(results.prepare)
    if Part.FORK in extent.parts:
        report("measuring fork")
        results.fork = await measure_fork(database, branches, corpus, extent.rounds)
        results.goals += fork_goals(results.fork)
    if Part.RECORD in extent.parts:
        report("measuring record_turn")
        results.record = await measure_record(database, branches, corpus, extent.rounds, report)
        results.goals += record_goals(results.record)


async def _compacted(database: Database, turns: int, corpus: Corpus, report: Report) -> Branch:
    report(f"making a branch of {turns:,} turns")
    branch = await database.client(fast=True).open_branch(f"{turns} turns")
    await record(branch, corpus, turns, report)
    await compact(database.not_waiting, branch, report)
    return branch


if __name__ == "__main__":
    typer.run(main)
