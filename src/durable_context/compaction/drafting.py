"""Gets one checked draft out of a summarizer, or out of the extractive one when that has failed for
too long. Retrying is for Temporal.
"""

import asyncio
import time
from datetime import timedelta
from typing import NamedTuple

from durable_context.errors import (
    DurableContextError,
    InputTooLong,
    SummarizerError,
    SummarizerRejected,
    SummarizerUnavailable,
)
from durable_context.policy import CompactionPolicy
from durable_context.summarizers import Summarizer, SummaryDraft, SummaryRequest
from durable_context.summarizers.drafts import check_draft
from durable_context.summarizers.extractive import RECIPE as EXTRACTIVE
from durable_context.telemetry.instruments import summarizer_duration
from durable_context.telemetry.recipes import label_of


class Drafted(NamedTuple):
    """`degraded`: the extractive summarizer stood in for the one that was asked, due to `error`, or
    as the last one of a chain.
    """

    draft: SummaryDraft
    degraded: bool = False
    error: SummarizerError | None = None


class Drafting:
    """Asks `summarizer`; `fallback` needs no model. Where they are the same nothing degrades."""

    def __init__(self, summarizer: Summarizer, fallback: Summarizer) -> None:
        self._summarizer = summarizer
        self._fallback = fallback

    @property
    def recipe(self) -> str:
        return self._summarizer.recipe

    @property
    def asks_model(self) -> bool:
        """Whether what is made costs anything."""
        return self.recipe != EXTRACTIVE

    def asking(self, summarizer: Summarizer) -> "Drafting":
        """With another summarizer, and the same to stand in for it."""
        return Drafting(summarizer, self._fallback)

    def alone(self) -> "Drafting":
        """Without anybody to stand in: what the summarizer cannot make is not made."""
        return Drafting(self._summarizer, self._summarizer)

    async def draft(
        self, request: SummaryRequest, policy: CompactionPolicy, failing_for: timedelta
    ) -> Drafted:
        """Raises what the summarizer raised while trying again can help; SummarizerRejected when
        it cannot and there is no fallback.
        """
        try:
            draft = await self._timed(request, policy.attempt_timeout)
            return Drafted(draft, degraded=self._is_stand_in(draft))
        except SummarizerError as error:
            if not _is_for_good(error, policy.degrade_after - failing_for):
                raise
            return await self.stand_in(request, error)

    async def stand_in(self, request: SummaryRequest, error: SummarizerError) -> Drafted:
        """What the fallback makes, due to an error of the summarizer, which is not asked."""
        return Drafted(await self._fallen_back(request, error), degraded=True, error=error)

    async def _timed(self, request: SummaryRequest, bound: timedelta) -> SummaryDraft:
        began = time.perf_counter()
        try:
            draft = await _checked(self._summarizer, request, bound)
            self._check_maker(draft)
        except SummarizerError as error:
            is_final = isinstance(error, SummarizerRejected)
            self._note(began, "rejected" if is_final else "failed")
            raise
        self._note(began, "made")
        return draft

    def _is_stand_in(self, draft: SummaryDraft) -> bool:
        """Whether a chain came down to extracts that another was to be asked before."""
        return draft.made_by == EXTRACTIVE and not self.recipe.startswith(EXTRACTIVE)

    def _check_maker(self, draft: SummaryDraft) -> None:
        if not (self._is_alone and self._is_stand_in(draft)):
            return
        failed = [call for call in draft.attempts if call.outcome != "ok"]
        is_final = bool(failed) and all(call.outcome == "rejected" for call in failed)
        kind = SummarizerRejected if is_final else SummarizerUnavailable
        raise kind(f"{self.recipe!r} gave extracts alone", attempts=draft.attempts)

    @property
    def _is_alone(self) -> bool:
        return self._fallback.recipe == self._summarizer.recipe

    def _note(self, began: float, outcome: str) -> None:
        labels = {"recipe": label_of(self.recipe), "outcome": outcome}
        summarizer_duration.record(time.perf_counter() - began, labels)

    async def _fallen_back(self, request: SummaryRequest, error: SummarizerError) -> SummaryDraft:
        if self._is_alone:
            message = f"{self.recipe!r} makes no valid summary: {error}"
            raise SummarizerRejected(message, error.attempts) from error
        try:
            return await _checked(self._fallback, request, request.timeout)
        except SummarizerError as failed:
            message = f"neither {self.recipe!r} nor {self._fallback.recipe!r} makes a valid summary"
            raise SummarizerRejected(message, (*error.attempts, *failed.attempts)) from failed


async def _checked(
    summarizer: Summarizer, request: SummaryRequest, bound: timedelta
) -> SummaryDraft:
    try:
        async with asyncio.timeout(bound.total_seconds()):
            draft = await summarizer.summarize(request)
    except TimeoutError as error:
        raise SummarizerUnavailable(
            f"{summarizer.recipe!r} did not answer within {bound.total_seconds():g} s"
        ) from error
    except DurableContextError:
        raise
    except Exception as error:  # a summarizer of the caller's may raise anything
        raise SummarizerUnavailable(
            f"{summarizer.recipe!r} raised {type(error).__name__}"
        ) from error
    return check_draft(draft, request)


def _is_for_good(error: SummarizerError, patience: timedelta) -> bool:
    if isinstance(error, SummarizerRejected | InputTooLong):
        return True
    retry_after = error.retry_after if isinstance(error, SummarizerUnavailable) else None
    return timedelta(seconds=retry_after or 0) >= patience
