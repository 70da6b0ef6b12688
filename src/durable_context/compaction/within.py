"""A compaction on request of a prompt that does not fit: asked for where one would help, waited for
within a bound, and never a reason to fail.
"""

import logging
from datetime import timedelta

from durable_context.compaction.bounds import bounded
from durable_context.compaction.lag import next_segment
from durable_context.compaction.requests import CompactionRequests
from durable_context.compaction.store import CompactionStore
from durable_context.contracts import CompactionRequest
from durable_context.errors import CompactionTimeout
from durable_context.resources import Resources
from durable_context.telemetry.runtime import tell_compaction
from durable_context.telemetry.spans import COMPACT, OUTCOME, branch_attributes, say, span

logger = logging.getLogger(__name__)


async def compacted_within(
    shared: Resources,
    request: CompactionRequest,
    checkpoint_turn: int,
    last_turn: int,
    bound: timedelta,
) -> bool:
    """Whether a prompt made at this checkpoint may come out otherwise now.

    Temporal is asked only if a segment is due that ends at `last_turn` or before. What it answers,
    if anything in time, changes nothing: whatever it has published by now is in the next prompt.
    """
    if shared.requests is None:
        return False
    try:
        return await bounded(
            _compacted(shared, shared.requests, request, checkpoint_turn, last_turn, bound), bound
        )
    except CompactionTimeout as late:
        logger.info("%s", late)
        return True


async def _compacted(
    shared: Resources,
    requests: CompactionRequests,
    request: CompactionRequest,
    checkpoint_turn: int,
    last_turn: int,
    bound: timedelta,
) -> bool:
    store = CompactionStore(shared.pool, request.tenant, request.branch_uuid)
    head = await store.head()
    due = await next_segment(store, head, request.policy)
    if not due or due[-1].turn_no > last_turn or head.is_paused:
        return head.checkpoint_turn > checkpoint_turn  # somebody else was faster
    attributes = branch_attributes(request.branch_uuid, request.conversation)
    try:
        with span(COMPACT, attributes) as current:
            result = await requests.compact_now(request, bound)
            say(current, {OUTCOME: tell_compaction(current, result)})
    except Exception as error:  # whatever it is, the prompt is made of what there is
        logger.info("no compaction before the prompt: %s", str(error) or type(error).__name__)
    return True
