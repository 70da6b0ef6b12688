"""A branch as an agent runtime holds it: record turns, prepare prompts, compact, look."""

import asyncio
import hashlib
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID, uuid4

from durable_context.arguments import (
    OnConflict,
    check_budget,
    check_choice,
    check_time,
    head_expected,
    seconds,
)
from durable_context.assembly import assemble
from durable_context.compaction_store import CompactionStore
from durable_context.contracts import CompactionRequest, CompactionResult
from durable_context.database import Pool
from durable_context.errors import CompactionTimeout, CompactionUnavailable
from durable_context.ids import check_ids
from durable_context.lag import lag_of, next_segment, worth_a_hint
from durable_context.messages import exchanges, turn_messages, user_message_of
from durable_context.models import (
    BranchState,
    Checkpoint,
    Compaction,
    Message,
    Outcome,
    Summary,
    Turn,
)
from durable_context.policy import CompactionPolicy
from durable_context.prepared import Budget, BudgetExceeded, PreparedContext
from durable_context.prompt_state import read_prompt_state
from durable_context.recording import turn_row
from durable_context.store import BranchRow, PromptRecord, Store
from durable_context.stored_json import check_json_object
from durable_context.text import clean, message_text
from durable_context.tokens import token_counter

if TYPE_CHECKING:
    from durable_context.compaction_requests import CompactionRequests

QUERY_CHARACTERS = 10_000
"""Of a longer user message only the beginning is searched with."""
THREAD_CHARACTERS = 100_000
"""Above this, computing takes long enough for others on the event loop to notice."""
POLL_FIRST = 0.02
POLL_LONGEST = 0.5


