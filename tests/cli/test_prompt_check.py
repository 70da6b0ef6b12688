"""What a replay says is wrong with a prompt."""

from typing import Any

import pytest

from durable_context import Branch, Budget, ContextClient, PreparedContext
from durable_context.cli.prompt_check import problems_of
from tests.turns import call, calling, chat, result

RUN = [{"role": "user", "content": "Go."}, calling(call("c1", "run")), result("c1", "done")]


@pytest.fixture
async def prepared(client: ContextClient) -> PreparedContext:
    branch = await client.open_branch("orders")
    await branch.record_turn(RUN)
    await branch.record_turn(chat("Where is it?", "In Rotterdam."))
    return await _prepared(branch)


async def _prepared(branch: Branch) -> PreparedContext:
    made = await branch.prepare("And now?", budget=Budget(max_tokens=5_000))
    assert isinstance(made, PreparedContext)
    return made


def _with(prepared: PreparedContext, messages: list[dict[str, Any]]) -> PreparedContext:
    return prepared.model_copy(update={"messages": tuple(messages)})


def test_a_prompt_as_it_is_prepared_has_no_problems(prepared: PreparedContext):
    assert problems_of(prepared, 2) == ()


def test_turns_that_are_missing_or_too_many_are_noticed(prepared: PreparedContext):
    assert problems_of(prepared, 3) == ("turns 1–3 are not there once each, in order",)
    blocks = prepared.manifest.blocks
    twice = prepared.manifest.model_copy(update={"blocks": (blocks[0], *blocks)})
    doubled = prepared.model_copy(update={"manifest": twice})
    assert "turns 1–2 are not there once each, in order" in problems_of(doubled, 2)


def test_calls_and_results_that_are_apart_are_noticed(prepared: PreparedContext):
    messages = list(prepared.messages)
    position = next(n for n, message in enumerate(messages) if message["role"] == "tool")
    no_result = _with(prepared, messages[:position] + messages[position + 1 :])
    assert "calls without a result: ['c1']" in problems_of(no_result, 2)
    no_call = _with(prepared, messages[: position - 1] + messages[position:])
    assert "a result without its call 'c1'" in problems_of(no_call, 2)


def test_tokens_that_are_counted_wrong_or_over_budget_are_noticed(prepared: PreparedContext):
    tokens = prepared.token_count
    wrong = prepared.model_copy(update={"token_count": tokens + 1})
    assert problems_of(wrong, 2) == (
        f"{tokens + 1} tokens, and {tokens} in its blocks",
        f"{tokens + 1} tokens, and {tokens} in its messages",
    )
    small = prepared.model_copy(update={"budget": Budget(max_tokens=tokens - 1)})
    assert problems_of(small, 2) == (f"{tokens} tokens of {tokens - 1}",)


def test_messages_no_provider_takes_are_noticed(prepared: PreparedContext):
    said = [dict(message) for message in prepared.messages]
    said[-1]["content"] = ""
    assert f"message {len(said) - 1} of the user is empty" in problems_of(_with(prepared, said), 2)
    said[-1]["content"] = "\ud800"
    problems = problems_of(_with(prepared, said), 2)
    assert f"message {len(said) - 1} cannot be sent as UTF-8" in problems
