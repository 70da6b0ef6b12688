"""`durable-context doctor`."""

import os

from rich.console import Console

from durable_context.cli.connecting import open_pool
from durable_context.cli.failures import FAILED, run
from durable_context.cli.options import DatabaseUrl, Json, TemporalAddress, Tenant
from durable_context.cli.output import console, plain, print_json
from durable_context.cli.progress import progress
from durable_context.compaction.requests import CompactionRequests
from durable_context.doctor.diagnosis import Checkup, Diagnosis
from durable_context.doctor.examining import Patient, examine
from durable_context.errors import DatabaseUnavailable, InvalidArgument
from durable_context.policy import CompactionPolicy, policy_from_env

_STYLES = {"ok": "green", "warning": "yellow", "failed": "bold red"}


def doctor(
    database_url: DatabaseUrl = None,
    temporal: TemporalAddress = None,
    tenant: Tenant = "default",
    as_json: Json = False,
) -> None:
    """Look at the database, Temporal, workers, schedules and more, and say how to mend each.

    Exit code 1: something failed. A warning is no failure.
    """

    async def command() -> int:
        with progress("examined"):
            checkup = await _examined(database_url, temporal, tenant)
        if as_json:
            counts = {"failed": checkup.failed, "warnings": checkup.warnings}
            print_json(checkup.model_dump(mode="json") | counts)
        else:
            _print(checkup, console())
        return FAILED if checkup.failed else 0

    run(command())


async def _examined(database_url: str | None, temporal: str | None, tenant: str) -> Checkup:
    patient = Patient(tenant, _policy(), os.environ, requests=CompactionRequests(temporal))
    try:
        pool = await open_pool(database_url)
    except DatabaseUnavailable as error:
        return await examine(patient._replace(why=str(error)))
    async with pool:
        return await examine(patient._replace(pool=pool))


def _policy() -> CompactionPolicy:
    """One that cannot be read is among the findings."""
    try:
        return policy_from_env(os.environ)
    except InvalidArgument:
        return CompactionPolicy()


def _print(checkup: Checkup, out: Console) -> None:
    width = max(len(one.check) for one in checkup.diagnoses)
    for one in checkup.diagnoses:
        out.print(_line(one, width), soft_wrap=True)
        if one.mend:
            out.print(plain(f"{'':>10}{'':<{width}}to mend it: {one.mend}"), soft_wrap=True)
    out.print(plain(_verdict(checkup)))


def _line(one: Diagnosis, width: int) -> object:
    text = plain(f"{one.state:<9} ", style=_STYLES[one.state])
    return text.append_text(plain(f"{one.check:<{width}}  {' '.join(one.message.split())}"))


def _verdict(checkup: Checkup) -> str:
    if checkup.failed:
        return f"{checkup.failed} failed, {checkup.warnings} warnings."
    return f"Nothing failed, {checkup.warnings} warnings."
