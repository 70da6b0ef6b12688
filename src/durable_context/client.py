"""The entry point: connects to PostgreSQL, and to Temporal when asked to, and opens branches."""

import asyncio
import os
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from typing import TYPE_CHECKING, Self

from durable_context.artifacts.contents import INLINE_LIMIT, ContentStore
from durable_context.artifacts.store import ArtifactStore
from durable_context.branch import Branch
from durable_context.branch_store import BranchRow, BranchStore
from durable_context.control.tenant_control import TenantControl
from durable_context.database import Pool, create_pool
from durable_context.errors import DatabaseUnavailable, InvalidArgument
from durable_context.events import EventStore, PendingEvents
from durable_context.exports.exporting import export_branch
from durable_context.exports.importing import import_branch
from durable_context.ids import check_ids
from durable_context.models import BranchInfo
from durable_context.policy import CompactionPolicy, policy_from_env
from durable_context.resources import Resources
from durable_context.store import Store
from durable_context.tokens import token_counter

if TYPE_CHECKING:
    from temporalio.client import Client

    from durable_context.compaction.requests import CompactionRequests

DATABASE_URL = "DURABLE_CONTEXT_DATABASE_URL"
FROM_ENVIRONMENT = "environment"
"""Temporal's own environment configuration (TEMPORAL_ADDRESS and the rest)."""


class ContextClient(TenantControl):
    """One tenant's conversations. One per process is enough: it pools its connections."""

    def __init__(
        self,
        pool: Pool,
        requests: "CompactionRequests | None",
        *,
        tenant: str,
        policy: CompactionPolicy,
        encoding: str,
        contents: ContentStore | None = None,
    ) -> None:
        contents = contents or ContentStore()
        self._resources = Resources(
            pool=pool,
            tenant=tenant,
            branches=BranchStore(pool, tenant),
            store=Store(pool, tenant),
            contents=contents,
            artifacts=ArtifactStore(pool, tenant, contents),
            events=EventStore(pool, tenant),
            pending_events=PendingEvents(),
            requests=requests,
        )
        self._branches = self._resources.branches
        self._policy = policy
        self._encoding = encoding

    @classmethod
    async def connect(
        cls,
        database_url: str | None = None,
        *,
        temporal: "Client | str | None" = FROM_ENVIRONMENT,
        tenant: str = "default",
        policy: CompactionPolicy | None = None,
        encoding: str = "o200k_base",
        artifact_url: str | None = None,
        inline_limit: int = INLINE_LIMIT,
        max_connections: int = 10,
    ) -> Self:
        """Connect to the database; Temporal is connected to when it is first needed.

        `database_url` defaults to DURABLE_CONTEXT_DATABASE_URL, `policy` to what
        DURABLE_CONTEXT_POLICY says (see `policy_from_env`). `temporal` is an address, a client
        with the pydantic data converter, or None to record without hints: nothing is compacted
        then. An existing branch keeps the encoding it was made with. Contents of more than
        `inline_limit` bytes go to the object store at `artifact_url` (file, s3, gs, az), by default
        DURABLE_CONTEXT_ARTIFACT_URL, else a local directory. Raises DatabaseUnavailable,
        InvalidArgument.
        """
        try:
            counter = token_counter(encoding)
        except ValueError as error:
            raise InvalidArgument(str(error)) from error
        check_ids(tenant=tenant)
        policy = policy or policy_from_env(os.environ)
        url = database_url or os.environ.get(DATABASE_URL)
        if not url:
            raise DatabaseUnavailable(f"no database: pass database_url, or set {DATABASE_URL}")
        contents = ContentStore(artifact_url, inline_limit=inline_limit)
        pool = await create_pool(url, max_size=max_connections)
        await asyncio.to_thread(
            counter.count, ""
        )  # loads the vocabulary before a turn waits for it
        return cls(
            pool,
            _requests(temporal),
            tenant=tenant,
            policy=policy,
            encoding=encoding,
            contents=contents,
        )

    async def open_branch(
        self, conversation_id: str, branch_id: str = "main", *, text_search: str | None = None
    ) -> Branch:
        """The branch, made if absent.

        `text_search`: the language its words are reduced to stems in, for retrieval; a text search
        configuration of PostgreSQL such as "english", which a new branch has by default, "german",
        or "simple" for any other. Scripts written without spaces are found in all of them. It stays
        as it was made, for forks too. Raises InvalidId, InvalidArgument.
        """
        check_ids(conversation_id=conversation_id, branch_id=branch_id)
        row = await self._branches.open(
            conversation_id, branch_id, encoding=self._encoding, text_search=text_search
        )
        return self._branch(conversation_id, branch_id, row)

    async def find_branch(self, conversation_id: str, branch_id: str = "main") -> Branch:
        """The branch, which must exist. Raises UnknownBranch."""
        check_ids(conversation_id=conversation_id, branch_id=branch_id)
        row = await self._branches.find(conversation_id, branch_id)
        return self._branch(conversation_id, branch_id, row)

    async def branches(self, conversation_id: str) -> tuple[BranchInfo, ...]:
        """The tree of a conversation, parents before their children; empty if there is none."""
        check_ids(conversation_id=conversation_id)
        return await self._branches.of_conversation(conversation_id)

    def export_branch(self, conversation_id: str, branch_id: str = "main") -> AsyncIterator[str]:
        """The branch as lines of JSON, each with its end: see docs/export-format.md.

        One snapshot, a page of it in memory; a connection is held until the last line. Raises
        UnknownBranch, InvalidId, ArtifactDamaged, ArtifactStoreUnavailable.
        """
        shared = self._resources
        return export_branch(
            shared.pool, shared.tenant, shared.contents, conversation_id, branch_id
        )

    async def import_branch(
        self,
        lines: Iterable[str] | AsyncIterable[str],
        *,
        conversation_id: str,
        branch_id: str = "main",
    ) -> Branch:
        """An exported branch as a new root branch, all of it or nothing.

        Raises InvalidExport, BranchConflict, InvalidId, ArtifactStoreUnavailable.
        """
        shared = self._resources
        await import_branch(
            shared.pool, shared.tenant, shared.contents, lines, conversation_id, branch_id
        )
        return await self.find_branch(conversation_id, branch_id)

    def _branch(self, conversation_id: str, branch_id: str, row: BranchRow) -> Branch:
        return Branch(self._resources, conversation_id, branch_id, row, self._policy)

    async def close(self) -> None:
        """Wait, within a bound, for hints on their way, and release the connections."""
        if self._resources.requests is not None:
            await self._resources.requests.close()
        await self._resources.pending_events.flush(self._resources.events)
        await self._resources.pool.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()


def _requests(temporal: "Client | str | None") -> "CompactionRequests | None":
    if temporal is None:
        return None
    from durable_context.compaction.requests import CompactionRequests

    return CompactionRequests(None if temporal == FROM_ENVIRONMENT else temporal)
