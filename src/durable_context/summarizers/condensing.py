"""One summary out of as many calls of a model as its window makes necessary.

Results of chunks are kept, so that a retry goes on where the failed one stopped.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, Literal

from durable_context.errors import (
    InputTooLong,
    InvalidDraft,
    SummarizerError,
    SummarizerRejected,
    SummarizerUnavailable,
)
from durable_context.summarizers import Attempt, SummaryDraft, SummaryRequest
from durable_context.summarizers.chunks import draft_pieces, pack, pieces_of, prompt_of
from durable_context.summarizers.drafts import check_draft
from durable_context.summarizers.limits import text_cap
from durable_context.summarizers.spending import count_call
from durable_context.tokens import token_counter

if TYPE_CHECKING:
    from durable_context.summarizers.providers import Reply

Kind = Literal["leaf", "merge", "artifact"]
Ask = Callable[[Kind, str], Awaitable["Reply"]]

_OUTCOMES: Final[dict[type[SummarizerError], str]] = {
    SummarizerUnavailable: "unavailable",
    SummarizerRejected: "rejected",
    InputTooLong: "too long",
    InvalidDraft: "invalid",
}
_SMALLEST_CHUNK: Final = 400


class Condensing:
    """One attempt at one request. `ask` calls the model once.

    Calls whose results are kept as parts are reported with the final draft, by whichever attempt
    that is; all others also with the error.
    """

    def __init__(self, recipe: str, request: SummaryRequest, ask: Ask) -> None:
        self._recipe = recipe
        self._request = request
        self._ask = ask
        self._counter = token_counter(request.encoding)
        self._calls: list[Attempt] = []
        self._kept: list[Attempt] = []
        self._asked_tokens = 0

    async def draft(self, room: int) -> SummaryDraft:
        """`room` in tokens is halved while the model finds the input too long."""
        while True:
            try:
                draft = await self._within(room)
            except InputTooLong:
                room = min(room, self._asked_tokens) // 2
                if room < _SMALLEST_CHUNK:
                    raise
            else:
                return draft.model_copy(update={"attempts": (*self._kept, *self._calls)})

    async def _within(self, room: int) -> SummaryDraft:
        pieces = await asyncio.to_thread(pieces_of, self._request, room, self._counter)
        kind: Kind = "merge" if self._request.nodes else "leaf"
        if self._request.artifact:
            kind = "artifact"
        while True:
            chunks = pack(pieces, room, self._counter)
            if len(chunks) <= 1:
                return await self._whole(kind, chunks)
            pieces = draft_pieces([await self._part(kind, chunk, room) for chunk in chunks])
            kind = "artifact" if self._request.artifact else "merge"

    async def _whole(self, kind: Kind, chunks: Sequence[str]) -> SummaryDraft:
        record = "".join(chunks)
        prompt = prompt_of(self._request, record, text_cap(self._request))
        draft, attempt = await self._asked(kind, record, prompt, self._request, None)
        self._calls.append(attempt)
        return draft

    async def _part(self, kind: Kind, chunk: str, room: int) -> SummaryDraft:
        """The summary of a chunk, so short that several fit into one call."""
        cap = min(self._request.max_tokens, max(50, room // 4))
        request = self._request.model_copy(update={"max_tokens": cap})
        tokens = self._counter.count(chunk)
        prompt = prompt_of(request, chunk, text_cap(request, tokens))
        key = hashlib.sha256(f"{self._recipe}\0{kind}\0{prompt}".encode()).digest()
        parts = self._request.parts
        found = await parts.load(key) if parts else None
        if found is None:
            found, attempt = await self._asked(kind, chunk, prompt, request, tokens)
            found = found.model_copy(update={"attempts": (attempt,)})
            if parts:
                await parts.save(key, found)
        (self._kept if parts else self._calls).extend(found.attempts)
        return found

    async def _asked(
        self, kind: Kind, record: str, prompt: str, request: SummaryRequest, tokens: int | None
    ) -> tuple[SummaryDraft, Attempt]:
        """A checked draft. `tokens`: the size of the input where it is not all of the request."""
        self._asked_tokens = self._counter.count(record)
        reply = await self._ask(kind, prompt)
        if reply.answer is None:
            assert reply.failure is not None
            raise await self._failed(reply.failure, reply)
        draft = SummaryDraft(
            headline=reply.answer.headline, text=reply.answer.text, made_by=self._recipe
        )
        try:
            checked = check_draft(draft, request, input_tokens=tokens)
        except InvalidDraft as error:
            raise await self._failed(error, reply) from error
        return checked, await self._attempt("ok", reply)

    async def _failed(self, error: SummarizerError, reply: "Reply") -> SummarizerError:
        self._calls.append(await self._attempt(_OUTCOMES[type(error)], reply, str(error)))
        error.attempts = tuple(self._calls)
        return error

    async def _attempt(self, outcome: str, reply: "Reply", error: str | None = None) -> Attempt:
        """Each is counted here, once: kept parts are told of again with the final draft."""
        call = Attempt(
            made_by=self._recipe,
            outcome=outcome,
            input_tokens=reply.input_tokens,
            output_tokens=reply.output_tokens,
            error=error,
        )
        await count_call(call)
        return call
