"""A replay on the terminal: progress while it runs, then a table of turns or of conversations."""

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import groupby
from types import TracebackType
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from durable_context.cli.figures import percentile
from durable_context.cli.output import one_line, plain
from durable_context.cli.replay_model import ReplayedTurn
from durable_context.prompts.manifest import Block

_RECENT_TURNS = 8
_SHORT = {"checkpoint": "cp", "digest": "dg", "retrieved": "ret"}
# Every prompt has them, and they have no turns.
_INFERRED = ("instructions", "pending", "user")

TURN_LEGEND = (
    "raw: tokens of the conversation with this turn; prompt: tokens prepared before it, with the"
    " instructions and the user's message, which are not in blocks; ms: time of prepare; comp.:"
    " compactions so far. In blocks, with their turns: cp checkpoint, dg digests, ledger, raw; ret:"
    " number of retrieved passages."
)


class ReplayProgress:
    """`with`: a bar and the newest turns, on a terminal only, gone at the end."""

    def __init__(self, console: Console, turns: int) -> None:
        self._console = console
        self._recent: deque[ReplayedTurn] = deque(maxlen=_RECENT_TURNS)
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        self._task = self._progress.add_task("replaying", total=turns)
        self._live = Live(console=console, transient=True, auto_refresh=console.is_terminal)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._live.stop()

    def show(self, turn: ReplayedTurn) -> None:
        self._recent.append(turn)
        description = one_line(turn.conversation_id).plain[:40]
        self._progress.update(self._task, advance=1, description=description)
        self._refresh()

    def say(self, what: str) -> None:
        self._progress.update(self._task, description=what)
        self._refresh()

    def _refresh(self) -> None:
        if self._console.is_terminal:
            self._live.update(Group(turn_table(self._recent), self._progress))


def turn_table(turns: Iterable[ReplayedTurn]) -> Table:
    """Branch by branch."""
    rows = [row for branch in _by_branch(turns) for row in branch]
    forked = len({row.branch_id for row in rows}) > 1
    table = Table(box=None, pad_edge=False, header_style="bold")
    if forked:
        table.add_column("branch", no_wrap=True)
    for name in ("turn", "raw", "prompt"):
        table.add_column(name, justify="right")
    table.add_column("blocks", overflow="fold", ratio=1)
    table.add_column("ms", justify="right")
    table.add_column("comp.", justify="right")
    for turn in rows:
        table.add_row(
            *([one_line(turn.branch_id)] if forked else []),
            str(turn.turn_no),
            f"{turn.raw_tokens:,}",
            _prompt_tokens(turn),
            blocks_text(turn),
            "" if turn.prepare_ms is None else f"{turn.prepare_ms:.1f}",
            str(turn.compactions),
        )
    return table


def conversation_table(turns: Sequence[ReplayedTurn]) -> Table:
    """A row per branch."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("conversation", overflow="fold", ratio=1)
    names = ("turns", "raw tokens", "largest prompt", "over budget", "p50 ms", "p99 ms")
    for name in (*names, "compactions"):
        table.add_column(name, justify="right")
    for rows in _by_branch(turns):
        times = [row.prepare_ms for row in rows if row.prepare_ms is not None]
        table.add_row(
            one_line(_name(rows[0])),
            str(len(rows)),
            f"{rows[-1].raw_tokens:,}",
            f"{max(row.prompt_tokens or 0 for row in rows):,}",
            str(sum(row.exceeded is not None for row in rows)),
            _number(percentile(times, 50)),
            _number(percentile(times, 99)),
            str(rows[-1].compactions),
        )
    return table


def summary_text(figures: dict[str, Any], budget: int) -> Text:
    """The figures as a sentence or two."""
    f = figures
    sentences = [
        f"{_count(f['turns'], 'turn')} of {_count(f['conversations'], 'conversation')}{_forks(f)},"
        f" {f['raw_tokens']:,} tokens raw{_repeated(f['repeated'])};"
        f" {_count(f['artifacts'], 'artifact')} offloaded.",
        f"Largest prompt {f['prompt_tokens_max']:,} of {budget:,} tokens, over budget"
        f" {f['over_budget']}, invalid {f['invalid']}{_prepare(f['prepare_ms'])}.",
        f"{_count(f['compactions'], 'compaction')}, {f['failed']} failed{_histories(f)}.",
    ]
    return Text("\n".join(sentences))


def _forks(figures: dict[str, Any]) -> str:
    return f" and {_count(figures['forks'], 'fork')}" if figures["forks"] else ""


def _prepare(times: dict[str, float | None]) -> str:
    if times["p50"] is None:
        return ""
    return f"; prepare p50 {_number(times['p50'])} ms, p99 {_number(times['p99'])} ms"


def _histories(figures: dict[str, Any]) -> str:
    events, size = figures["history_events"], figures["history_bytes"]
    if events["p50"] is None:
        return ""
    return (
        f"; per compaction {_number(events['p50'])} history events (observed maximum"
        f" {_number(events['max'])}) and {_number(size['p50'])} bytes (observed maximum"
        f" {_number(size['max'])})"
    )


def blocks_text(turn: ReplayedTurn) -> Text:
    """What the prompt was made of, as in `cp 1–12 · dg 13–14 · raw 15–16 · ret 3`."""
    if turn.repeated:
        return Text("recorded before", style="dim")
    if turn.exceeded is not None:
        needed = f"the smallest has {turn.exceeded.smallest:,} of {turn.exceeded.limit:,} tokens"
        return Text(needed, style="red")
    if turn.problems:
        return plain(f"invalid: {'; '.join(turn.problems)}", style="red")
    return blocks_line(turn.blocks)


def blocks_line(blocks: Iterable[Block]) -> Text:
    shown = [block for block in blocks if block.kind not in _INFERRED]
    runs = [(kind, list(blocks)) for kind, blocks in groupby(shown, lambda block: block.kind)]
    return Text(" · ".join(_run_text(kind, blocks) for kind, blocks in runs))


def _run_text(kind: str, blocks: Sequence[Block]) -> str:
    turns = str(len(blocks)) if kind == "retrieved" else _ranges(blocks)
    return f"{_SHORT.get(kind, kind)} {turns}".strip()


def _ranges(blocks: Sequence[Block]) -> str:
    ranges: list[list[int]] = []
    for block in blocks:
        if block.from_turn is None or block.to_turn is None:
            continue
        if ranges and block.from_turn == ranges[-1][1] + 1:
            ranges[-1][1] = block.to_turn
        else:
            ranges.append([block.from_turn, block.to_turn])
    return ", ".join(turn_range(*bounds) for bounds in ranges)


def turn_range(from_turn: int, to_turn: int) -> str:
    return str(from_turn) if from_turn == to_turn else f"{from_turn}–{to_turn}"


def _by_branch(turns: Iterable[ReplayedTurn]) -> list[list[ReplayedTurn]]:
    branches: dict[tuple[str, str], list[ReplayedTurn]] = {}
    for turn in turns:
        branches.setdefault((turn.conversation_id, turn.branch_id), []).append(turn)
    return list(branches.values())


def _name(turn: ReplayedTurn) -> str:
    main = turn.branch_id == "main"
    return turn.conversation_id if main else f"{turn.conversation_id} / {turn.branch_id}"


def _prompt_tokens(turn: ReplayedTurn) -> str:
    if turn.exceeded is not None:
        return "over"
    return "" if turn.prompt_tokens is None else f"{turn.prompt_tokens:,}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _repeated(count: int) -> str:
    return f" ({count:,} of them recorded before)" if count else ""


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value == round(value) or value >= 100 else f"{value:,.1f}"
