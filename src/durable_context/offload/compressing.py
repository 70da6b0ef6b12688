"""Compression: groups of earlier messages go to the store and leave their summaries."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from durable_context import stored_json
from durable_context.contracts import OffloadParameters
from durable_context.errors import DurableContextError, SummarizerError
from durable_context.offload.compacting import NO_STORE, Outcome, reason_of
from durable_context.offload.messages import Sized, positions_of, recent_start, tokens_of
from durable_context.offload.result import Action, kept
from durable_context.offload.stores import NewFile, OffloadStore, StoredFile, new_file
from durable_context.offload.summarizing import GroupSummarizer, Told
from durable_context.offload.summary_block import Part, block_message, is_block
from durable_context.processors.history import count_message, stays, tool_exchanges, unanswered
from durable_context.tokens import TokenCounter

AT_ONCE: Final = 4
"""Groups that are summarized at the same time."""
ADDED: Final = -1
"""Position of a message that was not in the list that was given."""


class _Group(NamedTuple):
    """What became of a group. `part` is None where it stays."""

    action: Action
    part: Part | None = None
    file: StoredFile | None = None


class Compression:
    def __init__(
        self,
        parameters: OffloadParameters,
        store: OffloadStore | None,
        summarizer: GroupSummarizer,
        counter: TokenCounter,
    ) -> None:
        self._parameters = parameters
        self._store = store
        self._summarizer = summarizer
        self._counter = counter
        self._summaries: set[str] = set()

    async def run(self, history: Sequence[Sized]) -> Outcome:
        """Without the messages of groups that have a summary now. All others keep their order."""
        earlier = {one.position for one in history if await self._is_summary(one)}
        recent = recent_start(history, self._parameters.compression_keeps)
        aside = [
            one
            for one in history[:recent]
            if not stays(one.message) and one.position not in earlier
        ]
        if tokens_of(aside) <= self._parameters.max_total_tokens:
            return Outcome(list(history), [kept("compress", aside, "under_threshold")], [])
        missing = {history[place].position for place in unanswered([o.message for o in history])}
        waiting = [one for one in aside if one.position in missing]
        units = _units(history, {one.position for one in aside} - missing)
        groups = list(_grouped(units, self._parameters.group_token_threshold))
        free = asyncio.Semaphore(AT_ONCE)
        made = await asyncio.gather(*(self._made(group, len(groups), free) for group in groups))
        newest = [one for one in history[recent:] if not stays(one.message)]
        others = [kept("compress", newest, "recent")]
        if waiting:
            others.append(kept("compress", waiting, "unanswered"))
        return self._outcome(history, made, others, earlier)

    async def _is_summary(self, one: Sized) -> bool:
        """Of an earlier run. One that is a system message stays anyway."""
        content = one.message.get("content")
        if one.message["role"] != "user" or not isinstance(content, str):
            return False
        if content not in self._summaries and await is_block(content, self._store):
            self._summaries.add(content)
        return content in self._summaries

    async def _made(self, group: Sequence[Sized], of: int, free: asyncio.Semaphore) -> _Group:
        if self._store is None:
            return _Group(kept("compress", group, "store_failed", error=NO_STORE))
        try:
            async with free:
                told = await self._summarizer.summarize(group)
        except SummarizerError as error:
            return _Group(
                kept(
                    "compress",
                    group,
                    "summarizer_failed",
                    made_by=self._summarizer.recipe,
                    error=str(error),
                )
            )
        new = await asyncio.to_thread(_original, group)
        if self._tokens(told, group, self._store.placeholder(new), of) >= tokens_of(group):
            return _Group(kept("compress", group, "no_gain", made_by=told.made_by))
        try:
            file = await self._store.put(new)
        except (OSError, DurableContextError) as error:
            return _Group(kept("compress", group, "store_failed", error=reason_of(error)))
        return self._compressed(group, told, file, of)

    def _compressed(self, group: Sequence[Sized], told: Told, file: StoredFile, of: int) -> _Group:
        action = Action(
            step="compress",
            done="compressed",
            reason="over_threshold",
            messages=positions_of(group),
            tokens_before=tokens_of(group),
            tokens_after=self._tokens(told, group, file.reference, of),
            reference=file.reference,
            made_by=told.made_by,
        )
        return _Group(action, Part(told.text, len(group), file.reference), file)

    def _tokens(self, told: Told, group: Sequence[Sized], reference: str, of: int) -> int:
        """As if it were the only part, so that several never cost more than they save."""
        part = Part(told.text, len(group), reference)
        message = block_message([part], self._parameters.summary_role)
        return count_message(message, self._counter) + self._counter.count(f"{of}/{of}")

    def _outcome(
        self,
        history: Sequence[Sized],
        made: Sequence[_Group],
        others: Sequence[Action],
        earlier: set[int],
    ) -> Outcome:
        parts = [group.part for group in made if group.part]
        actions = [*(group.action for group in made), *others]
        if not parts:
            return Outcome(list(history), actions, [])
        gone = {n for group in made if group.part for n in group.action.messages}
        left = [one for one in history if one.position not in gone]
        message = block_message(parts, self._parameters.summary_role)
        left.insert(
            _place(history, earlier), Sized(ADDED, message, count_message(message, self._counter))
        )
        return Outcome(left, actions, [group.file for group in made if group.file])


def _place(history: Sequence[Sized], earlier: set[int]) -> int:
    """After the leading system messages, and after summaries of what was before."""
    for place, one in enumerate(history):
        if not (stays(one.message) or one.position in earlier):
            return place
    return len(history)


def _units(history: Sequence[Sized], free: set[int]) -> Iterator[list[Sized]]:
    """What goes together or not at all: a tool exchange, or a message by itself."""
    place = 0
    for exchange in [*tool_exchanges([one.message for one in history]), None]:
        start = exchange.start if exchange else len(history)
        yield from ([one] for one in history[place:start] if one.position in free)
        if exchange:
            unit = [one for one in history[start : exchange.stop] if one.position in free]
            if unit:
                yield unit
            place = exchange.stop


def _grouped(units: Iterator[list[Sized]], threshold: int | None) -> Iterator[list[Sized]]:
    """In order, each group as large as the threshold allows; a larger unit is one by itself."""
    group: list[Sized] = []
    tokens = 0
    for unit in units:
        size = tokens_of(unit)
        if threshold and group and tokens + size > threshold:
            yield group
            group, tokens = [], 0
        group.extend(unit)
        tokens += size
    if group:
        yield group


def _original(group: Sequence[Sized]) -> NewFile:
    roles = ", ".join(dict.fromkeys(str(one.message["role"]) for one in group))
    return new_file("message_group", stored_json.dumps([one.message for one in group]), roles)
