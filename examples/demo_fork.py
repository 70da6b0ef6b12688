"""The demo's second part: a fork in the middle of the conversation, with a report that is too large
for a prompt.
"""

from datetime import timedelta
from typing import Any, NamedTuple

from rich.console import Console
from rich.padding import Padding
from rich.rule import Rule

from durable_context import Artifact, Branch, Budget, BudgetExceeded, ContextClient, PreparedContext
from durable_context.cli.branch_tree import branch_trees
from durable_context.cli.output import plain
from durable_context.cli.replay_view import blocks_line
from durable_context.models import BranchInfo, BranchState
from durable_context.tokens import token_counter
from examples.shipment_report import LINES, shipment_id, shipment_report

QUESTION = "Which of these shipments does not move?"
SOUGHT = "HELD"
_CALL = {
    "id": "call_report",
    "type": "function",
    "function": {"name": "list_shipments", "arguments": '{"due": "2025-03"}'},
}
_INDENT = (0, 0, 0, 2)
_SUMMARY_CHARACTERS = 400


class ForkShown(NamedTuple):
    figures: dict[str, Any]
    parent_unchanged: bool


class _Report(NamedTuple):
    """The report as the fork has it: `view` is what its turn keeps."""

    artifact: Artifact
    view: str
    view_tokens: int


async def show_fork(
    client: ContextClient, conversation_id: str, out: Console, *, budget: int, wait: timedelta
) -> ForkShown:
    """Fork it at half of its turns, and go on there with the report."""
    parent = await client.find_branch(conversation_id)
    before = await parent.inspect()
    at_turn = before.head_turn // 2
    fork = await parent.fork(f"what-if-at-{at_turn}", at_turn=at_turn)
    _print_fork(out, await fork.inspect(), at_turn)
    report = await _record_report(fork)
    _print_report(out, report, at_turn + 1)
    prepared = await fork.prepare(QUESTION, budget=Budget(max_tokens=budget))
    if isinstance(prepared, PreparedContext):
        _print_prompt(out, prepared, report)
    await _print_found(out, fork, report.artifact.handle)
    await _go_on(fork)
    await fork.compact(timeout=wait)
    summarized = await _report_of(fork, at_turn + 1)
    _print_summary(out, summarized)
    branches = await client.branches(conversation_id)
    unchanged = _lasting(await parent.inspect()) == _lasting(before)
    _print_branches(out, branches, before, unchanged=unchanged)
    figures = {
        "turn": at_turn,
        "branches": len(branches),
        "artifact_bytes": report.artifact.size,
        "artifact_tokens": report.artifact.token_count,
        "view_tokens": report.view_tokens,
        "prompt_tokens": None if isinstance(prepared, BudgetExceeded) else prepared.token_count,
        "summarized": summarized.summary is not None,
        "parent_unchanged": unchanged,
    }
    return ForkShown(figures, unchanged)


async def _record_report(fork: Branch) -> _Report:
    """As the result of a tool call. The key makes a second run of the demo record it once."""
    turn = await fork.record_turn(
        [
            {"role": "user", "content": "List all shipments that are due in March."},
            {"role": "assistant", "content": None, "tool_calls": [_CALL]},
            {"role": "tool", "tool_call_id": _CALL["id"], "content": shipment_report()},
            {"role": "assistant", "content": f"These are {LINES - 1} shipments."},
        ],
        turn_key="report",
    )
    view = next(str(message.content) for message in turn.messages if message.artifact)
    view_tokens = token_counter(fork.encoding).count(view)
    return _Report(await _report_of(fork, turn.turn_no), view, view_tokens)


async def _report_of(fork: Branch, turn_no: int) -> Artifact:
    return next(one for one in await fork.artifacts() if one.turn_no == turn_no)


async def _go_on(fork: Branch) -> None:
    """Turns enough for compaction to reach the report, each about another line of it."""
    handle = (await _report_of(fork, (fork.fork_turn or 0) + 1)).handle
    policy = fork.policy
    for number in range(1, policy.segment_turns + policy.keep_raw_turns):
        shipment = shipment_id(60 * number)
        found = await fork.load_artifact(handle, grep=shipment)
        messages = [
            {"role": "user", "content": f"And {shipment}?"},
            {"role": "assistant", "content": f"It stands in line {found.content}"},
        ]
        await fork.record_turn(messages, turn_key=f"line-{number}")


def _lasting(state: BranchState) -> tuple[Any, ...]:
    """What only a turn or a compaction of the branch itself may change."""
    handles = [artifact.handle for artifact in state.artifacts]
    return state.head_turn, state.head_tokens, state.checkpoint, state.frontier, state.tail, handles


def _print_fork(out: Console, state: BranchState, at_turn: int) -> None:
    base = state.checkpoint.turn_no if state.checkpoint else 0
    out.print()
    out.print(Rule("a fork in the middle, and a report of 30 KB", align="left"))
    out.print(
        plain(f"{state.branch_id} goes on from turn {at_turn}. Nothing is copied: it reads")
        .append(f" {'checkpoint ' + str(base) if base else 'no checkpoint'} of its parent")
        .append(f" and turns {base + 1}–{at_turn} as its own tail.")
    )


def _print_report(out: Console, report: _Report, turn_no: int) -> None:
    artifact = report.artifact
    out.print(
        f"Its turn {turn_no} brings a tool result of {artifact.size:,} bytes, {artifact.line_count}"
        f" lines, {artifact.token_count:,} tokens, and keeps {report.view_tokens} tokens of it:"
    )
    out.print(Padding(plain(report.view, style="dim"), _INDENT, expand=False))


def _print_prompt(out: Console, prepared: PreparedContext, report: _Report) -> None:
    whole = prepared.token_count - report.view_tokens + report.artifact.token_count
    out.print(
        plain(f"The next prompt has {prepared.token_count:,} tokens (")
        .append_text(blocks_line(prepared.manifest.blocks))
        .append(f"); with the report in it, it would have {whole:,}.")
    )


async def _print_found(out: Console, fork: Branch, handle: str) -> None:
    found = await fork.load_artifact(handle, grep=SOUGHT)
    out.print(
        f"load_artifact(handle, grep={SOUGHT!r}) finds {found.matches} of {found.line_count} lines:"
    )
    out.print(Padding(plain(found.content, style="dim"), _INDENT, expand=False))


def _print_summary(out: Console, artifact: Artifact) -> None:
    if artifact.summary is None:
        out.print("The fork is compacted; the report has no summary yet.")
        return
    out.print("The fork is compacted, and the report has a summary, which later prompts can find:")
    out.print(Padding(plain(artifact.headline or "", style="bold"), _INDENT, expand=False))
    shown = artifact.summary[:_SUMMARY_CHARACTERS]
    more = "" if shown == artifact.summary else " …"
    out.print(Padding(plain(shown + more, style="dim"), _INDENT, expand=False))


def _print_branches(
    out: Console, branches: tuple[BranchInfo, ...], parent: BranchState, *, unchanged: bool
) -> None:
    out.print(branch_trees(branches))
    checkpoint = parent.checkpoint.turn_no if parent.checkpoint else 0
    name = plain(parent.branch_id)
    if unchanged:
        out.print(name.append(f" is as it was: head {parent.head_turn}, checkpoint {checkpoint}."))
    else:
        out.print(name.append(" has changed.", style="red"))
