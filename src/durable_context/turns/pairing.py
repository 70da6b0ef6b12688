"""Tool calls and results: each call is followed by its result, and no result is without a call."""

from collections.abc import Iterable, Sequence

from durable_context.errors import IncompleteToolExchange, InvalidTurn
from durable_context.models import Message, Outcome

NO_RESULT = "[No result: the turn was interrupted before this call returned.]"


def with_results(
    messages: Sequence[Message], outcome: Outcome, positions: Iterable[int] | None = None
) -> list[Message]:
    """Each call with its result right after it: those that have none get a synthetic one, if the
    turn was interrupted. `positions` are those that errors name. Raises InvalidTurn,
    IncompleteToolExchange.
    """
    paired: list[Message] = []
    waiting: dict[str, str] = {}
    missing: list[str] = []

    def close() -> None:
        for call_id in waiting:
            missing.append(call_id)
            paired.append(
                Message(role="tool", tool_call_id=call_id, content=NO_RESULT, synthetic=True)
            )
        waiting.clear()

    places = range(len(messages)) if positions is None else positions
    for position, message in zip(places, messages, strict=True):
        if message.role == "tool":
            call_id = message.tool_call_id
            if call_id not in waiting:
                raise InvalidTurn(
                    f"message {position} is a tool result for {call_id!r}, but the calls that wait"
                    f" for a result are {sorted(waiting)!r}"
                )
            del waiting[call_id]
        else:
            close()
            waiting.update(_calls_of(message, position))
        paired.append(message)
    close()
    if missing and outcome != "interrupted":
        raise IncompleteToolExchange(
            f"tool calls {missing!r} have no result; add the results, or record the turn with"
            f" outcome='interrupted' (it is {outcome!r})",
            tuple(missing),
        )
    return paired


def _calls_of(message: Message, position: int) -> dict[str, str]:
    if message.tool_calls and message.role != "assistant":
        raise InvalidTurn(
            f"message {position} has tool calls and role {message.role!r}; only 'assistant' may"
        )
    calls = {call.id: call.name for call in message.tool_calls}
    if len(calls) != len(message.tool_calls):
        ids = [call.id for call in message.tool_calls]
        raise InvalidTurn(f"message {position} repeats a tool call id: {ids!r}")
    return calls
