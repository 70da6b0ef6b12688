"""Processors that change a context at certain events, and the pipeline that calls them in order."""

from abc import ABC, abstractmethod
from collections.abc import MutableMapping, Sequence
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final

from durable_context.errors import ProcessorError
from durable_context.showing import shown

if TYPE_CHECKING:
    from durable_context.processors.context import Context

PRE_LLM_CALL: Final = "pre_llm_call"
POST_TOOL_CALL: Final = "post_tool_call"


class ContextProcessor(ABC):
    """What happens to a context at one event. `name` is the class's where none is given.

    Raises ProcessorError if `event` is empty.
    """

    pure: bool = False
    """Whether `process` calls no model, does no I/O and depends on nothing but the context.
    `Branch.prepare` takes these alone.
    """

    def __init__(self, event: str, *, name: str | None = None) -> None:
        if not isinstance(event, str) or not event:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ProcessorError(f"event must be a non-empty string, not {shown(event)}")
        self._event = event
        self._name = name or type(self).__name__

    @property
    def event(self) -> str:
        return self._event

    @property
    def name(self) -> str:
        return self._name

    @abstractmethod
    async def process(self, ctx: "Context", payload: dict[str, Any]) -> None:
        """Change `ctx.state` or `payload`, both in place."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(event={self._event!r}, name={self._name!r})"


class ProcessorPipeline:
    """Calls the processors of an event one after another, in the order they were registered."""

    def __init__(self) -> None:
        self._processors: dict[str, list[ContextProcessor]] = {}

    def register(self, processor: ContextProcessor) -> "ProcessorPipeline":
        """Returns the pipeline. One that is registered twice runs twice. Raises ProcessorError."""
        _check_processor(processor)
        self._processors.setdefault(processor.event, []).append(processor)
        return self

    def unregister(self, processor: ContextProcessor) -> None:
        """Remove it once. Nothing happens where it is not registered."""
        registered = self._processors.get(processor.event, [])
        if processor in registered:
            registered.remove(processor)

    async def fire(self, event: str, ctx: "Context", payload: dict[str, Any] | None = None) -> None:
        """Call the processors of an event. All get the same payload, which is where they answer.
        One that is registered meanwhile is called, too, and one that is unregistered is not.

        What one raises is raised as it is: those after it are not called, and what those before it
        did stays. Raises ProcessorError for an event, context or payload that is none.
        """
        _check_fired(event, ctx, payload)
        given: dict[str, Any] = {} if payload is None else payload
        called: list[ContextProcessor] = []
        while (processor := self._next(event, called)) is not None:
            called.append(processor)
            await _run(processor, ctx, given)

    def _next(self, event: str, called: Sequence[ContextProcessor]) -> ContextProcessor | None:
        """Looked for anew each time: one may register others, or unregister itself or others."""
        done = list(called)
        for processor in self._processors.get(event, ()):
            if processor not in done:
                return processor
            done.remove(processor)
        return None

    def has_processors(self, event: str) -> bool:
        return bool(self._processors.get(event))

    def list_processors(self, event: str | None = None) -> list[ContextProcessor]:
        """Those of an event, or all, by event in the order the events were first registered."""
        if event is not None:
            return list(self._processors.get(event, ()))
        return [each for registered in self._processors.values() for each in registered]

    def clear(self) -> None:
        self._processors.clear()

    def __len__(self) -> int:
        return sum(map(len, self._processors.values()))

    def __bool__(self) -> bool:
        """A pipeline without processors is a pipeline."""
        return True

    def __repr__(self) -> str:
        return f"ProcessorPipeline(events={list(self._processors)!r}, total={len(self)})"


def is_context(value: object) -> bool:
    """What has a state and a configuration, as `Context` does."""
    return hasattr(value, "state") and hasattr(value, "config")


def _check_processor(processor: object) -> None:
    if not isinstance(processor, ContextProcessor):
        raise ProcessorError(f"{shown(processor)} is no ContextProcessor")
    if not (hasattr(processor, "event") and hasattr(processor, "name")):
        raise ProcessorError(
            f"{type(processor).__name__} has no event; its __init__ must call"
            " super().__init__(event)"
        )


def _check_fired(event: object, ctx: object, payload: object) -> None:
    if not isinstance(event, str):
        raise ProcessorError(f"event={shown(event)}; it must be text, such as {PRE_LLM_CALL!r}")
    if not is_context(ctx):
        raise ProcessorError(f"ctx={shown(ctx)}; it must be a Context")
    if payload is not None and not isinstance(payload, MutableMapping):
        raise ProcessorError(f"payload={shown(payload)}; it must be a dict or None")


async def _run(processor: ContextProcessor, ctx: "Context", payload: dict[str, Any]) -> None:
    running: object = processor.process(ctx, payload)
    if not isawaitable(running):
        raise ProcessorError(
            f"process of {shown(processor)} returned {shown(running)}; it must be `async def`"
        )
    await running
