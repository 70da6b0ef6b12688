"""A hint's span. Hints are sent in the background, after others of the same branch: each belongs to
the call it comes from, and is linked with those that it stands for as well.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, NamedTuple, cast

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, SpanContext, SpanKind

from durable_context.contracts import CompactionRequest
from durable_context.telemetry import instruments, spans

MOST_LINKS: Final = 32
_FOLDED: Final = context.create_key("durable_context.folded")


class Origin(NamedTuple):
    """Where a hint comes from: the context of the call, and the spans of older hints in its place,
    the newest of them.
    """

    context: Context
    folded: tuple[SpanContext, ...] = ()


class Told:
    """What became of a hint: lost until it is sent. `started`: it started a run."""

    def __init__(self) -> None:
        self.outcome = "lost"
        self._started: bool | None = None
        self._error: Exception | None = None

    def sent(self, started: bool) -> bool:
        self.outcome, self._started = "sent", started
        return True

    def lost(self, error: Exception | None = None) -> bool:
        self._error = error
        return False

    def tell(self, current: trace.Span) -> None:
        instruments.hints.add(1, {"outcome": self.outcome})
        spans.say(current, {spans.OUTCOME: self.outcome, spans.STARTED: self._started})
        if self._error is not None:
            spans.fail(current, self._error)


def origin_here(before: Origin | None) -> Origin:
    """The current call, for a hint in the place of one that came from `before`."""
    here = context.get_current()
    if before is None:
        return Origin(here)
    older = trace.get_current_span(before.context).get_span_context()
    folded = (*before.folded, older) if older.is_valid else before.folded
    return Origin(here, folded[-MOST_LINKS:])


@contextmanager
def resumed(origin: Origin) -> Generator[None]:
    """What is done in it belongs to the call the hint comes from."""
    token = context.attach(context.set_value(_FOLDED, origin.folded, origin.context))
    try:
        yield
    finally:
        context.detach(token)


@contextmanager
def hint_span(request: CompactionRequest, turn_no: int) -> Generator[Told]:
    folded = cast(tuple[SpanContext, ...], context.get_value(_FOLDED) or ())
    attributes: dict[str, spans.Said] = {
        **spans.branch_attributes(request.branch_uuid, request.conversation),
        spans.TURN: turn_no,
        spans.FOLDED: len(folded) or None,
    }
    links = [Link(each) for each in folded]
    told = Told()
    with spans.span(spans.HINT, attributes, kind=SpanKind.PRODUCER, links=links) as current:
        try:
            yield told
        finally:
            told.tell(current)
