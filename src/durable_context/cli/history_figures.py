"""What compactions cost in Temporal: history events and bytes, from the workflow runs they were
made in.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from durable_context.client import FROM_ENVIRONMENT
from durable_context.models import Compaction

if TYPE_CHECKING:
    from temporalio.client import WorkflowExecutionDescription, WorkflowHandle

_AT_ONCE = 16
_LOOKS_AT_OPEN_RUN = 50
_PAUSE = 0.1


class HistoryFigures(NamedTuple):
    """Of one compaction. A run that made several is shared out among them."""

    events: float
    bytes: float


async def history_figures(
    temporal: str | None, compactions: Iterable[Compaction]
) -> list[HistoryFigures]:
    """One entry per compaction whose run Temporal still knows; none where it cannot be reached."""
    runs = Counter(
        (compaction.workflow_id, compaction.run_id)
        for compaction in compactions
        if compaction.workflow_id and compaction.run_id
    )
    if temporal is None or not runs:
        return []
    from durable_context.compaction.temporal_calls import connect

    client = await connect(None if temporal == FROM_ENVIRONMENT else temporal)
    limit = asyncio.Semaphore(_AT_ONCE)

    async def of_run(workflow_id: str, run_id: str, passes: int) -> list[HistoryFigures]:
        async with limit:
            run = await _described(client.get_workflow_handle(workflow_id, run_id=run_id))
        if run is None:
            return []
        size = run.raw_description.workflow_execution_info.history_size_bytes
        return [HistoryFigures(run.history_length / passes, size / passes)] * passes

    found = await asyncio.gather(
        *(of_run(str(workflow), str(run), passes) for (workflow, run), passes in runs.items())
    )
    return [figures for of_one in found for figures in of_one]


async def _described(handle: "WorkflowHandle[Any, Any]") -> "WorkflowExecutionDescription | None":
    """The run once it is closed, or open as it is after a while."""
    from temporalio.service import RPCError

    for look in range(_LOOKS_AT_OPEN_RUN):
        try:
            run = await handle.describe()
        except (RPCError, RuntimeError):
            return None
        if run.close_time is not None or look == _LOOKS_AT_OPEN_RUN - 1:
            return run
        await asyncio.sleep(_PAUSE)
    return None
