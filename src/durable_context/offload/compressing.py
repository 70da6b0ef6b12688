"""Compression: groups of earlier messages go to the store and leave their summaries."""

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from durable_context import stored_json
from durable_context.contracts import OffloadParameters
from durable_context.errors import DurableContextError, SummarizerError
from durable_context.offload.compacting import NO_STORE, Outcome, reason_of
from durable_context.offload.grouping import current_request, groups, parted
from durable_context.offload.messages import Sized, positions_of, recent_start, tokens_of
from durable_context.offload.result import Action, kept
from durable_context.offload.stores import NewFile, OffloadStore, StoredFile, new_file
from durable_context.offload.summarizing import GroupSummarizer, Told
from durable_context.offload.summary_block import Part, are_stored, block, block_message, parts_of
from durable_context.processors.history import count_message, stays, unanswered
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
        """Without the messages of groups that have a summary now. All others keep their order, and
        a summary stands where the first of its messages stood.
        """
        aside, newest = self._aside(history)
        if tokens_of(aside) <= self._parameters.max_total_tokens:
            return Outcome(list(history), [kept("compress", aside, "under_threshold")], [])
        told = {one.position for one in aside if await self._is_summary(one)}
        aside = [one for one in aside if one.position in told or not stays(one.message)]
        others = [newest, *self._others(history, aside, told)]
        fences = sorted(n for other in others for n in other.messages)
        free = set(positions_of(aside)).difference(fences)
        threshold = self._parameters.group_token_threshold
        grouped = list(groups(history, free, fences, threshold))
        if not grouped:
            others.append(kept("compress", aside, "nothing_to_replace"))
        at_once = asyncio.Semaphore(AT_ONCE)
        made = await asyncio.gather(*(self._made(each, len(grouped), at_once) for each in grouped))
        return self._outcome(history, made, others, fences)

    def _aside(self, history: Sequence[Sized]) -> tuple[list[Sized], Action]:
        """What may go, earlier summaries included, and what is too new to go."""
        recent = recent_start(history, self._parameters.compression_keeps)
        newest = current_request(history) | set(positions_of(history[recent:]))
        aside = [
            one
            for one in history
            if one.position not in newest and (not stays(one.message) or self._parts(one))
        ]
        left = [one for one in history if one.position in newest and not stays(one.message)]
        return aside, kept("compress", left, "recent")

    def _others(
        self, history: Sequence[Sized], aside: Sequence[Sized], told: set[int]
    ) -> list[Action]:
        """What else stays. Earlier summaries do while they are few."""
        earlier = [one for one in aside if one.position in told]
        few = len(earlier) < 2 or 2 * tokens_of(earlier) <= self._parameters.max_total_tokens
        missing = {history[place].position for place in unanswered([o.message for o in history])}
        waiting = [one for one in aside if one.position in missing]
        found = [kept("compress", waiting, "unanswered")] if waiting else []
        return (
            [*found, kept("compress", earlier, "already_offloaded")] if earlier and few else found
        )

    def _parts(self, one: Sized) -> tuple[Part, ...]:
        """Of what looks like an earlier summary."""
        ours = one.message["role"] == self._parameters.summary_role
        return parts_of(one.message.get("content")) if ours else ()

    async def _is_summary(self, one: Sized) -> bool:
        parts = self._parts(one)
        content = block(parts) if parts else ""
        if content not in self._summaries and await are_stored(parts, self._store):
            self._summaries.add(content)
        return content in self._summaries

    async def _made(self, group: Sequence[Sized], of: int, free: asyncio.Semaphore) -> _Group:
        if self._store is None:
            return _Group(kept("compress", group, "store_failed", error=NO_STORE))
        new = await asyncio.to_thread(_original, group)
        place = self._store.placeholder(new)
        if self._tokens("", group, place, of) >= tokens_of(group):
            return _Group(kept("compress", group, "no_gain"))
        made_by = self._summarizer.recipe
        try:
            async with free:
                told = await self._summarizer.summarize(group)
        except SummarizerError as error:
            failed = kept("compress", group, "summarizer_failed", made_by=made_by, error=str(error))
            return _Group(failed)
        if self._tokens(told.text, group, place, of) >= tokens_of(group):
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
            tokens_after=self._tokens(told.text, group, file.reference, of),
            reference=file.reference,
            made_by=told.made_by,
        )
        return _Group(action, Part(told.text, len(group), file.reference), file)

    def _tokens(self, told: str, group: Sequence[Sized], reference: str, of: int) -> int:
        """As if it were the only part, so that several never cost more than they save."""
        part = Part(told, len(group), reference)
        message = block_message([part], self._parameters.summary_role)
        return count_message(message, self._counter) + self._counter.count(f"{of}/{of}")

    def _outcome(
        self,
        history: Sequence[Sized],
        made: Sequence[_Group],
        others: Sequence[Action],
        fences: Sequence[int],
    ) -> Outcome:
        summaries = _summaries(made, fences)
        gone = {n for group in made if group.part for n in group.action.messages}
        left: list[Sized] = []
        for one in history:
            if one.position in summaries:
                left.append(self._summary(summaries[one.position]))
            if one.position not in gone:
                left.append(one)
        actions = [*(group.action for group in made), *others]
        return Outcome(left, actions, [group.file for group in made if group.file])

    def _summary(self, parts: Sequence[Part]) -> Sized:
        message = block_message(parts, self._parameters.summary_role)
        return Sized(ADDED, message, count_message(message, self._counter))


def _summaries(made: Sequence[_Group], fences: Sequence[int]) -> dict[int, list[Part]]:
    """Parts that are told in one message, by the position of the first message of the first."""
    found: dict[int, list[Part]] = {}
    kept_here = (n for group in made if group.part is None for n in group.action.messages)
    stay = sorted([*fences, *kept_here])
    first = last = ADDED
    for group in made:
        if group.part is None:
            continue
        positions = group.action.messages
        if last == ADDED or parted(last, positions[0], stay):
            first = positions[0]
        found.setdefault(first, []).append(group.part)
        last = positions[-1]
    return found


def _original(group: Sequence[Sized]) -> NewFile:
    roles = ", ".join(dict.fromkeys(str(one.message["role"]) for one in group))
    return new_file("message_group", stored_json.dumps([one.message for one in group]), roles)
