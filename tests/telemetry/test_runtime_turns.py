"""What a recorded turn leaves in a trace and in the metrics."""

from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import StatusCode

from durable_context import CompactionPolicy, ContextClient
from durable_context.errors import IncompleteToolExchange, TurnKeyConflict
from tests.captured_telemetry import CapturedTelemetry
from tests.turns import call, calling, exchange, numbered

RECORD = "durable_context.record_turn"
DURATION = "durable_context.record.duration"
LARGE = "\n".join(f"Line {n}: pump {n % 17} at {n * 7} kPa" for n in range(1_000))


async def test_a_turn_is_a_span_with_its_figures(
    client: ContextClient, telemetry: CapturedTelemetry
) -> None:
    branch = await client.open_branch("secret-conversation", "secret-branch")
    turn = await branch.record_turn(numbered(1))
    span = telemetry.span(RECORD)
    assert dict(span.attributes or {}) == {
        "gen_ai.conversation.id": str(branch.branch_uuid),
        "durable_context.branch.uuid": str(branch.branch_uuid),
        "durable_context.turn": 1,
        "durable_context.turn.tokens": turn.token_count,
        "durable_context.turn.messages": 2,
        "durable_context.turn.outcome": "complete",
        "durable_context.outcome": "recorded",
    }
    assert span.status.status_code is StatusCode.UNSET
    assert not telemetry.children(span)
    assert telemetry.count(DURATION, outcome="recorded") == 1
    assert telemetry.value("durable_context.record.tokens") == turn.token_count


async def test_outside_ids_are_told_only_where_the_policy_exposes_them(
    make_client: Callable[..., Any], telemetry: CapturedTelemetry
) -> None:
    client = await make_client(CompactionPolicy(expose_ids=True), tenant="acme")
    branch = await client.open_branch("talk/1\n" + "x" * 400, "main")
    await branch.record_turn(numbered(1))
    told = dict(telemetry.span(RECORD).attributes or {})
    assert told["gen_ai.conversation.id"] == "talk/1 " + "x" * 113, "as in Temporal"
    assert told["gen_ai.conversation.id"] == branch._request("turn").conversation
    assert told["durable_context.branch.id"] == "main"
    assert told["durable_context.tenant"] == "acme"
    assert told["durable_context.branch.uuid"] == str(branch.branch_uuid)


async def test_a_fork_is_told_from_its_parent(
    client: ContextClient, telemetry: CapturedTelemetry
) -> None:
    branch = await client.open_branch("conversation")
    await branch.record_turn(numbered(1))
    fork = await branch.fork("other")
    await fork.record_turn(numbered(2))
    parents, forks = (dict(span.attributes or {}) for span in telemetry.spans(RECORD))
    assert parents["durable_context.branch.uuid"] == str(branch.branch_uuid)
    assert forks["durable_context.branch.uuid"] == str(fork.branch_uuid)
    assert (parents["durable_context.turn"], forks["durable_context.turn"]) == (1, 2)


async def test_a_repeated_turn_is_told_and_its_tokens_count_once(
    client: ContextClient, telemetry: CapturedTelemetry
) -> None:
    branch = await client.open_branch("conversation")
    messages = [*numbered(1), *exchange("a", LARGE, "read_report")]
    first = await branch.record_turn(messages, turn_key="key")
    kept = telemetry.value("durable_context.artifact.size", source="offloaded")
    await branch.record_turn(messages, turn_key="key")
    outcomes = [(span.attributes or {})["durable_context.outcome"] for span in telemetry.spans()]
    assert outcomes == ["recorded", "repeated"]
    assert telemetry.count(DURATION, outcome="repeated") == 1
    assert telemetry.value("durable_context.record.tokens") == first.token_count
    assert kept == len(LARGE.encode())
    assert telemetry.value("durable_context.artifact.size", source="offloaded") == kept


@pytest.mark.parametrize(
    ("messages", "error"),
    [
        (numbered(2), TurnKeyConflict),
        ([*numbered(2), calling(call("lost", "run"))], IncompleteToolExchange),
    ],
)
async def test_a_turn_that_is_refused_tells_the_kind_of_its_error_and_no_more(
    client: ContextClient,
    telemetry: CapturedTelemetry,
    messages: list[Any],
    error: type[Exception],
) -> None:
    branch = await client.open_branch("conversation")
    await branch.record_turn(numbered(1), turn_key="key")
    telemetry.clear()
    with pytest.raises(error):
        await branch.record_turn(messages, turn_key="key")
    span = telemetry.span(RECORD)
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description is None
    assert not span.events
    assert dict(span.attributes or {}) == {
        "gen_ai.conversation.id": str(branch.branch_uuid),
        "durable_context.branch.uuid": str(branch.branch_uuid),
        "durable_context.outcome": "error",
        "error.type": error.__name__,
    }
    assert telemetry.count(DURATION, outcome="error") == 1
    assert telemetry.value("durable_context.record.tokens") == 0


@pytest.mark.parametrize(
    ("usage", "told"),
    [
        (
            {"prompt_tokens": 90, "completion_tokens": 8, "prompt_tokens_details": None},
            {"input_tokens": 90, "output_tokens": 8},
        ),
        (
            {"input_tokens": 10, "cache_read_input_tokens": 70, "output_tokens": 8},
            {"input_tokens": 80, "output_tokens": 8, "cache_read.input_tokens": 70},
        ),
        (
            {
                "input_tokens": 90,
                "output_tokens": 8,
                "input_tokens_details": {"cached_tokens": 64},
            },
            {"input_tokens": 90, "output_tokens": 8, "cache_read.input_tokens": 64},
        ),
        (
            {
                "promptTokenCount": 90,
                "candidatesTokenCount": 8,
                "thoughtsTokenCount": 30,
                "cachedContentTokenCount": 64,
            },
            {"input_tokens": 90, "output_tokens": 38, "cache_read.input_tokens": 64},
        ),
        ({"prompt_tokens": 10**30, "completion_tokens": "SECRET", "note": "SECRET"}, {}),
    ],
)
async def test_usage_is_told_by_the_names_of_the_conventions(
    client: ContextClient,
    telemetry: CapturedTelemetry,
    usage: dict[str, Any],
    told: dict[str, int],
) -> None:
    branch = await client.open_branch("conversation")
    await branch.record_turn(numbered(1), usage=usage)
    attributes = dict(telemetry.span(RECORD).attributes or {})
    prefix = "gen_ai.usage."
    assert {
        name.removeprefix(prefix): value
        for name, value in attributes.items()
        if name.startswith(prefix)
    } == told
    assert "SECRET" not in telemetry.everything()


async def test_a_turn_belongs_to_what_its_caller_is_doing(
    client: ContextClient, telemetry: CapturedTelemetry
) -> None:
    branch = await client.open_branch("conversation")
    with trace.get_tracer("agent").start_as_current_span("agent step"):
        await branch.record_turn(numbered(1))
        assert trace.get_current_span().get_span_context().is_valid
    assert telemetry.children(telemetry.span("agent step")) == (telemetry.span(RECORD),)


async def test_an_artifact_that_is_put_counts_with_its_bytes(
    client: ContextClient, telemetry: CapturedTelemetry
) -> None:
    branch = await client.open_branch("conversation")
    await branch.put_artifact(LARGE, name="report")
    await branch.put_artifact(b"\x00" * 1_000, name="blob")
    assert telemetry.value("durable_context.artifact.size", source="put") == len(LARGE) + 1_000
