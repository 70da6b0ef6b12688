"""What a summarizer reads of an artifact, and the summaries that need none: of what is no text, and
of texts so short that they are their own.

It is a function of the content alone, because other branches and turns find the same summary.
"""

import asyncio
from collections.abc import Iterator
from typing import Final

from durable_context.artifacts.contents import decoded
from durable_context.artifacts.reading import is_text_type
from durable_context.artifacts.summaries import DueArtifact
from durable_context.models import Message, Turn
from durable_context.policy import CompactionPolicy
from durable_context.redaction import redact
from durable_context.summarizers import SummaryDraft, SummaryRequest
from durable_context.summarizers.limits import TINY
from durable_context.text import ELLIPSIS, clean, one_line, shorten
from durable_context.tokens import TokenCounter

RULE: Final = "rule/1"
READ_CHARACTERS: Final = 400_000
"""Of a longer text a summarizer reads so many: half of them its beginning, a quarter its end, and
the rest evenly spaced samples of what is between.
"""

_SAMPLES: Final = 10
_KINDS: Final = {"image": "An image", "audio": "A sound recording", "video": "A video"}


def is_text(artifact: DueArtifact) -> bool:
    return artifact.line_count is not None or is_text_type(artifact.media_type)


def label_of(artifact: DueArtifact) -> str:
    """`text/csv, 12,345 bytes, 240 lines`."""
    count = artifact.line_count or 0
    lines = f", {count:,} line{'s' if count > 1 else ''}" if count else ""
    return f"{_media_type(artifact)}, {artifact.size:,} bytes{lines}"


async def request_of(
    artifact: DueArtifact, content: bytes, policy: CompactionPolicy, counter: TokenCounter
) -> SummaryRequest:
    """A turn of one tool result, which holds the content or what is read of it."""
    text, tokens = await asyncio.to_thread(_read, content, counter)
    number = max(1, artifact.turn_no)
    turn = Turn(
        turn_no=number,
        turn_key="artifact",
        messages=(Message(role="tool", content=text),),
        token_count=tokens,
        outcome="complete",
        continues=False,
        occurred_at=artifact.created_at,
        recorded_at=artifact.created_at,
        digest="",
    )
    return SummaryRequest(
        level=0,
        from_turn=number,
        to_turn=number,
        turns=(turn,),
        artifact=label_of(artifact),
        encoding=counter.encoding,
        max_tokens=policy.summary_max_tokens,
        headline_max_tokens=policy.headline_max_tokens,
        timeout=policy.summarizer_timeout,
    )


def text_of(request: SummaryRequest) -> str:
    content = request.turns[0].messages[0].content
    assert isinstance(content, str)
    return content


def ruled_text(request: SummaryRequest, counter: TokenCounter) -> SummaryDraft | None:
    """The summary of a text that could not be told in less; None of a longer one."""
    tokens = request.turns[0].token_count
    if tokens > TINY:
        return None
    text = redact(text_of(request)).strip()
    if not any(map(str.isalnum, text)):
        text = f"{request.artifact}: {text or 'empty'}"
        return _draft(f"{request.artifact}, without words", text)
    return _draft(shorten(one_line(text), request.headline_max_tokens, counter), text)


def ruled_binary(artifact: DueArtifact) -> SummaryDraft:
    """What is known of a content that nobody can read."""
    kind = _KINDS.get(artifact.media_type.partition("/")[0], "A file")
    pixels = ""
    if artifact.width and artifact.height:
        pixels = f", {artifact.width:,} × {artifact.height:,} pixels"
    headline = f"{kind}{pixels}, {_media_type(artifact)}"
    return _draft(headline, f"{headline}, {artifact.size:,} bytes.")


def excerpt(text: str) -> str:
    """The text, or where it is over `READ_CHARACTERS` what is read of it, with marks between."""
    if len(text) <= READ_CHARACTERS:
        return text
    return "".join(_pieces(text))


def _pieces(text: str) -> Iterator[str]:
    head, tail = READ_CHARACTERS // 2, READ_CHARACTERS // 4
    sample = (READ_CHARACTERS - head - tail) // _SAMPLES
    gap = (len(text) - READ_CHARACTERS) // (_SAMPLES + 1)
    mark = f"\n[{ELLIPSIS} {gap:,} characters omitted {ELLIPSIS}]\n"
    yield text[:head]
    for number in range(_SAMPLES):
        start = head + gap + number * (sample + gap)
        yield mark + text[start : start + sample]
    yield mark + text[-tail:]


def _read(content: bytes, counter: TokenCounter) -> tuple[str, int]:
    text = clean(excerpt(decoded(content)))
    return text, counter.count(text)


def _draft(headline: str, text: str) -> SummaryDraft:
    return SummaryDraft(headline=headline, text=text, made_by=RULE)


def _media_type(artifact: DueArtifact) -> str:
    return one_line(redact(clean(artifact.media_type[:80])))