class Branch:
    """One branch of a conversation. Made by `ContextClient.open_branch`; holds no state of its own
    but what never changes, so any number of processes may hold the same branch."""

    def __init__(
        self,
        *,
        pool: Pool,
        store: Store,
        requests: "CompactionRequests | None",
        tenant: str,
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
        self._encoding = row.encoding
        self._pool = pool
        self._store = store
        self._requests = requests
        self._tenant = tenant

    async def prepare(
        self,
        user_message: str | Mapping[str, Any] | Message | None,
        *,
        budget: Budget,
        pending: Sequence[object] = (),
    ) -> PreparedContext | BudgetExceeded:
        """The whole next request, within budget: one database read, no model, nothing written.

        `None` continues an open long run. `pending` holds complete tool exchanges that are not
        recorded yet. The same stored state and input give the same bytes. Raises InvalidTurn.
        """
        check_budget(budget)
        asked, waiting = user_message_of(user_message), exchanges(pending)
        state = await read_prompt_state(
            self._pool, self._tenant, self.branch_uuid, _query(asked), self.policy
        )
        build = partial(assemble, state, asked, waiting, budget=budget, policy=self.policy)
        if _characters([*waiting, *([asked] if asked else ())]) > THREAD_CHARACTERS:
            return await asyncio.to_thread(build)
        return build()

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
    ) -> Turn:
        """Record one turn: the new exchange, in OpenAI chat format or as `Message`s.

        When this returns the turn is committed. It is idempotent by `turn_key` (a retry needs the
        same key). With `prepared` or `expected_head` the branch must still stand where the prompt
        was made, unless `on_conflict="append"`. Temporal is told and not waited for. Raises
        InvalidTurn, IncompleteToolExchange, InvalidId, TurnKeyConflict, HeadConflict,
        UnknownBranch.
        """
        check_choice("outcome", outcome, Outcome)
        check_choice("on_conflict", on_conflict, OnConflict)
        check_time(occurred_at)
        if turn_key is not None:
            check_ids(turn_key=turn_key)
        for name, value in (("usage", usage), ("metadata", metadata)):
            if value is not None:
                check_json_object(value, name)
        expected = head_expected(self.branch_uuid, prepared, expected_head, on_conflict)
        parsed = turn_messages(messages, outcome)
        key = turn_key or uuid4().hex
        compute = partial(
            turn_row,
            parsed,
            outcome=outcome,
            continues=continues,
            occurred_at=occurred_at,
            policy=self.policy,
            counter=token_counter(self._encoding),
        )
        large = _characters(parsed) > THREAD_CHARACTERS
        row = await asyncio.to_thread(compute) if large else compute()
        recorded = await self._store.record_turn(
            self.branch_uuid,
            key,
            row,
            expected_head=expected,
            outcome=outcome,
            continues=continues,
            occurred_at=occurred_at,
            usage=usage,
            metadata=metadata,
            prompt=_prompt_record(prepared),
        )
        if self._requests is not None and worth_a_hint(recorded, continues, self.policy):
            self._requests.hint_later(self._request("turn"), recorded.turn_no, self.policy.debounce)
        return Turn(
            turn_no=recorded.turn_no,
            turn_key=key,
            messages=parsed,
            token_count=row.token_count,
            outcome=outcome,
            continues=continues,
            occurred_at=occurred_at or recorded.recorded_at,
            recorded_at=recorded.recorded_at,
            digest=row.digest.strip(),
            ledger=tuple(
                entry.model_copy(update={"turn_no": recorded.turn_no}) for entry in row.entries
            ),
            usage=usage,
            metadata=metadata,
            repeated=recorded.repeated,
        )

    async def compact(self, *, timeout: timedelta | float = 600) -> CompactionResult:
        """Compact everything that is due now, and wait: `timeout` in seconds or as a timedelta.

        The result's range and tokens are the last segment's; passes and attempts are totals.
        Raises CompactionUnavailable, CompactionTimeout (the compaction goes on), CompactionFailed.
        """
        if self._requests is None:
            raise CompactionUnavailable("this client was made with temporal=None")
        return await self._requests.compact_now(self._request("request"), seconds(timeout))

    async def wait_until_compacted(self, *, timeout: timedelta | float = 600) -> None:
        """Wait until nothing is due: `timeout` in seconds or as a timedelta.

        Asks for nothing: hints and compact() do. Raises CompactionTimeout.
        """
        bound = seconds(timeout).total_seconds()
        deadline = time.monotonic() + bound
        pause = POLL_FIRST
        store = CompactionStore(self._pool, self._tenant, self.branch_uuid)
        while due := await next_segment(store, await store.head(), self.policy):
            left = deadline - time.monotonic()
            if left <= 0:
                raise CompactionTimeout(
                    f"turns {due[0].turn_no}-{due[-1].turn_no} of branch {self.branch_id!r} of"
                    f" {self.conversation_id!r} are not compacted after"
                    f" {bound:g} s"
                )
            await asyncio.sleep(min(pause, left))
            pause = min(2 * pause, POLL_LONGEST)

    async def turns(self, from_turn: int = 1, to_turn: int | None = None) -> tuple[Turn, ...]:
        """Recorded turns `from_turn` to `to_turn`, both included; the newest by default."""
        return await self._store.turns(self.branch_uuid, from_turn, to_turn or 2**31 - 1)

    async def summaries(self) -> tuple[Summary, ...]:
        """Current nodes of the summary tree, by first turn, then level."""
        return await self._store.summaries(self.branch_uuid)

    async def checkpoints(self) -> tuple[Checkpoint, ...]:
        """All checkpoints, oldest first."""
        return await self._store.checkpoints(self.branch_uuid)

    async def compactions(self, limit: int = 20) -> tuple[Compaction, ...]:
        """The newest compactions, newest first."""
        return await self._store.compactions(self.branch_uuid, limit)

    async def inspect(self) -> BranchState:
        """The branch as it stands: frontier, tail, lag, compactions. Several reads."""
        head = await self._store.branch_head(self.branch_uuid)
        checkpoints = await self.checkpoints()
        checkpoint = checkpoints[-1] if checkpoints else None
        nodes = {node.summary_id: node for node in await self.summaries()}
        tail = await self.turns(checkpoint.turn_no + 1 if checkpoint else 1)
        return BranchState(
            conversation_id=self.conversation_id,
            branch_id=self.branch_id,
            branch_uuid=self.branch_uuid,
            encoding=self._encoding,
            head_turn=head.head_turn,
            head_tokens=head.head_tokens,
            open_run_turn=head.open_run_turn,
            checkpoint=checkpoint,
            frontier=tuple(nodes[node] for node in checkpoint.frontier) if checkpoint else (),
            tail=tail,
            lag=lag_of(tail, head.open_run_turn, self.policy),
            compactions=await self.compactions(),
        )

    def _request(self, reason: Literal["turn", "request"]) -> CompactionRequest:
        label = f"{self.conversation_id}/{self.branch_id}" if self.policy.expose_ids else ""
        return CompactionRequest(
            tenant=self._tenant,
            branch_uuid=self.branch_uuid,
            policy=self.policy,
            reason=reason,
            label=clean(label)[:120],
        )


def _query(asked: Message | None) -> str | None:
    return clean(message_text(asked)[:QUERY_CHARACTERS]) if asked else None


def _characters(messages: Sequence[Message]) -> int:
    """How much text there is to work on."""
    calls = (call for message in messages for call in message.tool_calls)
    return sum(len(message_text(m)) for m in messages) + sum(len(c.arguments) for c in calls)


def _prompt_record(prepared: PreparedContext | None) -> PromptRecord | None:
    if prepared is None:
        return None
    parts = prepared.budget.parts()
    manifest = prepared.manifest.model_dump_json(exclude_defaults=True)
    return PromptRecord(manifest, hashlib.sha256(parts.encode()).digest(), parts)
