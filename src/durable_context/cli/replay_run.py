"""A whole replay, as `durable-context replay` and the demo run it: progress, tables, figures."""

import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from rich.console import Console

from durable_context import CompactionPolicy, ContextClient
from durable_context.cli.failures import complain
from durable_context.cli.figures import figures_of
from durable_context.cli.history_figures import history_figures
from durable_context.cli.output import console
from durable_context.cli.replay import (
    ReplayedTurn,
    ReplayOptions,
    compactions_of,
    replay_conversation,
    wait_for_compaction,
    warm_up,
)
from durable_context.cli.replay_view import (
    TURN_LEGEND,
    ReplayProgress,
    conversation_table,
    summary_text,
    turn_table,
)
from durable_context.transcripts import Transcript, stretches

REPLAY_POLICY = CompactionPolicy(debounce=timedelta(0))
"""A replay is one burst after the other: it gains nothing from waiting for the next turn."""


class Replay(NamedTuple):
    turns: list[ReplayedTurn]
    figures: dict[str, Any]
    late: list[str]

    @property
    def conversations(self) -> list[str]:
        return list(dict.fromkeys(turn.conversation_id for turn in self.turns))

    @property
    def succeeded(self) -> bool:
        return not self.late and self.figures["failed"] == 0


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
    late: list[str] = []
    with ReplayProgress(console(sys.stderr), _turn_count(transcripts, options)) as progress:
        await warm_up(client, transcripts[0], options)
        for transcript in transcripts:
            async for turn in replay_conversation(client, transcript, options):
                turns.append(turn)
                progress.show(turn)
        conversations = [options.conversation_id(transcript) for transcript in transcripts]
        if wait is not None:
            progress.say("waiting for compaction")
            late = await wait_for_compaction(client, conversations, wait)
        compactions = [c for name in conversations for c in await compactions_of(client, name)]
        histories = await history_figures(temporal, compactions)
    return Replay(turns, figures_of(turns, compactions, histories), late)


def print_replay(replay: Replay, budget: int, out: Console) -> None:
    many = len(replay.conversations) > 1
    if not many:
        out.print(TURN_LEGEND, style="dim")
        out.print()
    out.print(conversation_table(replay.turns) if many else turn_table(replay.turns))
    out.print()
    out.print(summary_text(replay.figures, budget))


def complain_of_lateness(replay: Replay, wait: timedelta | None) -> None:
    if replay.late and wait is not None:
        names = ", ".join(map(repr, replay.late[:3])) + (" …" if len(replay.late) > 3 else "")
        complain(
            f"compaction of {names} was not done after {wait.total_seconds():g} s; all turns are"
            " recorded. Is a worker running (python -m worker) and Temporal reachable?"
        )


def _turn_count(transcripts: Sequence[Transcript], options: ReplayOptions) -> int:
    counts = [
        sum(len(stretches(turn, options.stretch)) for turn in transcript.turns)
        for transcript in transcripts
    ]
    return sum(min(count, options.limit or count) for count in counts)
