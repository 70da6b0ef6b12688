"""Makes one node of the summary tree: a draft that is kept before anyone hears of it, and found by
whoever tries again.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from datetime import timedelta

from durable_context.compaction.counting import count_summary
from durable_context.compaction.draft_store import DraftParts, DraftStore, NewSummary
from durable_context.compaction.drafting import Drafted, Drafting
from durable_context.compaction.focus import focused_recipe, load_focus
from durable_context.compaction.source import SummarySource, load_source
from durable_context.compaction.spending import spent
from durable_context.compaction.store import CompactionStore
from durable_context.contracts import NodeRange, Spending, SummarizeRequest, SummarizeResult
from durable_context.database import Pool
from durable_context.errors import SummarizerError, SummarizerRejected
from durable_context.models import Summary
from durable_context.summarizers import Summarizer, SummaryDraft, SummaryRequest
from durable_context.telemetry.recipes import named_by_caller
from durable_context.tokens import TokenCounter

MakeSummarizer = Callable[[Sequence[str]], Summarizer]
"""Of specs such as `model:openai:gpt-4o-mini`."""


class NodeMaking:
    """What is asked is the worker's own `drafting`, unless a request names other summarizers."""

    def __init__(
        self,
        pool: Pool,
        drafting: Drafting,
        make_summarizer: MakeSummarizer,
        counters: Callable[[str], TokenCounter],
    ) -> None:
        self._pool = pool
        self._drafting = drafting
        self._make_summarizer = make_summarizer
        self._counters = counters

    def drafting(self, specs: Sequence[str]) -> Drafting:
        """Who is asked where these summarizers are named; the worker's own where none are.

        Raises SummarizerRejected.
        """
        if not specs:
            return self._drafting
        try:
            return self._drafting.asking(self._make_summarizer(specs))
        except ValueError as error:  # what it names is nowhere, or has no key
            raise SummarizerRejected(str(error)) from error

    async def make(self, request: SummarizeRequest, failing_for: timedelta) -> SummarizeResult:
        """Raises StalePlan, and what a summarizer raises."""
        asked = await self._asked(request, failing_for)
        source = await load_source(self._pool, request, self._drafting.recipe)
        kept = await asked.found(source)
        is_named = bool(request.summarizers)
        with named_by_caller(self._drafting.recipe) if is_named else nullcontext():
            made = kept or await asked.made(source)
        target = (self._pool, request.tenant, request.branch_uuid)
        spending = await spent(*target, [request.compaction_id])
        return _result(made, source, spending, reused=kept is not None)

    async def _asked(self, request: SummarizeRequest, failing_for: timedelta) -> "_Asked":
        drafts = DraftStore(self._pool, request.tenant, request.branch_uuid)
        target = (self._pool, request.tenant, request.branch_uuid)
        head = await CompactionStore(*target).head()
        focus = await load_focus(*target, request.compaction_id)
        drafting = self.drafting(request.summarizers)
        if request.anew:
            await drafts.check_running(request.compaction_id)
            drafting = drafting if request.may_degrade else drafting.alone()
        counter = self._counters(head.encoding)
        return _Asked(request, drafts, drafting, focus, counter, failing_for, self._pool)


class _Asked:
    """One node as it is asked for."""

    def __init__(
        self,
        request: SummarizeRequest,
        drafts: DraftStore,
        drafting: Drafting,
        focus: str | None,
        counter: TokenCounter,
        failing_for: timedelta,
        pool: Pool,
    ) -> None:
        self.recipe = focused_recipe(drafting.recipe, focus)
        self._request = request
        self._drafts = drafts
        self._drafting = drafting
        self._focus = focus
        self._counter = counter
        self._failing_for = failing_for
        self._pool = pool

    async def found(self, source: SummarySource) -> Summary | None:
        """What is kept of it already. Of a node to be made anew that is a draft alone."""
        request, anew = self._request, self._request.anew
        found = await self._drafts.find(request.node, self.recipe, source.input_hash, anew=anew)
        if found is not None or anew:
            return found
        inherited = await self._drafts.inherited(request.node, self.recipe, source.input_hash)
        if inherited is None:
            return None
        return await self._drafts.keep(_adopted(inherited, request.node, source))

    async def made(self, source: SummarySource) -> Summary:
        drafted = await self._draft(source)
        new = NewSummary(
            node=self._request.node,
            recipe=self.recipe,
            input_hash=source.input_hash,
            draft=drafted.draft,
            token_count=self._counter.count(drafted.draft.text),
            input_tokens=source.input_tokens,
            covered_tokens=source.covered_tokens,
            degraded=drafted.degraded,
        )
        added = await self._drafts.add(new, anew=self._request.anew)
        if added is None:
            return await self._drafts.keep(new, anew=self._request.anew)
        level, recipe = self._request.node.level, self._drafting.recipe
        count_summary(recipe, level, degraded=drafted.degraded)
        return added

    async def _draft(self, source: SummarySource) -> Drafted:
        """Ask, and note on the compaction how it went."""
        request, drafts, recipe = self._request, self._drafts, self.recipe
        parts = DraftParts(self._pool, request.tenant, request.branch_uuid, recipe)
        asked = _summary_request(request, source, self._focus, self._counter.encoding, parts)
        try:
            drafted = await self._drafting.draft(asked, request.policy, self._failing_for)
        except SummarizerError as error:
            await drafts.count_attempt(
                request.compaction_id, recipe, error.attempts, str(error), failed=True
            )
            if isinstance(error, SummarizerRejected):
                await drafts.fail(request.compaction_id, str(error))
            raise
        failed = drafted.error
        calls = (*(failed.attempts if failed else ()), *drafted.draft.attempts)
        message = str(failed) if failed else None
        await drafts.count_attempt(request.compaction_id, recipe, calls, message, failed=False)
        return drafted


def _summary_request(
    request: SummarizeRequest,
    source: SummarySource,
    focus: str | None,
    encoding: str,
    parts: DraftParts,
) -> SummaryRequest:
    return SummaryRequest(
        level=request.node.level,
        from_turn=request.node.from_turn,
        to_turn=request.node.to_turn,
        turns=source.turns,
        nodes=source.nodes,
        ledger=source.ledger,
        encoding=encoding,
        max_tokens=request.policy.summary_max_tokens,
        headline_max_tokens=request.policy.headline_max_tokens,
        timeout=request.policy.summarizer_timeout,
        focus=focus,
        parts=parts,
    )


def _adopted(inherited: Summary, node: NodeRange, source: SummarySource) -> NewSummary:
    """An ancestor's text as the branch's own draft: no call was made for it."""
    return NewSummary(
        node=node,
        recipe=inherited.recipe,
        input_hash=source.input_hash,
        draft=SummaryDraft(
            headline=inherited.headline, text=inherited.text, made_by=inherited.made_by
        ),
        token_count=inherited.token_count,
        input_tokens=source.input_tokens,
        covered_tokens=source.covered_tokens,
        degraded=False,
    )


def _result(
    summary: Summary, source: SummarySource, spending: Spending, *, reused: bool
) -> SummarizeResult:
    return SummarizeResult(
        summary_id=summary.summary_id,
        made_by=summary.made_by,
        recipe=summary.recipe,
        degraded=summary.degraded,
        reused=reused,
        tokens_before=source.input_tokens,
        tokens_after=summary.token_count,
        spending=spending,
    )
