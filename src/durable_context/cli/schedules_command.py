"""`durable-context schedules`: those of sweeps, in Temporal. They need no database."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

from durable_context.cli.failures import FAILED, run
from durable_context.cli.options import Iso, Json, TemporalAddress
from durable_context.cli.output import console, one_line, plain, print_json
from durable_context.cli.progress import progress
from durable_context.cli.schedule_view import applied_line, last_text, schedule_table
from durable_context.compaction.requests import CompactionRequests
from durable_context.contracts.sweep import SWEEP_KINDS, SweepKind
from durable_context.schedules import ScheduleSettings, SweepSchedule

POLL_SECONDS = 0.5

schedules = typer.Typer(invoke_without_command=True)
Kind = Annotated[SweepKind, typer.Argument(help=", ".join(SWEEP_KINDS) + ".", show_default=False)]
Note = Annotated[str, typer.Option(help="What others read of it in Temporal.")]


@schedules.callback()
def default(
    context: typer.Context,
    temporal: TemporalAddress = None,
    as_json: Json = False,
    iso: Iso = False,
) -> None:
    """Schedules of sweeps: when each came and comes, and how its newest sweep ended."""
    if context.invoked_subcommand is None:
        run(_list(temporal, as_json, iso))


@schedules.command("list")
def list_(temporal: TemporalAddress = None, as_json: Json = False, iso: Iso = False) -> None:
    """The same."""
    run(_list(temporal, as_json, iso))


@schedules.command()
def apply(
    reset: Annotated[
        bool,
        typer.Option(
            "--reset", metavar="", help="Undo what operators changed: pauses, notes, intervals."
        ),
    ] = False,
    temporal: TemporalAddress = None,
    as_json: Json = False,
) -> None:
    """Make schedules that are missing, and change of the others what differs.

    What operators changed stays. Intervals and the policy come from the environment, as the
    worker's do: DURABLE_CONTEXT_CATCH_UP_SECONDS and so on, DURABLE_CONTEXT_POLICY.
    """
    run(_apply(temporal, reset, as_json))


@schedules.command()
def pause(
    kind: Kind, note: Note = "Paused", temporal: TemporalAddress = None, as_json: Json = False
) -> None:
    """Pause a schedule. A sweep that runs goes on."""

    async def paused(requests: CompactionRequests) -> None:
        await (await requests.schedules()).pause(kind, note)

    run(_change(kind, "paused", paused, temporal, as_json))


@schedules.command()
def resume(
    kind: Kind, note: Note = "Resumed", temporal: TemporalAddress = None, as_json: Json = False
) -> None:
    """End the pause of a schedule."""

    async def resumed(requests: CompactionRequests) -> None:
        await (await requests.schedules()).resume(kind, note)

    run(_change(kind, "resumed", resumed, temporal, as_json))


@schedules.command()
def trigger(
    kind: Kind,
    wait: Annotated[
        bool, typer.Option("--wait", metavar="", help="Until it ends; exit code 1 if it fails.")
    ] = False,
    temporal: TemporalAddress = None,
    as_json: Json = False,
) -> None:
    """Start a sweep now, also of a paused schedule; none while one of the kind runs."""
    run(_trigger(kind, wait, temporal, as_json))


async def _list(temporal: str | None, as_json: bool, iso: bool) -> int:
    found = await (await CompactionRequests(temporal).schedules()).all()
    if as_json:
        print_json({"schedules": found})
        return 0
    out = console()
    out.print(schedule_table(found, iso=iso))
    if not all(one.exists for one in found):
        out.print(plain("Make those that are missing with `durable-context schedules apply`."))
    return 0


async def _apply(temporal: str | None, reset: bool, as_json: bool) -> int:
    settings = ScheduleSettings.from_env(os.environ)
    applied = await (await CompactionRequests(temporal).schedules()).apply(settings, reset=reset)
    if as_json:
        print_json({"applied": applied})
        return 0
    for one in applied:
        console().print(one_line(applied_line(one)))
    return 0


async def _change(
    kind: SweepKind,
    done: str,
    change: Callable[[CompactionRequests], Awaitable[None]],
    temporal: str | None,
    as_json: bool,
) -> int:
    await change(CompactionRequests(temporal))
    if as_json:
        print_json({"kind": kind, "done": done})
    else:
        console().print(one_line(f"{kind}: {done}"))
    return 0


async def _trigger(kind: SweepKind, wait: bool, temporal: str | None, as_json: bool) -> int:
    requests = CompactionRequests(temporal)
    before = await _of(requests, kind)
    await (await requests.schedules()).trigger(kind)
    if not wait:
        return await _change(kind, "triggered", _nothing, temporal, as_json)
    ended = await _ended(requests, kind, before.runs)
    if as_json:
        print_json(ended)
    else:
        console().print(plain(f"{kind}: {last_text(ended)}"))
    return 0 if ended.last_status == "completed" else FAILED


async def _ended(requests: CompactionRequests, kind: SweepKind, runs: int) -> SweepSchedule:
    """Once a sweep beyond the first `runs` is over. Where one ran already, that one."""
    with progress(f"{kind} sweep"):
        while True:
            found = await _of(requests, kind)
            started = found.runs > runs or found.skipped
            if started and found.last_status not in (None, "running"):
                return found
            await asyncio.sleep(POLL_SECONDS)


async def _of(requests: CompactionRequests, kind: SweepKind) -> SweepSchedule:
    found = await (await requests.schedules()).all()
    return next(one for one in found if one.kind == kind)


async def _nothing(requests: CompactionRequests) -> None:
    del requests
