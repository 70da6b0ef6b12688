"""A branch as an agent runtime holds it: record turns, prepare prompts, fork, compact, look."""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID, uuid4

from durable_context.arguments import (
    LARGEST,
    OnConflict,
    check_budget,
    check_choice,
    check_flag,
    check_limit,
    check_time,
    check_turn,
    head_expected,
    positive_seconds,
    seconds,
)
from durable_context.artifacts.reading import ArtifactContent
from durable_context.branch_store import BranchRow
from durable_context.compaction.lag import worth_a_hint
from durable_context.compaction.store import CompactionStore
from durable_context.compaction.waiting import wait_until_compacted
from durable_context.contracts import CompactionResult
from durable_context.control.branch_control import BranchControl
from durable_context.embeddings.vectors import checked_vector
from durable_context.errors import InvalidArgument
from durable_context.events import ContextEvent
from durable_context.history_search import SearchHit, search_history
from durable_context.ids import check_ids, derived_id
from durable_context.inspection import inspect_branch
from durable_context.models import (
    Artifact,
    BranchState,
    Checkpoint,
    Message,
    Outcome,
    Summary,
    Turn,
)
from durable_context.policy import CompactionPolicy
from durable_context.processors.config import ContextConfig
from durable_context.processors.context import Context
from durable_context.processors.pipeline import PRE_LLM_CALL, ProcessorPipeline
from durable_context.prompts.prepared import Budget, BudgetExceeded, PreparedContext
from durable_context.prompts.preparing import NextCall, prepare
from durable_context.prompts.processing import Processing, check_pipeline, check_pure
from durable_context.resources import Resources
from durable_context.stored_json import check_json_object
from durable_context.telemetry.runtime import observed_compact, observed_prepare, observed_record
from durable_context.tokens import token_counter
from durable_context.turns.messages import exchanges, turn_messages, user_message_of
from durable_context.turns.recorder import NewTurn, record
from durable_context.turns.tool_results import processed_results


