"""What is started for a branch that is due: its compaction, or its rebuild. Imports temporalio."""

import logging
from datetime import timedelta
from functools import partial
from typing import Literal, Protocol

from temporalio.client import Client

from durable_context.compaction.lag import next_segment
from durable_context.compaction.rebuild_calls import start_rebuild
from durable_context.compaction.run_texts import shown_ids
from durable_context.compaction.store import CompactionStore
from durable_context.compaction.temporal_calls import CompactionCalls
from durable_context.contracts import CompactionRequest
from durable_context.contracts.rebuild import RebuildRequest
from durable_context.contracts.sweep import SweepRequest
from durable_context.database import Pool, acquired, answers, asked_again
from durable_context.errors import CompactionUnavailable, UnknownBranch
from durable_context.policy import CompactionPolicy
from durable_context.sweeps.paging import DueBranch

logger = logging.getLogger(__name__)

Outcome = Literal["started", "running", "skipped", "failed"]
AT_ONCE = timedelta(0)


class Starting(Protocol):
    """Starts what is due. Safe to repeat."""

    async def __call__(self, branch: DueBranch) -> Outcome: ...


class Surviving:
    """A branch that cannot be read, or started, fails alone. Raises DatabaseUnavailable where the
    database is away for all.
    """

    def __init__(self, start: Starting, pool: Pool) -> None:
        self._start = start
        self._pool = pool

    async def __call__(self, branch: DueBranch) -> Outcome:
        try:
            return await asked_again(self._pool, partial(self._start, branch))
        except Exception as error:
            await answers(self._pool)
            logger.warning("branch %s is not started: %s", branch.branch_uuid, type(error).__name__)
            return "failed"


class HintedCompactions:
    """Tells the compaction of a branch to look, where a close look says that there is something."""

    def __init__(self, pool: Pool, client: Client, task_queue: str, request: SweepRequest) -> None:
        self._pool = pool
        self._calls = CompactionCalls(client, task_queue)
        self._request = request

    async def __call__(self, branch: DueBranch) -> Outcome:
        try:
            if not branch.is_unindexed and not await self._is_behind(branch):
                return "skipped"
            is_new = await self._hint(branch)
        except UnknownBranch:  # deleted meanwhile
            return "skipped"
        except CompactionUnavailable:
            return "failed"
        return "started" if is_new else "running"

    async def _is_behind(self, branch: DueBranch) -> bool:
        store = CompactionStore(self._pool, branch.tenant, branch.branch_uuid)
        return bool(await next_segment(store, await store.head(), self._request.policy))

    async def _hint(self, branch: DueBranch) -> bool:
        label, conversation = await _shown(self._pool, branch, self._request.policy)
        request = CompactionRequest(
            tenant=branch.tenant,
            branch_uuid=branch.branch_uuid,
            policy=self._request.policy,
            reason="sweep",
            label=label,
            conversation=conversation,
            summary_task_queue=self._request.summary_task_queue,
        )
        return await self._calls.hint(request, branch.head_turn, AT_ONCE)


class StartedRebuilds:
    """Starts merges, or upgrades that may read `branch.tokens` each."""

    def __init__(self, pool: Pool, client: Client, task_queue: str, request: SweepRequest) -> None:
        self._pool = pool
        self._client = client
        self._task_queue = task_queue
        self._request = request

    async def __call__(self, branch: DueBranch) -> Outcome:
        label, conversation = await _shown(self._pool, branch, self._request.policy)
        request = RebuildRequest(
            tenant=branch.tenant,
            branch_uuid=branch.branch_uuid,
            policy=self._request.policy,
            reason="upgrade" if self._request.kind == "upgrade" else "merge",
            max_tokens=branch.tokens,
            label=label,
            conversation=conversation,
            summary_task_queue=self._request.summary_task_queue,
        )
        try:
            is_new = await start_rebuild(self._client, request, self._task_queue)
        except CompactionUnavailable:
            return "failed"
        return "started" if is_new else "running"


async def _shown(pool: Pool, branch: DueBranch, policy: CompactionPolicy) -> tuple[str, str]:
    """`label` and `conversation` of a request."""
    if not policy.expose_ids:
        return "", ""
    async with acquired(pool) as connection:
        row = await connection.fetchrow(
            "select conversation_id, branch_id from durable_context.branches"
            " where tenant = $1 and branch_uuid = $2",
            branch.tenant,
            branch.branch_uuid,
        )
    return shown_ids(policy, row[0], row[1]) if row else ("", "")
