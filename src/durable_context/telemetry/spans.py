"""Spans of ours, and the names of what they say. Of an error they tell the type: its message may
quote content.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final
from uuid import UUID

from opentelemetry import trace
from opentelemetry.trace import Link, Span, SpanKind, StatusCode

from durable_context.telemetry.instruments import SCOPE

PREPARE: Final = "durable_context.prepare"
RECORD_TURN: Final = "durable_context.record_turn"
HINT: Final = "durable_context.hint"
COMPACT: Final = "durable_context.compact"
REBUILD: Final = "durable_context.rebuild"

# Of OpenTelemetry's conventions.
ERROR_TYPE: Final = "error.type"
CONVERSATION: Final = "gen_ai.conversation.id"
COMPACTED: Final = "gen_ai.conversation.compacted"
MODEL: Final = "gen_ai.request.model"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHED_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"

# Our own: of a branch, a turn, a prompt and a hint.
BRANCH: Final = "durable_context.branch.uuid"
BRANCH_ID: Final = "durable_context.branch.id"
TENANT: Final = "durable_context.tenant"
OUTCOME: Final = "durable_context.outcome"
TURN: Final = "durable_context.turn"
TURN_TOKENS: Final = "durable_context.turn.tokens"
TURN_MESSAGES: Final = "durable_context.turn.messages"
TURN_OUTCOME: Final = "durable_context.turn.outcome"
HEAD_TURN: Final = "durable_context.head_turn"
PROMPT_TOKENS: Final = "durable_context.prompt.tokens"
PROMPT_LIMIT: Final = "durable_context.prompt.limit"
PROMPT_REQUIRED: Final = "durable_context.prompt.required"
PROMPT_SMALLEST: Final = "durable_context.prompt.smallest"
PROMPT_BLOCKS: Final = "durable_context.prompt.blocks"
PROMPT_REDUCTIONS: Final = "durable_context.prompt.reductions"
PROMPT_STABLE: Final = "durable_context.prompt.stable_tokens"
FOLDED: Final = "durable_context.hint.folded"
STARTED: Final = "durable_context.hint.started"

# Our own: of compactions.
REASON: Final = "compaction.reason"
CHECKPOINT_TURN: Final = "compaction.checkpoint_turn"
TAIL: Final = "compaction.tail"
FROM_TURN: Final = "compaction.from_turn"
TO_TURN: Final = "compaction.to_turn"
PASSES: Final = "compaction.passes"
TOKENS_BEFORE: Final = "compaction.tokens_before"
TOKENS_AFTER: Final = "compaction.tokens_after"
DEGRADED: Final = "compaction.degraded"
ATTEMPTS: Final = "compaction.attempts"
RECIPE: Final = "compaction.recipe"
REPLACED: Final = "compaction.replaced"
MERGED: Final = "compaction.merged"
SKIPPED: Final = "compaction.skipped"
LEFT: Final = "compaction.left"

LARGEST: Final = 2**63 - 1
"""What exporters can send. One number above it would cost them a whole batch of spans."""

Said = str | bool | int | float | None
"""What an attribute is said to be: None leaves it out."""

tracer: Final = trace.get_tracer(SCOPE)


@contextmanager
def span(
    name: str,
    attributes: Mapping[str, Said],
    *,
    kind: SpanKind = SpanKind.INTERNAL,
    links: Sequence[Link] = (),
) -> Generator[Span]:
    """A span that is the current one inside. What is raised in it ends it as an error."""
    with tracer.start_as_current_span(
        name,
        kind=kind,
        attributes=known(attributes),
        links=links,
        record_exception=False,
        set_status_on_exception=False,
    ) as current:
        try:
            yield current
        except BaseException as error:
            fail(current, error)
            raise


def fail(current: Span, error: BaseException) -> None:
    current.set_attribute(ERROR_TYPE, type(error).__qualname__)
    current.set_status(StatusCode.ERROR)


def say(current: Span, attributes: Mapping[str, Said]) -> None:
    current.set_attributes(known(attributes))


def known(attributes: Mapping[str, Said]) -> dict[str, str | bool | int | float]:
    """Those that are known and can be sent."""
    return {
        name: value
        for name, value in attributes.items()
        if value is not None and not (isinstance(value, int) and abs(value) > LARGEST)
    }


def branch_attributes(branch_uuid: UUID, conversation: str = "") -> dict[str, Said]:
    """`conversation`: its id, where ids may be shown. The branch's own stands in for it."""
    return {CONVERSATION: conversation or str(branch_uuid), BRANCH: str(branch_uuid)}
