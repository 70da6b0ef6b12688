"""Summaries of groups of messages, by any summarizer or a function of the caller's."""

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, time
from typing import Any, Final, NamedTuple, cast

from durable_context.errors import InvalidArgument, InvalidDraft, SummarizerError
from durable_context.models import Message
from durable_context.offload.messages import Sized, tokens_of
from durable_context.offload.summary_block import inert, parts_of
from durable_context.processors.history import calls_of, rounds, stays, text_of
from durable_context.redaction import redact
from durable_context.showing import shown
from durable_context.summarizers import Summarizer, SummaryDraft, SummaryRequest
from durable_context.summarizers.drafts import check_draft
from durable_context.summarizers.extractive import ExtractiveSummarizer
from durable_context.summarizers.of_messages import as_turn, is_summarizer
from durable_context.text import clean, one_line

MessageSummarizer = Callable[[list[dict[str, Any]]], Awaitable[str]]
"""Gets copies of the messages, without secrets."""

LONGEST_WAIT: Final = 300.0
"""Seconds after which a summarizer has failed."""
_FEWEST_TOKENS: Final = 400
_MOST_TOKENS: Final = 2_000
_SHARE: Final = 20
_ERROR_CHARACTERS: Final = 200
_NO_DAY: Final = datetime(1700, 1, 1, tzinfo=UTC)
"""For a summarizer whose dates are known, and removed."""
_DATE: Final = r"\d{4}-\d\d-\d\d"
_DATED: Final = re.compile(
    rf" ?\((?:(?:week(?:end)? of )?{_DATE}(?: or {_DATE})?|(?:[A-Z][a-z]{{2,8}} )?\d{{4}})\)"
)


class Told(NamedTuple):
    """A group in short."""

    text: str
    made_by: str


class GroupSummarizer:
    """`summarizer` as the caller gave it; None: the extractive one, which needs no model.

    Raises InvalidArgument if it is none.
    """

    def __init__(self, summarizer: object, encoding: str) -> None:
        if summarizer is None:
            summarizer = ExtractiveSummarizer()
        if inspect.isclass(summarizer) or not (is_summarizer(summarizer) or callable(summarizer)):
            raise InvalidArgument(
                f"summarizer={shown(summarizer)}; allowed are None, a Summarizer (with `summarize`"
                " and a text `recipe`), and an async function of a list of messages that returns"
                " text"
            )
        self._ours = summarizer if is_summarizer(summarizer) else None
        self._function = cast(MessageSummarizer, summarizer)
        self._encoding = encoding

    @property
    def recipe(self) -> str:
        return self._ours.recipe if self._ours else "function"

    async def summarize(self, group: Sequence[Sized]) -> Told:
        """Safe to show. Raises SummarizerError, whatever the summarizer raised."""
        limit = asyncio.timeout(LONGEST_WAIT)
        try:
            async with limit:
                told = await (self._asked(group) if self._ours else self._called(group))
        except SummarizerError:
            raise
        except asyncio.CancelledError as error:
            if _is_cancelled():
                raise
            raise SummarizerError(_named(error)) from error
        except Exception as error:  # a summarizer of the caller's may raise anything
            if isinstance(error, TimeoutError) and limit.expired():
                raise SummarizerError(f"no answer within {LONGEST_WAIT:g} s") from None
            raise SummarizerError(_named(error)) from error
        text = inert(told.text)
        if not any(map(str.isalnum, text)):
            raise InvalidDraft("the summary is empty")
        return told._replace(text=text)

    async def _asked(self, group: Sequence[Sized]) -> Told:
        assert self._ours is not None
        is_extractive = isinstance(self._ours, ExtractiveSummarizer)
        day = _NO_DAY if is_extractive else datetime.combine(datetime.now(UTC), time(), UTC)
        request = await asyncio.to_thread(_request, group, self._encoding, day)
        draft = check_draft(await _draft(self._ours, request), request)
        text = f"{draft.headline}\n{draft.text}"
        return Told(_undated(text, request) if is_extractive else text, draft.made_by)

    async def _called(self, group: Sequence[Sized]) -> Told:
        text = await self._function(
            await asyncio.to_thread(lambda: [_told(one.message) for one in group])
        )
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidDraft(f"the summarizer returned a {type(text).__name__}, not text")
        return Told(text, self.recipe)


def _is_cancelled() -> bool:
    """Whether somebody cancelled the run, and not only what a summarizer waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _draft(summarizer: Summarizer, request: SummaryRequest) -> SummaryDraft:
    """The extractive summarizer waits for nothing, and would hold up the loop."""
    if isinstance(summarizer, ExtractiveSummarizer):
        return await asyncio.to_thread(asyncio.run, summarizer.summarize(request))
    return await summarizer.summarize(request)


def _request(group: Sequence[Sized], encoding: str, day: datetime) -> SummaryRequest:
    """A turn for each round. Messages bear no times: they count as said on that day."""
    spoken = rounds([one.message for one in group])
    turns = tuple(
        as_turn(number, *_readings([group[place] for place in places]), day)
        for number, places in enumerate(spoken, 1)
    )
    asked = min(max(tokens_of(group) // _SHARE, _FEWEST_TOKENS), _MOST_TOKENS)
    return SummaryRequest(
        level=0,
        from_turn=1,
        to_turn=len(turns),
        turns=turns,
        encoding=encoding,
        max_tokens=asked,
    )


def _undated(text: str, request: SummaryRequest) -> str:
    """Without the dates that nobody said."""
    said = "\n".join(text_of(message) for turn in request.turns for message in turn.messages)
    return _DATED.sub(lambda found: found[0] if found[0].strip() in said else "", text)


def _readings(messages: Sequence[Sized]) -> tuple[list[Message], int]:
    """What a summarizer reads of them, and their tokens."""
    return [_message(_told(one.message)) for one in messages], tokens_of(messages)


def _message(message: dict[str, Any]) -> Message:
    content, name = message.get("content"), message.get("name")
    call_id = message.get("tool_call_id")
    parts = isinstance(content, list | tuple)
    return Message(
        role="assistant" if stays(message) else message["role"],
        content=tuple(cast("Sequence[dict[str, Any]]", content)) if parts else content,
        name=None if name is None else str(name),
        tool_calls=tuple(calls_of(message)),
        tool_call_id=None if call_id is None else str(call_id),
    )


def _told(message: dict[str, Any]) -> dict[str, Any]:
    """What a summarizer reads. Of earlier summaries it reads what they say, without our words."""
    parts = parts_of(message.get("content"))
    said = {"content": "\n\n".join(part.summary for part in parts)} if parts else {}
    return _readable(message | said)


def _readable(value: Any) -> Any:
    """A copy without secrets and without anything that could pass for our delimiters."""
    if isinstance(value, str):
        return redact(clean(value))
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {_readable(key): _readable(item) for key, item in fields.items()}
    if isinstance(value, list | tuple):
        return [_readable(item) for item in cast("list[Any]", value)]
    return value


def _named(error: BaseException) -> str:
    said = redact(clean(one_line(str(error))))[:_ERROR_CHARACTERS]
    return f"the summarizer raised {type(error).__name__}" + (f": {said}" if said else "")
