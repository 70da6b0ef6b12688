"""Results of tools through a pipeline, before a turn is recorded: `post_tool_call` for each."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from durable_context import stored_json
from durable_context.artifacts.kept_once import keep_once
from durable_context.errors import ProcessorError
from durable_context.models import Message
from durable_context.processors.context import Context
from durable_context.processors.pipeline import POST_TOOL_CALL, ProcessorPipeline
from durable_context.text import message_text
from durable_context.turns.sendable import sendable, to_openai

if TYPE_CHECKING:
    from durable_context.branch import Branch


async def processed_results(
    branch: "Branch", pipeline: ProcessorPipeline, messages: Sequence[Message]
) -> tuple[Message, ...]:
    """The messages as the pipeline leaves them, with what it offloaded in the artifact store.

    Raises what a processor raises, and what the artifact store does.
    """
    if not pipeline.has_processors(POST_TOOL_CALL):
        return tuple(messages)
    history = [to_openai(sendable(message)) for message in messages]
    ctx = Context.over(branch, history)
    names = {call.id: call.name for message in messages for call in message.tool_calls}
    processed = [
        await _processed(message, names.get(message.tool_call_id or ""), pipeline, ctx)
        if message.role == "tool" and not message.synthetic
        else message
        for message in messages
    ]
    await _keep_offloaded(branch, ctx)
    return tuple(processed)


async def _processed(
    message: Message, name: str | None, pipeline: ProcessorPipeline, ctx: Context
) -> Message:
    said = message_text(message) if _is_text(message) else _text_parts(message)
    payload: dict[str, Any] = {
        "tool_result": said,
        "tool_name": name or "unknown",
        "tool_call_id": message.tool_call_id or "unknown",
    }
    await pipeline.fire(POST_TOOL_CALL, ctx, payload)
    result: object = payload.get("tool_result")
    if result == said:
        return message
    return message.model_copy(update={"content": _content(message, _as_text(result, message))})


def _is_text(message: Message) -> bool:
    return not isinstance(message.content, tuple)


def _text_parts(message: Message) -> str:
    """What a result with images says besides."""
    parts = message.content if isinstance(message.content, tuple) else ()
    return "\n".join(part["text"] for part in parts if part["type"] == "text")


def _as_text(result: object, message: Message) -> str:
    if isinstance(result, str):
        return result
    try:
        return stored_json.dumps(result)
    except (TypeError, ValueError, RecursionError):
        raise ProcessorError(
            f"a processor made {result!r:.80} of the result of {message.tool_call_id!r:.80}; it"
            " must be text or JSON"
        ) from None


def _content(message: Message, text: str) -> str | tuple[dict[str, Any], ...]:
    """Images and files stay beside the text."""
    if not isinstance(message.content, tuple):
        return text
    others = tuple(part for part in message.content if part["type"] != "text")
    return ({"type": "text", "text": text}, *others)


async def _keep_offloaded(branch: "Branch", ctx: Context) -> None:
    """The context ends with the turn: what processors left in its state would end with it."""
    for entry in cast(Sequence[Mapping[str, Any]], ctx.state.get("offloaded_results", ())):
        if entry.get("handle") and isinstance(entry.get("content"), str):
            await keep_once(branch, entry["handle"], entry["content"])
