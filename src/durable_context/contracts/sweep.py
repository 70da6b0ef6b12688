"""Sweeps over all branches, which schedules start: names, requests, results.

A sweep pages by key and keeps its place, so that it goes on where a killed worker, a bound on its
time or continue-as-new interrupted it. Two sweeps at once do no harm: they send spare hints.
"""

from datetime import datetime, timedelta
from typing import Final, Literal

from pydantic import Field

from durable_context.contracts import COMPACTION_TASK_QUEUE, SUMMARY_TASK_QUEUE
from durable_context.models import Value
from durable_context.policy import CompactionPolicy

SWEEP_WORKFLOW = "Sweep"
SWEEP = "sweep"

DAMAGE_FOUND = "DamageFound"
"""Type of the failure that ends a verify sweep that found damage, or could not read a branch."""
SWEEP_FAILED = "SweepFailed"

SweepKind = Literal["catch-up", "merge", "upgrade", "retention", "verify"]
SWEEP_KINDS: Final[tuple[SweepKind, ...]] = (
    "catch-up",
    "merge",
    "upgrade",
    "retention",
    "verify",
)

UPGRADE_TOKENS = 1_000_000


def schedule_id(kind: SweepKind, task_queue: str = COMPACTION_TASK_QUEUE) -> str:
    """Workers with a queue of their own have schedules of their own."""
    prefix = "durable-context" if task_queue == COMPACTION_TASK_QUEUE else task_queue
    return f"{prefix}-{kind}"


class SweepCounts(Value):
    """Branches: looked at, found due by the database, and what became of those: work started, a run
    of it open already, nothing to do after all (or no budget left), failed: Temporal
    refused, or the branch cannot be read.

    `tokens`: allotted to upgrades. `found`: what retention and verification count.
    """

    scanned: int = 0
    due: int = 0
    started: int = 0
    running: int = 0
    skipped: int = 0
    failed: int = 0
    tokens: int = 0
    found: dict[str, int] = Field(default_factory=dict)


class SweepPosition(Value):
    """How far a sweep is: all up to the key `after` is done. What an activity heartbeats and
    returns.
    """

    after: str = ""
    counts: SweepCounts = SweepCounts()
    is_done: bool = False


class SweepRequest(Value):
    """`tenant` None: all. `policy` says what is due, and travels on to the work that is started.

    `grace`: a branch that was used so lately is left to its own hints. `max_tokens`: budget of an
    upgrade, in tokens that summarizers read. `longest`: after so long the sweep ends where it is;
    the schedule's next one goes on from there. `every`: the interval that was applied, by which a
    changed one is told from it. `started_at`, `position`: carried over continue-as-new.
    """

    kind: SweepKind
    policy: CompactionPolicy = CompactionPolicy()
    tenant: str | None = None
    grace: timedelta = timedelta(seconds=60)
    max_tokens: int = UPGRADE_TOKENS
    longest: timedelta = timedelta(minutes=4)
    every: timedelta | None = None
    summary_task_queue: str = SUMMARY_TASK_QUEUE
    started_at: datetime | None = None
    position: SweepPosition = SweepPosition()


class SweepResult(Value):
    """`left_at`: the key where the time was over; empty where the sweep saw all. A
    DamageFound tells it, too, after its counts.
    """

    kind: SweepKind
    counts: SweepCounts = SweepCounts()
    left_at: str = ""
