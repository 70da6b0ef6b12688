"""The schedules of sweeps: how often each comes and what it is asked, and what is told of them.

Temporal is asked in `durable_context.sweeps.schedule_calls`, imported when it is first needed.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Literal, Self

from pydantic import Field

from durable_context.contracts import SUMMARY_TASK_QUEUE
from durable_context.contracts.sweep import (
    SWEEP_KINDS,
    UPGRADE_TOKENS,
    SweepKind,
    SweepRequest,
    SweepResult,
)
from durable_context.errors import InvalidArgument
from durable_context.models import Value
from durable_context.policy import CompactionPolicy, policy_from_env

PAUSED_AT_FIRST: frozenset[SweepKind] = frozenset({"upgrade"})
"""Costs what models cost for all that was ever summarized: somebody decides when."""
LONGEST_SHARE = 0.8
LEAST_LONGEST = timedelta(seconds=24)
SPARE_SHARE = 0.1
LEAST_SPARE = timedelta(seconds=30)
"""Between the end of a sweep's time and that of its execution: for a batch that was begun."""
JITTER_SHARE = 0.1
LONGEST_JITTER = timedelta(minutes=10)
CATCH_UP_WINDOW = timedelta(minutes=10)

ScheduleChange = Literal["created", "updated", "unchanged"]

_DEFAULTS: dict[SweepKind, timedelta] = {
    "catch-up": timedelta(minutes=5),
    "merge": timedelta(hours=1),
    "upgrade": timedelta(days=1),
    "retention": timedelta(days=1),
    "verify": timedelta(days=7),
}
LONGEST_SECONDS = 366 * 24 * 3600


class ScheduleSettings(Value):
    """What schedules are made from. `intervals`: of each kind, the defaults where it has none.

    `policy` is what sweeps go by: the one that clients and workers have, or branches are cut into
    other segments. `grace`: a branch that was used so lately is left to its own hints.
    `upgrade_tokens`: budget of an upgrade run, in tokens that summarizers read.
    """

    policy: CompactionPolicy = CompactionPolicy()
    intervals: dict[SweepKind, timedelta] = Field(default_factory=dict[SweepKind, timedelta])
    grace: timedelta = timedelta(seconds=60)
    upgrade_tokens: int = UPGRADE_TOKENS
    summary_task_queue: str = SUMMARY_TASK_QUEUE

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Self:
        """DURABLE_CONTEXT_POLICY, DURABLE_CONTEXT_CATCH_UP_SECONDS and so on for each kind,
        DURABLE_CONTEXT_GRACE_SECONDS, DURABLE_CONTEXT_UPGRADE_TOKENS. Raises InvalidArgument.
        """
        seconds: dict[SweepKind, int | None] = {
            kind: _whole(environ, f"DURABLE_CONTEXT_{kind.upper().replace('-', '_')}_SECONDS", 1)
            for kind in SWEEP_KINDS
        }
        grace = _whole(environ, "DURABLE_CONTEXT_GRACE_SECONDS", 0)
        tokens = _whole(environ, "DURABLE_CONTEXT_UPGRADE_TOKENS", 1)
        return cls(
            policy=policy_from_env(environ),
            intervals={
                kind: timedelta(seconds=every)
                for kind, every in seconds.items()
                if every is not None
            },
            grace=timedelta(seconds=60 if grace is None else grace),
            upgrade_tokens=UPGRADE_TOKENS if tokens is None else tokens,
        )

    def every(self, kind: SweepKind) -> timedelta:
        return self.intervals.get(kind, _DEFAULTS[kind])

    def request(self, kind: SweepKind, every: timedelta) -> SweepRequest:
        """What a sweep is asked whose schedule comes `every` so often."""
        return SweepRequest(
            kind=kind,
            policy=self.policy,
            grace=self.grace,
            max_tokens=self.upgrade_tokens,
            longest=_longest(every),
            every=self.every(kind),
            summary_task_queue=self.summary_task_queue,
        )


class SweepSchedule(Value):
    """A schedule as it is in Temporal. `exists` False: it was not applied, or deleted.

    `every` is None where an operator gave it calendars instead. `last_status`: how its newest sweep
    ended, or "running"; `last_result` if it completed, `last_error` if not. `skipped` counts times
    that passed because the sweep before was not over, `missed` those while Temporal was away.
    """

    kind: SweepKind
    schedule_id: str
    exists: bool = True
    paused: bool = False
    note: str = ""
    every: timedelta | None = None
    last_run_at: datetime | None = None
    next_run_at: datetime | None = None
    last_status: str | None = None
    last_result: SweepResult | None = None
    last_error: str | None = None
    runs: int = 0
    skipped: int = 0
    missed: int = 0


class AppliedSchedule(Value):
    """`changed` names what was not as wanted. `kept`: what an operator changed, and what stays."""

    kind: SweepKind
    schedule_id: str
    change: ScheduleChange
    changed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


def _longest(every: timedelta) -> timedelta:
    return max(every * LONGEST_SHARE, LEAST_LONGEST)


def execution_timeout(every: timedelta) -> timedelta:
    """Of a sweep that hangs. Of short intervals it ends after the next was due, which is skipped:
    one that cannot end by itself would lose its place.
    """
    return _longest(every) + max(every * SPARE_SHARE, LEAST_SPARE)


def check_kind(kind: str) -> SweepKind:
    """Raises InvalidArgument."""
    for allowed in SWEEP_KINDS:
        if kind == allowed:
            return allowed
    raise InvalidArgument(f"kind={kind!r:.80}; allowed are {', '.join(SWEEP_KINDS)}")


def _whole(environ: Mapping[str, str], name: str, least: int) -> int | None:
    text = environ.get(name)
    if not text:
        return None
    is_short = text.isascii() and text.isdecimal() and len(text) <= len(str(LONGEST_SECONDS))
    if not is_short or not least <= int(text) <= LONGEST_SECONDS:
        raise InvalidArgument(
            f"{name}={text!r:.80} must be a whole number from {least} to {LONGEST_SECONDS}"
        )
    return int(text)
