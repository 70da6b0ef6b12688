"""What happens to a deployment in some minutes: people talk, a provider fails, then hangs, and all
that can go wrong does so once.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator
from typing import Any, NamedTuple
from uuid import uuid4

from temporalio.client import Client, WorkflowFailureError
from temporalio.service import RPCError

from durable_context import Branch, Budget, ContextClient
from durable_context.contracts import (
    COMPACTION_TASK_QUEUE,
    COMPACTION_WORKFLOW,
    CompactionRequest,
    compaction_workflow_id,
)
from durable_context.errors import DurableContextError
from tests.model_server import answers, failed
from tests.observability.live_stack import POLICY, LiveStack
from tests.turns import chat, exchange

BUDGET = Budget(max_tokens=6_000)
TIGHT = Budget(max_tokens=60)
WORDS = (
    *("freight", "invoice", "pallet", "Rotterdam", "customs", "pump", "valve", "pressure"),
    *("warranty", "delivery", "crate", "schedule", "carrier", "Lyon", "depot", "refund"),
    *("insurance", "harbour", "container", "signature"),
)


class Phases(NamedTuple):
    """How long the provider is well, fails, is well again, hangs, and is well again: seconds."""

    well: float
    failing: float
    mended: float
    hanging: float
    after: float


async def run(stack: LiveStack, phases: Phases, talkers: int) -> None:
    """Returns when the phases are over; what is due then may still wait."""
    async with _talking(stack.client, talkers, phases), _talking(stack.alone, 1, phases):
        await asyncio.sleep(phases.well)
        stack.model.always(failed(503))
        await asyncio.sleep(phases.failing)
        stack.model.always(answers())
        await asyncio.sleep(phases.mended)
        stack.model.hold()
        await asyncio.sleep(phases.hanging)
        stack.model.release()
        await asyncio.sleep(phases.after)


async def break_a_run(stack: LiveStack) -> None:
    """A run that an operator ends while the model answers; the next one finds what it left."""
    mark = f"P{uuid4().int}"
    stack.model.hold()
    seen = stack.model.count
    branch = await stack.client.open_branch(mark)
    for number in range(8):
        await branch.record_turn(_small(number, mark))
    while mark not in (await stack.model.request_arrived(seen := seen + 1)).text:
        pass
    run = stack.temporal.get_workflow_handle(compaction_workflow_id(branch.branch_uuid))
    await run.terminate("to see what it leaves")
    stack.model.release()
    await branch.compact(timeout=60)


async def compact_what_is_gone(temporal: Client) -> None:
    """A branch that was deleted meanwhile."""
    request = CompactionRequest(tenant="nobody", branch_uuid=uuid4(), policy=POLICY)
    run_id = compaction_workflow_id(request.branch_uuid)
    with contextlib.suppress(WorkflowFailureError):
        await temporal.execute_workflow(
            COMPACTION_WORKFLOW, request, id=run_id, task_queue=COMPACTION_TASK_QUEUE
        )


@contextlib.asynccontextmanager
async def unknown_code(temporal: Client) -> AsyncGenerator[None]:
    """A run of a workflow that the workers do not have: its tasks fail until it is ended."""
    run = await temporal.start_workflow(
        "NotYetDeployed", id=f"unknown-{uuid4()}", task_queue=COMPACTION_TASK_QUEUE
    )
    try:
        yield
    finally:
        with contextlib.suppress(RPCError):
            await run.terminate("seen")


@contextlib.asynccontextmanager
async def _talking(client: ContextClient, talkers: int, phases: Phases) -> AsyncGenerator[None]:
    chance = random.Random(talkers)
    talks = [
        asyncio.create_task(_talk(client, random.Random(chance.random()), sum(phases)))
        for _ in range(talkers)
    ]
    try:
        yield
    finally:
        for talk in talks:
            talk.cancel()
        ended = await asyncio.gather(*talks, return_exceptions=True)
    for error in ended:
        if isinstance(error, Exception):
            raise error


async def _talk(client: ContextClient, chance: random.Random, seconds: float) -> None:
    """One conversation after the other, in which people think before they answer."""
    while True:
        branch = await client.open_branch(f"talk-{uuid4()}")
        for number in range(chance.randint(12, 40)):
            await _turn(branch, number, chance)
            await asyncio.sleep(chance.uniform(0.1, seconds / 120))


async def _turn(branch: Branch, number: int, chance: random.Random) -> None:
    asked = _said(chance, 20)
    await branch.prepare(asked, budget=TIGHT if chance.random() < 0.01 else BUDGET)
    messages: list[Any] = chat(asked, _said(chance, 120))
    if chance.random() < 0.2:
        messages[1:1] = exchange("a", _said(chance, 1_500), "look_up")
    if chance.random() < 0.05:
        await branch.put_artifact(_said(chance, 800), name="report")
    await branch.record_turn(messages, turn_key=str(number))
    if chance.random() < 0.03:
        await branch.record_turn(messages, turn_key=str(number))
    if chance.random() < 0.01:
        with contextlib.suppress(DurableContextError):
            await branch.record_turn(_small(number), turn_key=str(number))
        with contextlib.suppress(DurableContextError):
            await branch.prepare(asked, budget=BUDGET, at_turn=number + 1_000)


def _small(number: int, mark: str = "") -> list[dict[str, str]]:
    return chat(f"What became of parcel {number} {mark}?", "It was delivered in Lyon. " * 12)


def _said(chance: random.Random, words: int) -> str:
    return " ".join(chance.choice(WORDS) for _ in range(words))
