"""Summarizes a batch of artifacts one after the other. Each summary is stored as soon as it is
made, so that whoever tries again goes on from there.
"""

import asyncio
from datetime import timedelta
from typing import NamedTuple

from durable_context.artifacts.contents import ContentStore
from durable_context.artifacts.source import RULE, is_text, request_of, ruled_binary, ruled_text
from durable_context.artifacts.summaries import (
    ArtifactSummaries,
    DueArtifact,
    NewArtifactSummary,
)
from durable_context.compaction.counting import count_summary
from durable_context.compaction.draft_store import DraftParts, DraftStore
from durable_context.compaction.drafting import Drafted, Drafting
from durable_context.contracts import ArtifactsRequest, ArtifactsResult
from durable_context.database import Pool
from durable_context.errors import (
    ArtifactDamaged,
    ArtifactStoreUnavailable,
    SummarizerError,
    SummarizerRejected,
    SummarizerUnavailable,
)
from durable_context.summarizers import SummaryRequest
from durable_context.tokens import TokenCounter

BATCH = 50
"""Artifacts that are taken at once. Fewer, when those before took `attempt_timeout`."""


class _Made(NamedTuple):
    drafted: Drafted
    input_tokens: int


class ArtifactBatch:
    """One attempt at one request. `failing_for`: how long earlier attempts have failed.

    What fails is tried again, as the whole batch is, until that is over `degrade_after`. Then it is
    passed over: turns go on with the view of it.
    """

    def __init__(
        self,
        pool: Pool,
        request: ArtifactsRequest,
        drafting: Drafting,
        contents: ContentStore,
        counter: TokenCounter,
        failing_for: timedelta,
    ) -> None:
        self._pool = pool
        self._request = request
        self._drafting = drafting
        self._contents = contents
        self._counter = counter
        self._failing_for = failing_for
        self._store = ArtifactSummaries(pool, request.tenant, request.branch_uuid)
        self._gone: SummarizerError | None = None
        self._degraded = self._summarized = self._failed = 0

    async def run(self) -> ArtifactsResult:
        """Raises SummarizerUnavailable, InvalidDraft or ArtifactStoreUnavailable while trying again
        can help.
        """
        request = self._request
        due = await self._store.due(
            request.turns, self._drafting.recipe, skip=request.skip, limit=BATCH + 1
        )
        waiting: Exception | None = None
        until = _now() + request.policy.attempt_timeout.total_seconds()
        taken = 0
        for artifact in due[:BATCH]:
            if taken and _now() > until:
                break
            taken += 1
            waiting = await self._take(artifact) or waiting
        if waiting is not None:
            raise waiting
        return ArtifactsResult(
            summarized=self._summarized,
            degraded=self._degraded,
            failed=self._failed,
            more=taken < len(due),
        )

    async def _take(self, artifact: DueArtifact) -> Exception | None:
        """What it has to be tried again for, if it has."""
        try:
            made = await self._made(artifact)
        except SummarizerUnavailable:
            raise  # and would be for the others
        except (ArtifactDamaged, SummarizerRejected):
            self._failed += 1
            return None
        except (ArtifactStoreUnavailable, SummarizerError) as error:
            if self._failing_for < self._request.policy.degrade_after:
                return error
            self._failed += 1
            return None
        await self._keep(artifact, made)
        return None

    async def _keep(self, artifact: DueArtifact, made: _Made) -> None:
        draft = made.drafted.draft
        await self._store.keep(
            NewArtifactSummary(
                sha256=artifact.sha256,
                recipe=self._drafting.recipe,
                draft=draft,
                token_count=self._counter.count(draft.text),
                input_tokens=made.input_tokens,
                degraded=made.drafted.degraded,
            )
        )
        # What a rule makes says nothing of how the one does who is asked for the others.
        recipe = RULE if draft.made_by == RULE else self._drafting.recipe
        count_summary(recipe, "artifact", degraded=made.drafted.degraded)
        self._summarized += 1
        self._degraded += made.drafted.degraded

    async def _made(self, artifact: DueArtifact) -> _Made:
        if not is_text(artifact):
            return _Made(Drafted(ruled_binary(artifact)), 0)
        stored = await self._store.content(artifact.sha256)
        content = await self._contents.load(self._request.tenant, stored)
        asked = await request_of(artifact, content, self._request.policy, self._counter)
        tokens = asked.turns[0].token_count
        ruled = ruled_text(asked, self._counter)
        drafted = Drafted(ruled) if ruled else await self._asked(asked)
        return _Made(drafted, tokens)

    async def _asked(self, asked: SummaryRequest) -> Drafted:
        if self._gone is not None:
            return await self._drafting.stand_in(asked, self._gone)
        request, recipe = self._request, self._drafting.recipe
        parts = DraftParts(self._pool, request.tenant, request.branch_uuid, recipe)
        asked = asked.model_copy(update={"parts": parts})
        try:
            drafted = await self._drafting.draft(asked, request.policy, self._failing_for)
        except SummarizerError as error:
            await self._note(error)
            raise
        if isinstance(drafted.error, SummarizerUnavailable):
            self._gone = drafted.error  # the rest need not wait for it, one by one
        if drafted.error is not None:
            await self._note(drafted.error)
        return drafted

    async def _note(self, error: SummarizerError) -> None:
        """Calls that failed were paid for, too."""
        request = self._request
        if request.compaction_id is not None:
            drafts = DraftStore(self._pool, request.tenant, request.branch_uuid)
            await drafts.count_attempt(
                request.compaction_id,
                self._drafting.recipe,
                error.attempts,
                str(error),
                failed=False,
            )


def _now() -> float:
    return asyncio.get_running_loop().time()
