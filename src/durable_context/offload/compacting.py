"""Compaction: large tool messages go to the store and leave a preview with a reference."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from durable_context.contracts import OffloadParameters
from durable_context.errors import DurableContextError
from durable_context.offload.messages import (
    Sized,
    recent_start,
    request_tokens,
)
from durable_context.offload.pointers import is_pointer, pointer, pointing
from durable_context.offload.result import Action, kept
from durable_context.offload.stores import NewFile, OffloadStore, StoredFile, label, new_file
from durable_context.processors.history import calls_of, count_message, field, text_of
from durable_context.tokens import TokenCounter

NO_STORE = "there is no store: pass store_dir= or artifacts="


class Outcome(NamedTuple):
    """What a step left of the messages."""

    history: list[Sized]
    actions: list[Action]
    files: list[StoredFile]


class Compaction:
    def __init__(
        self, parameters: OffloadParameters, store: OffloadStore | None, counter: TokenCounter
    ) -> None:
        self._parameters = parameters
        self._store = store
        self._counter = counter

    async def run(self, history: Sequence[Sized]) -> Outcome:
        """Every message at its place. None is changed that is not stored."""
        outcome = Outcome(list(history), [], [])
        if request_tokens(history) <= self._parameters.max_total_tokens:
            outcome.actions.append(kept("compact", history, "under_threshold"))
            return outcome
        names = _tool_names(history)
        recent = recent_start(history, self._parameters.compaction_keeps)
        for place, one in enumerate(history):
            if one.message["role"] != "tool":
                continue
            if one.tokens <= self._parameters.max_tool_message_tokens:
                continue
            if place >= recent:
                outcome.actions.append(kept("compact", [one], "recent"))
            else:
                outcome.history[place] = await self._compacted(one, names.get(place), outcome)
        if not outcome.actions:
            outcome.actions.append(kept("compact", history, "nothing_to_replace"))
        return outcome

    async def _compacted(self, one: Sized, name: str | None, outcome: Outcome) -> Sized:
        if self._store is None:
            outcome.actions.append(kept("compact", [one], "store_failed", error=NO_STORE))
            return one
        if await is_pointer(one.message, self._store):
            outcome.actions.append(kept("compact", [one], "already_offloaded"))
            return one
        new = await asyncio.to_thread(new_file, "tool_message", text_of(one.message), name)
        if self._pointing(one, self._store.placeholder(new)).tokens >= one.tokens:
            outcome.actions.append(kept("compact", [one], "no_gain"))
            return one
        try:
            file = await self._store.put(new)
        except (OSError, DurableContextError) as error:
            outcome.actions.append(_failed(one, error))
            return one
        return self._pointed(one, new, file, outcome)

    def _pointed(self, one: Sized, new: NewFile, file: StoredFile, outcome: Outcome) -> Sized:
        pointing_to_it = self._pointing(one, file.reference)
        outcome.files.append(file)
        outcome.actions.append(
            Action(
                step="compact",
                done="compacted",
                reason="over_threshold",
                messages=(one.position,),
                tokens_before=one.tokens,
                tokens_after=pointing_to_it.tokens,
                reference=file.reference,
            )
        )
        return pointing_to_it

    def _pointing(self, one: Sized, reference: str) -> Sized:
        text = pointer(text_of(one.message), reference, self._parameters.preview_chars)
        message = pointing(one.message, text)
        return Sized(one.position, message, count_message(message, self._counter))


def _failed(one: Sized, error: Exception) -> Action:
    return kept("compact", [one], "store_failed", error=reason_of(error))


def reason_of(error: Exception) -> str:
    """Without paths of the host, which messages of OSError name."""
    if isinstance(error, OSError):
        return f"{type(error).__name__}: {error.strerror or 'the write failed'}"
    return str(error) or type(error).__name__


def _tool_names(history: Sequence[Sized]) -> dict[int, str]:
    """Of tool messages, by place: their own name, or that of the newest call they may answer."""
    called: dict[str, str] = {}
    names: dict[int, str] = {}
    for place, one in enumerate(history):
        for call in calls_of(one.message):
            called[call.id] = call.name
        if one.message["role"] == "tool":
            name = one.message.get("name") or called.get(str(field(one.message, "tool_call_id")))
            if name:
                names[place] = label(name)
    return names
