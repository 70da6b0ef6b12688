"""A durable PostgreSQL of the benchmark's own, and branches of any length in it."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from benchmarks.corpus import Corpus
from durable_context import Branch, CompactionPolicy, ContextClient
from durable_context.compaction.compactor import Compactor
from durable_context.contracts import (
    CommitRequest,
    IndexRequest,
    Plan,
    PlanRequest,
    SummarizeRequest,
)
from durable_context.database import Pool, acquired, create_pool
from durable_context.migrations import migrate
from durable_context.summarizers.extractive import ExtractiveSummarizer
from worker.postgres_server import PostgresServer

Report = Callable[[str], None]
TENANT = "benchmark"
ENCODING = "o200k_base"
REPORT_EVERY = 2_000

# Bare counterparts: one column of text by an integer key.
_BARE_TABLES = """
create schema bare;
create table bare.documents (key integer primary key, content text not null);
create table bare.turns (
    key integer generated always as identity primary key, messages text not null
);
"""


@dataclass(frozen=True)
class Database:
    """`pool` has one connection, which every measured call goes through, ours and bare."""

    pool: Pool
    not_waiting: Pool

    def client(
        self, policy: CompactionPolicy | None = None, *, fast: bool = False
    ) -> ContextClient:
        """`fast`: commits do not wait for the disk; for making data, never for measuring."""
        return ContextClient(
            self.not_waiting if fast else self.pool,
            None,
            tenant=TENANT,
            policy=policy or CompactionPolicy(),
            encoding=ENCODING,
        )

    async def settle(self) -> None:
        """What autovacuum does in a while, for statistics and for index-only scans."""
        async with acquired(self.pool) as connection:
            await connection.execute("vacuum analyze")
            await connection.execute("checkpoint")


def silence(line: str) -> None:
    """A report for steps too short to be reported."""


@asynccontextmanager
async def benchmark_database(directory: Path) -> AsyncGenerator[Database]:
    async with PostgresServer(directory) as server:
        url = server.database_url
        await migrate(url)
        async with (
            await create_pool(url, max_size=1) as pool,
            await create_pool(f"{url}?synchronous_commit=off", max_size=1) as not_waiting,
        ):
            async with acquired(pool) as connection:
                await connection.execute(_BARE_TABLES)
            yield Database(pool, not_waiting)


async def record(branch: Branch, corpus: Corpus, turns: int, report: Report) -> None:
    for number in range(1, turns + 1):
        await branch.record_turn(corpus.turn(number))
        if number % REPORT_EVERY == 0:
            report(f"recorded {number:,} of {turns:,} turns")


async def compact(pool: Pool, branch: Branch, report: Report) -> int:
    """All that is due, by the compactor itself, without Temporal. Returns the number of passes."""
    compactor = Compactor(pool, ExtractiveSummarizer())
    plan_next = PlanRequest(
        tenant=TENANT, branch_uuid=branch.branch_uuid, policy=branch.policy, reason="request"
    )
    passes = 0
    while (plan := await compactor.plan(plan_next)).nodes:
        await _compact_segment(compactor, plan_next, plan)
        passes += 1
        if plan.nodes[0].to_turn % REPORT_EVERY < branch.policy.segment_turns:
            report(f"compacted {plan.nodes[0].to_turn:,} turns")
    return passes


async def _compact_segment(compactor: Compactor, asked: PlanRequest, plan: Plan) -> None:
    assert plan.compaction_id is not None
    drafts: list[UUID] = []
    for node in plan.nodes:
        made = await compactor.summarize(
            SummarizeRequest(
                tenant=asked.tenant,
                branch_uuid=asked.branch_uuid,
                compaction_id=plan.compaction_id,
                node=node,
                policy=asked.policy,
                drafts=tuple(drafts),
            )
        )
        drafts.append(made.summary_id)
    await compactor.commit(
        CommitRequest(
            tenant=asked.tenant,
            branch_uuid=asked.branch_uuid,
            compaction_id=plan.compaction_id,
            checkpoint_turn=plan.checkpoint_turn,
            summary_ids=tuple(drafts),
            policy=asked.policy,
        )
    )
    leaf = plan.nodes[0]
    await compactor.index(
        IndexRequest(
            tenant=asked.tenant,
            branch_uuid=asked.branch_uuid,
            from_turn=leaf.from_turn,
            to_turn=leaf.to_turn,
        )
    )
