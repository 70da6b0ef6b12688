"""Nothing that anybody wrote gets into a span, a metric or a log of the agent's process, not even
by an error that quotes it.
"""

import logging
from collections.abc import Callable
from typing import Any

import pytest

from durable_context import Branch, Budget, CompactionPolicy, ContextClient, PreparedContext
from durable_context.database import Pool
from durable_context.errors import DurableContextError
from tests.captured_telemetry import CapturedTelemetry
from tests.compacting import compact_once
from tests.turns import call, calling, chat, exchange, result

CANARY = "CANARY"
TENANT = f"{CANARY}-tenant"
AMPLE = Budget(max_tokens=100_000, instructions=f"{CANARY} instructions")
POLICY = CompactionPolicy(segment_turns=2, keep_raw_turns=1)
LARGE = "\n".join(f"{CANARY} line {n}" for n in range(1_000))


async def say_all(branch: Branch) -> None:
    """The word in all that a caller may say of a turn."""
    said = [
        *chat(f"{CANARY} asked", f"{CANARY} answered"),
        *exchange(f"{CANARY}-call", LARGE, f"{CANARY}_tool", argument=CANARY),
    ]
    for number in range(6):
        await branch.record_turn(
            said,
            turn_key=f"{CANARY} {number}",
            usage={"prompt_tokens": 9, CANARY: CANARY, "completion_tokens": CANARY},
            metadata={CANARY: CANARY},
        )
    await branch.put_artifact(LARGE, name=f"{CANARY}.txt")
    await branch.pin(1)
    await branch.fork(f"{CANARY}-fork")
    await branch.prepare(f"{CANARY} asks", budget=AMPLE, pending=exchange("next", CANARY))
    await branch.prepare(f"{CANARY} asks " * 100, budget=Budget(max_tokens=50))


async def fail_all(branch: Branch) -> int:
    """Errors that quote what they were given; how many spans they end."""
    failing: list[Callable[[], Any]] = [
        lambda: branch.record_turn([{"role": CANARY, "content": CANARY}]),
        lambda: branch.record_turn([*chat(CANARY, CANARY), calling(call(CANARY, CANARY))]),
        lambda: branch.record_turn([result(CANARY, CANARY)]),
        lambda: branch.record_turn(chat(CANARY, CANARY), turn_key=f"{CANARY} 1"),
        lambda: branch.record_turn(chat("a", "b"), outcome=CANARY),  # type: ignore[arg-type]
        lambda: branch.record_turn(chat("a", "b"), expected_head=CANARY),  # type: ignore[arg-type]
        lambda: branch.record_turn(chat("a", "b"), usage={CANARY: object()}),
        lambda: branch.prepare({"role": CANARY, "content": CANARY}, budget=AMPLE),
        lambda: branch.prepare("a", budget=CANARY),  # type: ignore[arg-type]
        lambda: branch.prepare("a", budget=AMPLE, at_turn=CANARY),  # type: ignore[arg-type]
        lambda: branch.prepare("a", budget=AMPLE, query_vector=[CANARY]),  # type: ignore[list-item]
        lambda: branch.compact(focus=CANARY, timeout=CANARY),  # type: ignore[arg-type]
        lambda: branch.rebuild(summarizers=[CANARY]),
    ]
    for attempt in failing:
        with pytest.raises((DurableContextError, TypeError)):
            await attempt()
    return len(failing)


async def test_what_was_said_is_in_no_span_and_no_metric(
    make_client: Callable[..., Any],
    pool: Pool,
    telemetry: CapturedTelemetry,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "durable_context")
    client: ContextClient = await make_client(POLICY, tenant=TENANT)
    branch = await client.open_branch(f"{CANARY}-conversation", f"{CANARY}-branch")
    await say_all(branch)
    assert await compact_once(pool, branch.branch_uuid, POLICY, TENANT)
    await branch.prepare(f"{CANARY} asks", budget=AMPLE)
    assert len(telemetry.spans()) >= 9
    assert CANARY not in telemetry.everything()
    assert CANARY not in caplog.text


async def test_an_error_that_quotes_what_it_was_given_leaves_its_type_alone(
    client: ContextClient, telemetry: CapturedTelemetry
) -> None:
    branch = await client.open_branch("conversation")
    await say_all(branch)
    telemetry.clear()
    failures = await fail_all(branch)
    failed = [span for span in telemetry.spans() if not span.status.is_ok]
    assert len(failed) == failures
    assert not any(span.events or span.status.description for span in failed)
    assert all((span.attributes or {})["durable_context.outcome"] == "error" for span in failed)
    assert CANARY not in telemetry.everything()


async def test_what_others_raise_leaves_its_type_alone(
    client: ContextClient, telemetry: CapturedTelemetry
) -> None:
    class Unsaid:
        """A message that says what it holds when somebody looks."""

        def __getattr__(self, name: str) -> object:
            raise RuntimeError(f"{CANARY} in {name}")

    branch = await client.open_branch("conversation")
    with pytest.raises(RuntimeError, match=CANARY):
        await branch.record_turn([Unsaid()])
    span = telemetry.span("durable_context.record_turn")
    assert (span.attributes or {})["error.type"] == "RuntimeError"
    assert CANARY not in telemetry.everything()


async def test_a_usage_that_nothing_is_learned_of_is_not_logged(
    client: ContextClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "durable_context")
    branch = await client.open_branch("conversation")
    prompt = await branch.prepare(CANARY, budget=Budget(max_tokens=5_000, model="mistral-x"))
    assert isinstance(prompt, PreparedContext)
    prompt.messages[0]["content"] = {CANARY: CANARY}
    usage = {"prompt_tokens": 900, CANARY: CANARY}
    await branch.record_turn(chat(CANARY, CANARY), usage=usage, prepared=prompt)
    assert "nothing was learned" in caplog.text
    assert CANARY not in caplog.text
