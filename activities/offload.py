"""The activity that offloads messages. Handles and figures cross Temporal, never what was said."""

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.errors import as_temporal_errors
from activities.heartbeats import heartbeats
from activities.said import of_offload
from activities.spans import step
from durable_context.contracts import OFFLOAD_CONTEXT, OffloadedMessages, OffloadRequest
from durable_context.errors import ArtifactDamaged, ArtifactNotFound, InvalidArgument
from durable_context.offload.durable import DurableOffload
from durable_context.telemetry import steps
from durable_context.telemetry.spans import say

FINAL = (InvalidArgument, ArtifactNotFound, ArtifactDamaged)
"""Errors that no retry helps."""


class OffloadActivities:
    def __init__(self, offloads: DurableOffload) -> None:
        self._offloads = offloads

    @activity.defn(name=OFFLOAD_CONTEXT)
    async def offload(self, request: OffloadRequest) -> OffloadedMessages:
        async with heartbeats(activity.info().heartbeat_timeout):
            with as_temporal_errors():
                try:
                    with step(steps.OFFLOAD, request.branch_uuid, {}) as span:
                        result = await self._offloads.run(request)
                        say(span, of_offload(result))
                    return result
                except FINAL as error:
                    final = error
        name = type(final).__name__
        raise ApplicationError(str(final), type=name, non_retryable=True) from None
