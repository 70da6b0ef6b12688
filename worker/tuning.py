"""How much a worker takes on at a time, as the environment says."""

from collections.abc import Mapping
from typing import NamedTuple, Self

from durable_context.models import Value
from worker.errors import InvalidSettings
from worker.variables import number, whole

TARGET_MEMORY = "DURABLE_CONTEXT_TARGET_MEMORY"
TARGET_CPU = "DURABLE_CONTEXT_TARGET_CPU"
CONNECTIONS_BESIDE_ACTIVITIES = 2


class Targets(NamedTuple):
    """Shares of the machine's memory and processors, up to which slots are given out."""

    memory: float
    cpu: float


class Tuning(Value):
    """`max_polls`: the most polls that wait at the server for each kind of task; None: always 5.

    `summaries_per_second` is kept by the server for all workers of the queue together, so all need
    the same; the newest to poll has the last word. With `targets` the other figures are the most
    that is given out, and less where the machine is busy.
    """

    max_workflow_tasks: int = 100
    max_activities: int = 50
    max_summaries: int = 20
    max_cached_workflows: int = 1000
    max_polls: int | None = None
    summaries_per_second: float | None = None
    targets: Targets | None = None

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Self:
        """Raises InvalidSettings."""
        return cls(
            max_workflow_tasks=whole(environ, "DURABLE_CONTEXT_MAX_WORKFLOW_TASKS", 100, 2, 1000),
            max_activities=whole(environ, "DURABLE_CONTEXT_MAX_ACTIVITIES", 50, 1, 1000),
            max_summaries=whole(environ, "DURABLE_CONTEXT_MAX_SUMMARIES", 20, 1, 1000),
            max_cached_workflows=whole(
                environ, "DURABLE_CONTEXT_MAX_CACHED_WORKFLOWS", 1000, 0, 100_000
            ),
            max_polls=whole(environ, "DURABLE_CONTEXT_MAX_POLLS", 0, 2, 100) or None,
            summaries_per_second=number(
                environ, "DURABLE_CONTEXT_SUMMARIES_PER_SECOND", 0.001, 10_000
            ),
            targets=_targets(environ),
        )

    @property
    def connections(self) -> int:
        """To PostgreSQL, at most: an activity holds one at a time."""
        return self.max_activities + self.max_summaries + CONNECTIONS_BESIDE_ACTIVITIES


def _targets(environ: Mapping[str, str]) -> Targets | None:
    memory = number(environ, TARGET_MEMORY, 0.05, 1)
    cpu = number(environ, TARGET_CPU, 0.05, 1)
    if (memory is None) != (cpu is None):
        texts = (environ.get(name) for name in (TARGET_MEMORY, TARGET_CPU))
        said = " and ".join(
            f"{name}={text!r}"
            for name, text in zip((TARGET_MEMORY, TARGET_CPU), texts, strict=True)
        )
        raise InvalidSettings(f"{said} go together")
    return None if memory is None or cpu is None else Targets(memory, cpu)
