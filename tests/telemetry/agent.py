"""An agent's process that shows its metrics to Prometheus, as docs/telemetry.md says how.

`python -m tests.telemetry.agent DATABASE_URL` does a little of everything that is measured, well
and badly, and prints the page that Prometheus would read. Temporal is the one the environment
names.
"""

import asyncio
import contextlib
import sys
from datetime import timedelta

from opentelemetry import metrics
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import CollectorRegistry, generate_latest

from durable_context import Branch, Budget, CompactionPolicy, ContextClient
from durable_context.errors import DurableContextError
from tests.turns import exchange, numbered
from worker.free_ports import LOOPBACK, free_ports

AMPLE = Budget(max_tokens=100_000)
TIGHT = Budget(max_tokens=40)
POLICY = CompactionPolicy(debounce=timedelta(0), segment_turns=2)
LARGE = "\n".join(f"Line {n}: pump {n % 17} at {n * 7} kPa" for n in range(1_000))


async def talk(branch: Branch) -> None:
    """Turns enough for a hint, one of them twice, and a prompt before each."""
    for number in range(1, 6):
        await branch.prepare(f"And shipment {number}?", budget=AMPLE)
        await branch.record_turn(numbered(number), turn_key=str(number))
    await branch.record_turn(numbered(5), turn_key="5")


async def misuse(branch: Branch) -> None:
    await branch.prepare("What of it? " * 100, budget=TIGHT)
    with contextlib.suppress(DurableContextError):
        await branch.prepare("And then?", budget=AMPLE, at_turn=1_000)
    with contextlib.suppress(DurableContextError):
        await branch.record_turn(numbered(6), turn_key="5")


async def keep_artifacts(branch: Branch) -> None:
    await branch.record_turn([*numbered(7), *exchange("a", LARGE, "read_report")])
    await branch.put_artifact(LARGE, name="report")


async def main(database_url: str) -> None:
    registry = CollectorRegistry()
    metrics.set_meter_provider(MeterProvider([PrometheusMetricReader(registry=registry)]))
    [nobody] = free_ports(1)
    for temporal in (None, f"{LOOPBACK}:{nobody}"):
        async with await ContextClient.connect(
            database_url, temporal=temporal, policy=POLICY
        ) as client:
            branch = await client.open_branch(f"talk-{temporal}")
            await talk(branch)
            await misuse(branch)
            await keep_artifacts(branch)
    sys.stdout.buffer.write(generate_latest(registry))


if __name__ == "__main__":
    asyncio.run(asyncio.wait_for(main(*sys.argv[1:]), 60))
