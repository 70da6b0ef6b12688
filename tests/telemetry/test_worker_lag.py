"""How far compaction is behind, as a worker measures it for all branches."""

import logging
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from durable_context import Branch, CompactionPolicy, ContextClient
from durable_context.compaction.total_lag import TotalLag, total_lag
from durable_context.database import Connection, Pool
from durable_context.telemetry.instruments import observe_lag
from tests.captured_telemetry import CapturedTelemetry
from tests.compacting import compact_all
from tests.turns import numbered
from worker.lag import LagGauges

POLICY = CompactionPolicy(segment_turns=2, keep_raw_turns=1)
NEVER = timedelta(hours=1).total_seconds()


async def _branch(client: ContextClient, name: str, turns: int) -> Branch:
    branch = await client.open_branch(name)
    for number in range(1, turns + 1):
        await branch.record_turn(numbered(number))
    return branch


async def _age(connection: Connection, branch: Branch, turn_no: int, seconds: int) -> None:
    """As if that turn and those before it had been recorded so long ago."""
    await connection.execute("set session_replication_role = replica")  # turns do not change
    for table, column, rows in (
        ("turns", "recorded_at", "turn_no <= $3"),
        ("branches", "created_at", "$3::integer > 0"),
    ):
        await connection.execute(
            f"update durable_context.{table} set {column} = clock_timestamp()"
            f" - make_interval(secs => $2) where branch_uuid = $1 and {rows}",
            branch.branch_uuid,
            seconds,
            turn_no,
        )


async def test_it_counts_what_is_due_in_all_tenants_and_how_long_the_oldest_has_been(
    client: ContextClient, database_url: str, pool: Pool, connection: Connection
) -> None:
    await _branch(client, "fresh", 2)
    due = await _branch(client, "due", 4)
    async with await ContextClient.connect(database_url, temporal=None, tenant="other") as other:
        older = await _branch(other, "older", 5)
    await _age(connection, due, 4, 50)
    await _age(connection, older, 3, 100)  # its third turn filled the segment
    await _age(connection, older, 2, 1_000)
    lag = await total_lag(pool, POLICY)
    assert (lag.branches, lag.turns) == (2, 1 + 3 + 4)
    assert 100 <= lag.seconds < 400
    assert lag.tokens > 0


async def test_what_is_compacted_or_paused_is_not_behind(
    client: ContextClient, database_url: str, pool: Pool
) -> None:
    compacted = await _branch(client, "compacted", 5)
    await compact_all(pool, compacted.branch_uuid, POLICY)
    assert await total_lag(pool, POLICY) == TotalLag(0, 0, 0, 0.0)
    paused = await _branch(client, "paused", 5)
    assert (await total_lag(pool, POLICY)).branches == 1
    await paused.pause()
    assert await total_lag(pool, POLICY) == TotalLag(0, 0, 0, 0.0)


async def test_a_fork_of_old_turns_has_waited_since_it_was_made(
    client: ContextClient, pool: Pool, connection: Connection
) -> None:
    parent = await _branch(client, "parent", 5)
    await _age(connection, parent, 5, 1_000)
    await compact_all(pool, parent.branch_uuid, POLICY)
    fork = await parent.fork("fork", at_turn=3)
    await fork.record_turn(numbered(4))
    lag = await total_lag(pool, POLICY)
    assert lag.branches <= 1 and lag.seconds < 500


@pytest.fixture
async def gauges(pool: Pool) -> AsyncIterator[LagGauges]:
    gauges = LagGauges(pool, POLICY, 0)
    observe_lag(lambda: gauges.lag)
    yield gauges
    gauges.lag = None


async def test_gauges_show_what_was_measured_last_and_nothing_where_that_failed(
    gauges: LagGauges,
    client: ContextClient,
    connection: Connection,
    telemetry: CapturedTelemetry,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await _branch(client, "due", 4)
    await gauges.measure()
    assert telemetry.latest("durable_context.lag.branches") == 1
    assert telemetry.latest("durable_context.lag.turns") == 3
    assert gauges.lag is not None
    assert telemetry.latest("durable_context.lag.tokens") == gauges.lag.tokens
    await connection.execute("alter table durable_context.branches rename to gone")
    with caplog.at_level(logging.WARNING):
        await gauges.measure()
        await gauges.measure()
    assert [record.getMessage() for record in caplog.records] == [
        "the lag is not measured: SchemaMissing"
    ]
    telemetry.clear()
    assert telemetry.latest("durable_context.lag.branches") is None
    await connection.execute("alter table durable_context.gone rename to branches")
    await gauges.measure()
    assert telemetry.latest("durable_context.lag.branches") == 1


async def test_it_is_measured_at_once_and_ends_with_the_worker(
    client: ContextClient, pool: Pool
) -> None:
    async with LagGauges(pool, POLICY, NEVER) as gauges:
        while gauges.lag is None:
            await pool.fetchval("select pg_sleep(0.01)")
        assert gauges.lag == TotalLag(0, 0, 0, 0.0)
    assert gauges.lag is None
