"""Results of tools through a pipeline, before a turn is recorded: `post_tool_call` for each."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from durable_context.artifacts.offloading import Original
from durable_context.errors import ProcessorError
from durable_context.models import Message
from durable_context.processors.config import ContextConfig
from durable_context.processors.context import Context
from durable_context.processors.offloaded import offloaded_results
from durable_context.processors.pipeline import POST_TOOL_CALL, ProcessorPipeline
from durable_context.showing import shown
from durable_context.text import message_text
from durable_context.turns.sendable import sendable, to_openai

if TYPE_CHECKING:
    from durable_context.branch import Branch


class ProcessedTurn(NamedTuple):
    """Messages as a pipeline left them, and what it offloaded of them, to be recorded with them."""

    messages: tuple[Message, ...]
    originals: tuple[Original, ...]


async def processed_results(
    branch: "Branch",
    pipeline: ProcessorPipeline,
    messages: Sequence[Message],
    config: ContextConfig | None = None,
) -> ProcessedTurn:
    """Each result that came, fired in order, in one context. Raises what a processor raises."""
    if not pipeline.has_processors(POST_TOOL_CALL):
        return ProcessedTurn(tuple(messages), ())
    history = [to_openai(sendable(message)) for message in messages]
    ctx = Context.over(branch, history, config=config, recording=True)
    processed: list[Message] = []
    originals: list[Original] = []
    for position, (message, name) in enumerate(_named(messages)):
        seen = len(offloaded_results(ctx))
        if message.role == "tool" and not message.synthetic:
            message = await _processed(message, name, pipeline, ctx)
        processed.append(message)
        originals += _originals(offloaded_results(ctx)[seen:], position)
    return ProcessedTurn(tuple(processed), tuple(originals))


def _named(messages: Sequence[Message]) -> Iterator[tuple[Message, str]]:
    """Each message with the name of the tool it answers for. Ids may come again in a turn."""
    names: dict[str, str] = {}
    for message in messages:
        names |= {call.id: call.name for call in message.tool_calls}
        yield message, names.get(message.tool_call_id or "", "unknown")


def _originals(entries: Sequence[Mapping[str, Any]], position: int) -> Iterator[Original]:
    for entry in entries:
        handle, content = entry.get("handle"), entry.get("content")
        if isinstance(handle, str) and isinstance(content, str):
            yield Original(position, handle, content)


async def _processed(
    message: Message, name: str, pipeline: ProcessorPipeline, ctx: Context
) -> Message:
    said = _said(message)
    payload: dict[str, Any] = {
        "tool_result": said,
        "tool_name": name,
        "tool_call_id": message.tool_call_id or "unknown",
    }
    await pipeline.fire(POST_TOOL_CALL, ctx, payload)
    result: object = payload.get("tool_result")
    if result == said:
        return message
    return message.model_copy(update={"content": _content(message, _as_text(result, message))})


def _said(message: Message) -> str:
    """Of a result with images what it says besides."""
    if not isinstance(message.content, tuple):
        return message_text(message)
    return "\n".join(part["text"] for part in message.content if part["type"] == "text")


def _as_text(result: object, message: Message) -> str:
    if isinstance(result, str):
        return result
    try:
        if result is not None:
            return json.dumps(result, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        pass
    raise ProcessorError(
        f"a processor of 'post_tool_call' made {shown(result)} of the result of"
        f" {message.tool_call_id!r:.80}; it must be text or JSON"
    )


def _content(message: Message, text: str) -> str | tuple[dict[str, Any], ...]:
    """Images and files stay beside the text."""
    if not isinstance(message.content, tuple):
        return text
    others = tuple(part for part in message.content if part["type"] != "text")
    return ({"type": "text", "text": text}, *others)
