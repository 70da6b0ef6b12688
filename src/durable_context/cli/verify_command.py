"""`durable-context verify [CONVERSATION]`."""

from typing import Annotated

import typer
from rich.console import Console

from durable_context import ContextClient
from durable_context.cli.connecting import connect
from durable_context.cli.failures import BAD_INPUT, FAILED, complain, run
from durable_context.cli.options import DatabaseUrl, Json, Tenant
from durable_context.cli.output import console, plain, print_json
from durable_context.cli.progress import progress
from durable_context.verification.findings import Finding
from durable_context.verification.report import VerificationReport


def verify(
    conversation: Annotated[
        str | None, typer.Argument(help="Its id; all conversations if left out.")
    ] = None,
    branch: Annotated[str | None, typer.Option("--branch", help="Only this branch of it.")] = None,
    database_url: DatabaseUrl = None,
    tenant: Tenant = "default",
    as_json: Json = False,
) -> None:
    """Compare what is stored with its hashes and numbers. Exit code 1: something is damaged.

    Nothing is repaired. New findings become events of their branches. Large contents are read from
    the object store that DURABLE_CONTEXT_ARTIFACT_URL names.
    """

    async def command() -> int:
        if branch is not None and conversation is None:
            complain("--branch needs the conversation it is of")
            return BAD_INPUT
        async with await connect(database_url, temporal=None, tenant=tenant) as client:
            report = await _verified(client, conversation, branch)
        if as_json:
            print_json(report)
        else:
            _print(report, console())
        return FAILED if report.found else 0

    run(command())


async def _verified(
    client: ContextClient, conversation: str | None, branch: str | None
) -> VerificationReport:
    report = VerificationReport()
    if conversation is not None and branch is not None:
        found = await client.find_branch(conversation, branch)
        return report.with_more(await found.verify())
    if conversation is not None and not await client.branches(conversation):
        await client.find_branch(conversation)  # says that there is none
    with progress("verified") as show:
        async for verified in client.verify(conversation):
            report = report.with_more(verified)
            show(report.branches, None)
    return report


def _print(report: VerificationReport, out: Console) -> None:
    for finding in report.findings:
        out.print(plain(_line(finding), style="red" if finding.severity == "error" else "yellow"))
    if report.found > len(report.findings):
        out.print(plain(f"and {report.found - len(report.findings):,} more"))
    looked_at = (
        f"{report.branches:,} branches, {report.turns:,} turns, {report.nodes:,} nodes,"
        f" {report.checkpoints:,} checkpoints, {report.contents:,} contents of artifacts"
    )
    out.print(plain(f"Looked at {looked_at}."))
    if report.unverifiable:
        out.print(plain(f"{report.unverifiable:,} of them bear no hash that can be computed."))
    out.print(plain(_verdict(report)))


def _verdict(report: VerificationReport) -> str:
    if not report.found:
        return "Nothing is damaged."
    warnings = report.found - report.errors
    return f"{report.errors:,} damaged, {warnings:,} left over or stuck; {report.told:,} new."


def _line(finding: Finding) -> str:
    """`harbour main turns 3-4: node hash: expected …, found … (ids)`."""
    where = f"{finding.conversation_id} {finding.branch_id}" if finding.branch_id else "no branch"
    if finding.from_turn is not None:
        one = finding.from_turn == finding.to_turn
        where += (
            f" turn {finding.from_turn}"
            if one
            else (f" turns {finding.from_turn}-{finding.to_turn}")
        )
    check = finding.check.replace("_", " ")
    ids = f" ({', '.join(finding.ids)})" if finding.ids else ""
    return f"{where}: {check}: expected {finding.expected}, found {finding.found}{ids}"
