"""What an operator asks to be made anew, checked before anything is started."""

from collections.abc import Sequence

from durable_context.arguments import LARGEST, check_turn
from durable_context.contracts import CompactionRequest
from durable_context.contracts.rebuild import RebuildRequest
from durable_context.errors import InvalidArgument
from durable_context.summarizers.chain import check_spec

MOST_SUMMARIZERS = 5


def rebuild_request(
    request: CompactionRequest,
    from_turn: int,
    to_turn: int | None,
    summarizers: Sequence[str] | None,
) -> RebuildRequest:
    """`request` says of which branch and by which policy. Raises InvalidArgument."""
    check_turn("from_turn", from_turn)
    check_turn("to_turn", to_turn)
    last = LARGEST if to_turn is None else to_turn
    if not 1 <= from_turn <= last:
        raise InvalidArgument(
            f"from_turn={from_turn}, to_turn={to_turn}; turns count from 1, and the first comes"
            " before the last"
        )
    return RebuildRequest(
        tenant=request.tenant,
        branch_uuid=request.branch_uuid,
        policy=request.policy,
        reason="rebuild",
        from_turn=from_turn,
        to_turn=to_turn or 0,
        summarizers=checked_summarizers(summarizers),
        label=request.label,
        conversation=request.conversation,
        summary_task_queue=request.summary_task_queue,
    )


def checked_summarizers(specs: Sequence[str] | None) -> tuple[str, ...]:
    """Raises InvalidArgument."""
    if specs is None:
        return ()
    if isinstance(specs, str) or not 1 <= len(specs) <= MOST_SUMMARIZERS:
        raise InvalidArgument(
            f"summarizers={specs!r:.80}; allowed is a list of 1 to {MOST_SUMMARIZERS} of them"
        )
    try:
        for spec in specs:
            check_spec(spec)
    except ValueError as error:
        raise InvalidArgument(str(error)) from error
    return tuple(specs)
