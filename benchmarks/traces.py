"""Recorded agents and conversations from a folder of data files, joined into long branches."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from durable_context.errors import DurableContextError
from durable_context.transcripts import Transcript, read_transcripts

JsonObject = dict[str, Any]

DEFAULT_DATA = Path(__file__).parent.parent.parent / "shared" / "data"
"""Beside the checkout."""
BRANCH_TURNS = 150
"""User messages that a branch of joined tasks has at least."""
LOCOMO_DEV = frozenset({"locomo-26", "locomo-30", "locomo-41", "locomo-42", "locomo-43"})

_SOURCES = {
    "taubench.jsonl": "recorded trajectories of tau-bench (github.com/sierra-research/tau-bench)",
    "swe.jsonl": "recorded runs of SWE-agent (github.com/SWE-agent/SWE-agent, trajectories)",
    "locomo.jsonl": "the conversations of LoCoMo (github.com/snap-research/locomo)",
}


class MissingData(DurableContextError):
    """A data file is not there or holds nothing of what is asked for."""


class Half(StrEnum):
    """Of tau-bench: trajectories of even and of odd index, which have no task in common."""

    DEV = "dev"
    HELDOUT = "heldout"


@dataclass(frozen=True)
class Task:
    """What one trajectory holds, in OpenAI chat format. `system` is not among its messages."""

    name: str
    system: str | None
    messages: tuple[JsonObject, ...]

    @property
    def turns(self) -> int:
        return sum(message["role"] == "user" for message in self.messages)


@dataclass(frozen=True)
class Trace:
    """Tasks that one branch holds, one after the other."""

    name: str
    tasks: tuple[Task, ...]


def taubench(data: Path, half: Half) -> list[Trace]:
    """The trajectories of one half in the order of the file, which is trial by trial and task by
    task, joined: a branch is closed when it has BRANCH_TURNS user messages. What is left at the end
    goes to the last branch.
    """
    wanted = 0 if half is Half.DEV else 1
    rows = sorted(_rows(data / "taubench.jsonl"), key=lambda row: row["source_index"])
    tasks = [_task(row) for row in rows if row["source_index"] % 2 == wanted]
    if not tasks:
        raise MissingData(f"taubench.jsonl holds no trajectory of the half {half.value!r}")
    return [
        Trace(f"tau-bench {number}", part) for number, part in enumerate(joined(tasks), start=1)
    ]


def swe(data: Path) -> list[Trace]:
    """All coding runs end to end, as one branch."""
    return [Trace("coding runs", tuple(_task(row) for row in _rows(data / "swe.jsonl")))]


def locomo(data: Path, half: Half) -> list[Transcript]:
    """The conversations of one half as they are."""
    path = data / "locomo.jsonl"
    _check(path)
    dev = half is Half.DEV
    found = [each for each in read_transcripts(path) if (each.name in LOCOMO_DEV) is dev]
    if not found:
        raise MissingData(f"locomo.jsonl holds no conversation of the half {half.value!r}")
    return found


def joined(tasks: Sequence[Task], turns: int = BRANCH_TURNS) -> list[tuple[Task, ...]]:
    """Tasks in groups of at least so many turns, if there are as many."""
    groups: list[tuple[Task, ...]] = []
    group: list[Task] = []
    for task in tasks:
        group.append(task)
        if sum(each.turns for each in group) >= turns:
            groups.append(tuple(group))
            group = []
    if group and groups:
        groups[-1] += tuple(group)
    elif group:
        groups.append(tuple(group))
    return groups


def _task(row: JsonObject) -> Task:
    said = [message for message in row["messages"] if message["role"] != "system"]
    systems = [m["content"] for m in row["messages"] if m["role"] == "system"]
    return Task(row["trajectory_id"], systems[0] if systems else None, tuple(said))


def _rows(path: Path) -> Iterator[JsonObject]:
    _check(path)
    with path.open(encoding="utf-8") as file:
        yield from (json.loads(line) for line in file if line.strip())


def _check(path: Path) -> None:
    if not path.is_file():
        wanted = "; ".join(f"{name}: {source}" for name, source in _SOURCES.items())
        raise MissingData(
            f"there is no {path.name} in {str(path.parent)!r}. Name a folder with --data. It holds"
            f" JSON Lines with a conversation each; {wanted}"
        )
