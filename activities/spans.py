"""A span for each step of a compaction, inside Temporal's own span of the activity."""

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from uuid import UUID

from opentelemetry.trace import Span, get_current_span
from temporalio import activity

from durable_context.compaction.compactor import Compactor
from durable_context.compaction.conversation import OfBranch
from durable_context.telemetry.model_calls import conversation
from durable_context.telemetry.spans import BRANCH, Said, branch_attributes, span
from durable_context.telemetry.steps import ATTEMPT


@asynccontextmanager
async def branch_step(
    name: str, compactor: Compactor, request: OfBranch, said: dict[str, Said]
) -> AsyncGenerator[Span]:
    """Calls of models inside are for the same conversation."""
    shown = str(request.branch_uuid)
    if get_current_span().is_recording():
        shown = await compactor.shown_conversation(request)
    token = conversation.set(shown)
    try:
        with step(name, request.branch_uuid, said, shown) as current:
            yield current
    finally:
        conversation.reset(token)


@contextmanager
def step(
    name: str, branch_uuid: UUID | None, said: dict[str, Said], shown: str = ""
) -> Generator[Span]:
    attempt: dict[str, Said] = {ATTEMPT: activity.info().attempt}
    branch: dict[str, Said] = {}
    if branch_uuid is not None:
        branch = branch_attributes(branch_uuid, shown) if shown else {BRANCH: str(branch_uuid)}
    with span(name, branch | attempt | said) as current:
        yield current
