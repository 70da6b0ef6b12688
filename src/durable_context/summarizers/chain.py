"""Summarizers that stand in for each other, and the words that configuration names them by."""

import re
from collections.abc import Sequence
from typing import Final

from durable_context.errors import (
    InputTooLong,
    InvalidDraft,
    SummarizerError,
    SummarizerRejected,
    SummarizerUnavailable,
)
from durable_context.summarizers import Attempt, Summarizer, SummaryDraft, SummaryRequest
from durable_context.summarizers.drafts import check_draft
from durable_context.summarizers.extractive import ExtractiveSummarizer
from durable_context.summarizers.model import CHAT_COMPLETIONS, ModelSummarizer

_HOPEFUL: Final = (SummarizerUnavailable, InvalidDraft, InputTooLong, SummarizerRejected)
"""Most worth a retry first."""
_NAMED: Final = re.compile(r"[A-Za-z0-9_.:/@+~=#%-]{1,200}")
"""It is shown to operators, in pages that would read other signs as theirs."""
_ALLOWED: Final = "'extractive' or 'model:PROVIDER:NAME', as in 'model:openai:gpt-4o-mini'"


class SummarizerChain:
    """Asks one after the other until a draft passes the check. Failed calls stay on record."""

    def __init__(self, summarizers: Sequence[Summarizer]) -> None:
        if not summarizers:
            raise ValueError("a chain needs at least one summarizer")
        self._summarizers = tuple(summarizers)

    @property
    def recipe(self) -> str:
        return " > ".join(summarizer.recipe for summarizer in self._summarizers)

    async def summarize(self, request: SummaryRequest) -> SummaryDraft:
        """Of the errors of all the one is raised that is most worth a retry."""
        attempts: tuple[Attempt, ...] = ()
        errors: list[SummarizerError] = []
        for summarizer in self._summarizers:
            try:
                draft = check_draft(await summarizer.summarize(request), request)
            except SummarizerError as error:
                errors.append(error)
                attempts += error.attempts
            except Exception as error:  # a summarizer of the caller's may raise anything
                name = type(error).__name__
                errors.append(SummarizerUnavailable(f"{summarizer.recipe!r} raised {name}"))
            else:
                return draft.model_copy(update={"attempts": (*attempts, *draft.attempts)})
        raise _most_hopeful(errors, attempts)


def summarizer_from_specs(specs: Sequence[str], *, base_url: str | None = None) -> Summarizer:
    """One summarizer, or a chain in the order of the specs. `base_url` is for `openai:` models;
    API keys come from the environment variables of the providers.
    """
    if not specs:
        raise ValueError(f"no summarizer is named: use {_ALLOWED}")
    summarizers = [_from_spec(spec.strip(), base_url) for spec in specs]
    return summarizers[0] if len(summarizers) == 1 else SummarizerChain(summarizers)


def check_spec(spec: str) -> None:
    """Whether that is how a summarizer is named; whether there is one is not asked."""
    word, _, model = spec.partition(":")
    provider, colon, name = model.partition(":")
    is_model = word == "model" and provider and colon and name and _NAMED.fullmatch(model)
    if spec != "extractive" and not is_model:
        raise ValueError(f"summarizer {spec!r:.200} is not {_ALLOWED}")


def _from_spec(spec: str, base_url: str | None) -> Summarizer:
    check_spec(spec)
    if spec == "extractive":
        return ExtractiveSummarizer()
    model = spec.partition(":")[2]
    provider = model.partition(":")[0]
    return ModelSummarizer(model, base_url=base_url if provider in CHAT_COMPLETIONS else None)


def _most_hopeful(
    errors: Sequence[SummarizerError], attempts: tuple[Attempt, ...]
) -> SummarizerError:
    best = min(errors, key=lambda error: _HOPEFUL.index(type(error)))
    best.attempts = attempts
    return best
