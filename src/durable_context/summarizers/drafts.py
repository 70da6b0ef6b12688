"""What must not be published: every draft passes here, whoever made it.

A summary of fewer tokens than its input is asked for, but of an input of fewer than `TINY` tokens
none of fewer than `TINY`: six turns of "ok" cannot be told in less.
"""

from typing import Final

from durable_context.errors import InvalidDraft
from durable_context.redaction import redact
from durable_context.summarizers import SummaryDraft, SummaryRequest
from durable_context.summarizers.limits import input_tokens as tokens_of
from durable_context.summarizers.limits import size_limit
from durable_context.summarizers.refusals import without_preamble, wrong_shape
from durable_context.text import clean, one_line, sentences, shorten
from durable_context.tokens import TokenCounter, token_counter

TOLERANCE: Final = 1.25
"""A text of more than this many times its cap is refused; a lesser excess is cut."""


def check_draft(
    draft: SummaryDraft,
    request: SummaryRequest,
    *,
    input_tokens: int | None = None,
    counter: TokenCounter | None = None,
) -> SummaryDraft:
    """The draft as it may be published, or InvalidDraft. Checking it again changes nothing.

    `input_tokens` and `counter` default to those of the request.
    """
    counter = counter or token_counter(request.encoding)
    limit = size_limit(tokens_of(request) if input_tokens is None else input_tokens)
    text = without_preamble(redact(clean(draft.text)).strip())
    reason = wrong_shape(text)
    if reason:
        raise _invalid(draft, reason)
    headline = _headline(draft, request.headline_max_tokens, counter)
    text = _capped(draft, text, request.max_tokens, counter)
    size = counter.count(headline) + counter.count(text)
    if size >= limit:
        raise _invalid(draft, f"{size} tokens are not less than the input's {limit}")
    return draft.model_copy(update={"headline": headline, "text": text})


def _headline(draft: SummaryDraft, max_tokens: int, counter: TokenCounter) -> str:
    headline = shorten(one_line(redact(clean(draft.headline))), max_tokens, counter)
    if not any(character.isalnum() for character in headline):
        raise _invalid(draft, "it has no headline")
    return headline


def _capped(draft: SummaryDraft, text: str, cap: int, counter: TokenCounter) -> str:
    tokens = counter.count(text)
    if tokens <= cap:
        return text
    if tokens > TOLERANCE * cap:
        raise _invalid(draft, f"{tokens} tokens are far more than the {cap} asked for")
    return _cut(text, cap, counter)


def _cut(text: str, cap: int, counter: TokenCounter) -> str:
    """Whole lines, and of the first one that does not fit whole sentences."""
    kept = ""
    for line in text.splitlines(keepends=True):
        if counter.count(kept + line.rstrip()) > cap:
            for sentence in sentences(line):
                longer = f"{kept}{'' if kept.endswith(chr(10)) or not kept else ' '}{sentence}"
                if counter.count(longer) > cap:
                    break
                kept = longer
            break
        kept += line
    return kept.strip() or shorten(text, cap, counter)


def _invalid(draft: SummaryDraft, reason: str) -> InvalidDraft:
    return InvalidDraft(f"draft by {draft.made_by!r} refused: {reason}", draft.attempts)