class Branch(BranchControl):
    """One branch of a conversation. Made by `ContextClient.open_branch` and `fork`; holds no state
    of its own but what never changes, so any number of processes may hold the same branch."""

    def __init__(
        self,
        resources: Resources,
        conversation_id: str,
        branch_id: str,
        row: BranchRow,
        policy: CompactionPolicy,
    ) -> None:
        self.conversation_id = conversation_id
        self.branch_id = branch_id
        self.branch_uuid: UUID = row.branch_uuid
        self.parent_id = row.parent_id
        self.fork_turn = row.fork_turn
        self.policy = policy
        self.encoding = row.encoding
        self._row = row
        self._resources = resources
        self._store = resources.store
        self._artifacts = resources.artifacts
        self._counter = token_counter(row.encoding)

    def __repr__(self) -> str:
        return f"Branch({self.conversation_id!r}, {self.branch_id!r})"

    @observed_prepare
    async def prepare(
        self,
        user_message: str | Mapping[str, Any] | Message | None,
        *,
        budget: Budget,
        pending: Sequence[object] = (),
        at_turn: int | None = None,
        query_vector: Sequence[float] | None = None,
        compact_within: timedelta | float | None = None,
        pipeline: ProcessorPipeline | None = None,
        config: ContextConfig | None = None,
    ) -> PreparedContext | BudgetExceeded:
        """The whole next request, within budget: one database read, no model, nothing written.

        `None` continues an open long run. `pending` holds complete tool exchanges that are not
        recorded yet. `at_turn`: the prompt of a fork made at that turn. `query_vector`: the
        message's embedding, by the model whose vectors the worker keeps (docs/embeddings.md); turns
        near it are retrieved, too. The same stored state and input give the same bytes.

        `compact_within`: where the prompt does not fit whole and turns are due, have them compacted
        first and wait, so long in all at most, in seconds or as a timedelta. A compaction that
        fails, takes longer or cannot be asked for, as with temporal=None, is no error: the prompt
        is made of what there is.

        `pipeline`: its `pre_llm_call` processors, which must be pure, get the assembled prompt in a
        context with `config`, and the budget holds for what they leave of it. Raises InvalidTurn,
        InvalidArgument, ProcessorError, and what a processor raises.
        """
        check_budget(budget)
        check_turn("at_turn", at_turn)
        within = None
        if compact_within is not None:
            within = positive_seconds(compact_within, "compact_within")
        vector = None if query_vector is None else checked_vector(query_vector)
        processing = self._processing(pipeline, config)
        message, waiting = user_message_of(user_message), exchanges(pending)
        call = NextCall(message, waiting, budget, at_turn, vector, processing)
        return await prepare(self._resources, self._request("request"), call, within)

    @observed_record
    async def record_turn(
        self,
        messages: Sequence[object],
        *,
        turn_key: str | None = None,
        outcome: Outcome = "complete",
        continues: bool = False,
        occurred_at: datetime | None = None,
        usage: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        prepared: PreparedContext | None = None,
        expected_head: int | None = None,
        on_conflict: OnConflict = "error",
        pipeline: ProcessorPipeline | None = None,
        config: ContextConfig | None = None,
    ) -> Turn:
        """Record one turn: the new exchange, as `Message`s or in the format of OpenAI's chat or
        Responses API, of Anthropic or of Gemini, as dicts or as their packages' objects.

        When this returns the turn is committed, large results and binary parts as artifacts with
        it. It is idempotent by `turn_key` (a retry needs the same key). With `prepared` or
        `expected_head` the branch must still stand where the prompt was made, unless
        `on_conflict="append"`. Temporal is told and not waited for. `pipeline`: each tool's result
        is recorded as `post_tool_call` leaves it, in a context with `config`, and what that
        offloads as artifacts of the turn.
        Raises InvalidTurn, IncompleteToolExchange, InvalidId, TurnKeyConflict, HeadConflict,
        UnknownBranch, ArtifactTooLarge, ArtifactStoreUnavailable, and what a processor raises.
        """
        check_choice("outcome", outcome, Outcome)
        check_choice("on_conflict", on_conflict, OnConflict)
        check_flag("continues", continues)
        check_time(occurred_at)
        if turn_key is not None:
            check_ids(turn_key=turn_key)
        for name, value in (("usage", usage), ("metadata", metadata)):
            if value is not None:
                check_json_object(value, name)
        expected = head_expected(self._row, prepared, expected_head, on_conflict)
        check_pipeline(pipeline, config)
        exchange, originals = turn_messages(messages, outcome), ()
        if pipeline is not None:
            exchange, originals = await processed_results(self, pipeline, exchange, config)
        new = NewTurn(
            exchange,
            turn_key or uuid4().hex,
            outcome,
            continues,
            occurred_at,
            usage,
            metadata,
            prepared,
            expected,
            originals,
        )
        await self._tell_pending()
        recorded, turn = await record(
            self._resources, self.branch_uuid, self.encoding, self.policy, new
        )
        if worth_a_hint(recorded, continues, self.policy):
            self._hint(recorded.turn_no)
        return turn

    def _processing(
        self, pipeline: ProcessorPipeline | None, config: ContextConfig | None
    ) -> Processing | None:
        check_pipeline(pipeline, config)
        if pipeline is None or not pipeline.has_processors(PRE_LLM_CALL):
            return None
        check_pure(pipeline)
        return Processing(pipeline, partial(Context.over, self, config=config))

    def _hint(self, turn_no: int) -> None:
        if self._resources.requests is not None:
            request = self._request("turn")
            self._resources.requests.hint_later(request, turn_no, self.policy.debounce)

    async def fork(self, branch_id: str, *, at_turn: int | None = None) -> "Branch":
        """A branch of its own that goes on from `at_turn`, by default from the head.

        It reads what is before that turn and shares nothing after it; nothing is copied, and the
        cost does not depend on the turn. Named artifacts are there as far as they were put by now
        while the branch stood at that turn or before. A fork inside a long run goes on with the
        run. Idempotent: the same fork again returns the same branch, without `at_turn` wherever
        that was made. Raises InvalidId, InvalidArgument, BranchConflict, UnknownBranch.
        """
        check_ids(branch_id=branch_id)
        check_turn("at_turn", at_turn)
        await self._tell_pending()
        row = await self._resources.branches.fork(
            self.branch_uuid, self.branch_id, branch_id, at_turn, self.policy.keep_raw_turns
        )
        return Branch(self._resources, self.conversation_id, branch_id, row, self.policy)

    async def restore(self, at_turn: int, *, branch_id: str | None = None) -> "Branch":
        """Go on from an earlier turn, in a fork. This branch stays as it is.

        Without `branch_id` each call makes a new branch. Raises as `fork` does.
        """
        check_turn("at_turn", at_turn)
        if at_turn is None:  # pyright: ignore[reportUnnecessaryComparison]
            raise InvalidArgument("at_turn=None; a turn to go on from must be named")
        return await self.fork(branch_id or derived_id(self.branch_id, at_turn), at_turn=at_turn)

    @observed_compact
    async def compact(
        self, *, focus: str | None = None, timeout: timedelta | float = 600
    ) -> CompactionResult:
        """Compact everything that is due now, and wait: `timeout` in seconds or as a timedelta.

        `focus`: what its summaries are to keep in view, in up to 500 characters. Later compactions
        know nothing of it, and a segment that is being summarized already ends without it; where
        nothing is due the result has no passes, and `rebuild` is what makes summaries anew.
        The result's range and tokens are the last segment's; passes and attempts are totals.
        Raises CompactionUnavailable, CompactionTimeout (the compaction goes on), CompactionFailed,
        CompactionPaused, InvalidArgument.
        """
        bound = seconds(timeout)
        requests, request = await self._to_ask(self._request("request"), focus)
        result = await requests.compact_now(request, bound)
        if result.paused:
            await self._pausing.refuse(self.branch_uuid, self._name)
        return result

    async def wait_until_compacted(self, *, timeout: timedelta | float = 600) -> None:
        """Wait until nothing is due: `timeout` in seconds or as a timedelta.

        Asks for nothing: hints and compact() do. Raises CompactionTimeout, and CompactionPaused
        where something is due that waits for somebody to resume.
        """
        await wait_until_compacted(
            CompactionStore(self._resources.pool, self._resources.tenant, self.branch_uuid),
            self.policy,
            seconds(timeout),
            self._name,
        )

    async def turns(self, from_turn: int = 1, to_turn: int | None = None) -> tuple[Turn, ...]:
        """Recorded turns `from_turn` to `to_turn`, both included, by default to the newest.

        Raises InvalidArgument.
        """
        check_turn("from_turn", from_turn)
        check_turn("to_turn", to_turn)
        last = LARGEST if to_turn is None else to_turn
        return await self._store.turns(self.branch_uuid, from_turn, last)

    async def newest_turns(self, count: int) -> tuple[Turn, ...]:
        """The newest `count` turns, oldest first, fewer if there are. Raises InvalidArgument."""
        check_limit(count)
        head = (await self._resources.branches.head(self.branch_uuid)).head_turn
        return (await self.turns(max(1, head - count + 1)))[-count:] if count else ()

    async def summaries(self, *, replaced: bool = False) -> tuple[Summary, ...]:
        """Nodes of the summary tree, by first turn, then level; with `replaced` those of the
        branch, too, that others replaced or a revert rejected, as long as retention keeps them.
        """
        return await self._store.summaries(self.branch_uuid, replaced=replaced)

    async def checkpoints(self, *, replaced: bool = False) -> tuple[Checkpoint, ...]:
        """All checkpoints, oldest first; with `replaced` as in `summaries`."""
        return await self._store.checkpoints(self.branch_uuid, replaced=replaced)

    async def inspect(self) -> BranchState:
        """The branch as it stands: lineage, frontier, tail, lag, artifacts, compactions."""
        return await inspect_branch(self._resources, self.branch_uuid, self.policy)

    async def events(self, after: int = 0, *, follow: bool = False) -> AsyncIterator[ContextEvent]:
        """What happened to the branch after the event with this cursor, in order, none left out.

        It ends with the newest event, or with `follow` waits for more. Raises InvalidArgument.
        """
        async for event in self._resources.events.follow(self.branch_uuid, after, follow=follow):
            yield event

    async def search(self, query: str, *, limit: int = 5) -> tuple[SearchHit, ...]:
        """Turns and artifacts of the lineage that match the words of `query`, best first."""
        return await search_history(
            self._resources.pool,
            self._resources.tenant,
            self.branch_uuid,
            query,
            limit=limit,
        )

    async def put_artifact(
        self, content: str | bytes, *, name: str, media_type: str | None = None
    ) -> Artifact:
        """Store a content under a name, as the name's next version, up to 64 MiB.

        Older versions stay. Not idempotent: each call is a version. Raises InvalidId,
        InvalidArgument, ArtifactTooLarge, ArtifactStoreUnavailable.
        """
        await self._tell_pending()
        artifact = await self._artifacts.put(
            self.branch_uuid, content, name=name, media_type=media_type, counter=self._counter
        )
        self._hint(artifact.turn_no)
        return artifact

    async def load_artifact(
        self,
        handle: str,
        *,
        start: int | None = None,
        length: int | None = None,
        grep: str | None = None,
    ) -> ArtifactContent:
        """The content of an artifact of this lineage, whole or in part.

        `start` is a line number from 1, `length` a number of lines; `grep` keeps the lines that
        hold a text, whatever its case, each with its number. Handles in markers of processors,
        `off_...`, will do as well. Raises ArtifactNotFound, InvalidArgument, ArtifactDamaged,
        ArtifactStoreUnavailable.
        """
        return await self._artifacts.load(
            self.branch_uuid, handle, start=start, length=length, grep=grep
        )

    async def artifacts(self) -> tuple[Artifact, ...]:
        """What turns brought, and the newest version of each name, oldest first."""
        return await self._artifacts.list(self.branch_uuid)

    async def artifact_history(self, name: str) -> tuple[Artifact, ...]:
        """All versions of a name that the branch sees, oldest first."""
        return await self._artifacts.history(self.branch_uuid, name)

    async def revert_artifact(self, name: str, version: int) -> Artifact:
        """Make an older version the newest: a new version with its content.

        Raises ArtifactNotFound.
        """
        return await self._artifacts.revert(self.branch_uuid, name, version)
