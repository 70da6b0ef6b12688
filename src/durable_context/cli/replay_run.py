"""A whole replay, as `durable-context replay` and the demo run it: progress, tables, figures."""

import os
import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from rich.console import Console

from durable_context import Branch, CompactionPolicy, ContextClient
from durable_context.cli.failures import complain
from durable_context.cli.figures import figures_of
from durable_context.cli.history_figures import history_figures
from durable_context.cli.output import console
from durable_context.cli.replay import (
    branches_of,
    compactions_of,
    offloaded_artifacts,
    replay_conversation,
    wait_for_compaction,
    warm_up,
)
from durable_context.cli.replay_model import ReplayedTurn, ReplayOptions
from durable_context.cli.replay_view import (
    TURN_LEGEND,
    ReplayProgress,
    conversation_table,
    summary_text,
    turn_table,
)
from durable_context.policy import policy_from_env
from durable_context.transcripts import Transcript


def replay_policy() -> CompactionPolicy:
    """A replay is one burst after the other: it gains nothing from waiting for the next turn."""
    return policy_from_env(os.environ).model_copy(update={"debounce": timedelta(0)})


class Replay(NamedTuple):
    """`late`: branches whose compaction was not done in time."""

    turns: list[ReplayedTurn]
    figures: dict[str, Any]
    late: list[Branch]

    @property
    def conversations(self) -> list[str]:
        return list(dict.fromkeys(turn.conversation_id for turn in self.turns))

    @property
    def succeeded(self) -> bool:
        return not (self.late or self.figures["failed"] or self.figures["invalid"])


async def run_replay(
    client: ContextClient,
    transcripts: Sequence[Transcript],
    options: ReplayOptions,
    *,
    temporal: str | None,
    wait: timedelta | None,
) -> Replay:
    """`wait` bounds the wait for compaction at the end; None does not wait."""
    turns: list[ReplayedTurn] = []
    late: list[Branch] = []
    count = sum(map(options.turn_count, transcripts))
    with ReplayProgress(console(sys.stderr), count) as progress:
        await warm_up(client, transcripts[0], options)
        for transcript in transcripts:
            async for turn in replay_conversation(client, transcript, options):
                turns.append(turn)
                progress.show(turn)
        branches = await branches_of(client, turns)
        if wait is not None:
            progress.say("waiting for compaction")
            late = await wait_for_compaction(branches, wait)
        compactions = await compactions_of(branches)
        histories = await history_figures(temporal, compactions)
        artifacts = await offloaded_artifacts(branches)
    return Replay(turns, figures_of(turns, compactions, histories, artifacts), late)


def print_replay(replay: Replay, budget: int, out: Console) -> None:
    many = len(replay.conversations) > 1
    if not many:
        out.print(TURN_LEGEND, style="dim")
        out.print()
    out.print(conversation_table(replay.turns) if many else turn_table(replay.turns))
    out.print()
    out.print(summary_text(replay.figures, budget))


def complain_of_failures(replay: Replay, wait: timedelta | None) -> None:
    """What the figures do not say of why it did not succeed."""
    invalid = [turn for turn in replay.turns if turn.problems]
    if invalid:
        first = invalid[0]
        complain(
            f"{len(invalid)} prompts are invalid, the first before turn {first.turn_no} of branch"
            f" {first.branch_id!r} of {first.conversation_id!r}: {'; '.join(first.problems)}"
        )
    if replay.late and wait is not None:
        names = ", ".join(map(_name, replay.late[:3])) + (" …" if len(replay.late) > 3 else "")
        complain(
            f"compaction of {names} was not done after {wait.total_seconds():g} s; all turns are"
            " recorded. Is a worker running (python -m worker) and Temporal reachable?"
        )


def _name(branch: Branch) -> str:
    fork = "" if branch.parent_id is None else f" (branch {branch.branch_id!r})"
    return f"{branch.conversation_id!r}{fork}"
