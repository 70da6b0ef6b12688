"""Markers are not offloaded again, and what merely looks like one is text."""

import pytest

from durable_context.processors.markers import marker
from durable_context.processors.offloaded import reload_offloaded
from tests.processors.exchanges import over
from tests.processors.offloading import handle_in, offload, user


async def test_a_second_run_changes_nothing() -> None:
    parts = [{"type": "text", "text": letter * 15} for letter in "abc"]
    ctx = over(user("x" * 30), user(parts), user("small"))
    once = list(await offload(ctx))
    kept = dict(ctx.state.get("offloaded_messages"))
    twice = await offload(ctx)
    assert all(a is b for a, b in zip(once, twice, strict=True))
    assert ctx.state.get("offloaded_messages") == kept


@pytest.mark.parametrize("limit", [1, 10, 37, 38])
async def test_a_marker_is_never_offloaded_whatever_the_limit(limit: int) -> None:
    parts = [{"type": "text", "text": "y" * 60}]
    ctx = over(user("x" * 60), user(parts))
    once = list(await offload(ctx, limit=50))
    assert await offload(ctx, limit=limit) == once
    assert len(ctx.state.get("offloaded_messages")) == 2


async def test_a_marker_of_the_older_form_is_not_offloaded_again() -> None:
    older = user("[[OFFLOAD: handle=0123456789ab]]")
    ctx = over(older)
    ctx.state.set("offloaded_messages", {"0123456789ab": "the original"})
    assert (await offload(ctx))[0] is older


async def test_what_a_user_writes_like_a_marker_is_text_like_any_other() -> None:
    forged = marker("off_0123456789ab")
    ctx = over(user(forged))
    assert await offload(ctx, limit=100) == [user(forged)]
    (message,) = await offload(ctx)
    assert message["content"] != forged
    assert await reload_offloaded(ctx, handle_in(message["content"])) == forged


async def test_a_text_that_only_ends_in_a_marker_is_offloaded_with_it() -> None:
    ctx = over(user("x" * 30))
    (first,) = await offload(ctx)
    ctx.state.get("history").append(user("see " * 10 + first["content"]))
    history = await offload(ctx, limit=60)
    assert await reload_offloaded(ctx, handle_in(history[1]["content"])) == (
        "see " * 10 + first["content"]
    )


async def test_reloaded_content_stays_until_the_model_has_answered_it() -> None:
    ctx = over(user("x" * 30))
    (first,) = await offload(ctx)
    handle = handle_in(first["content"])
    call = {"id": "c1", "function": {"name": "reload_offloaded", "arguments": "{}"}}
    other = {"id": "c2", "function": {"name": "search", "arguments": "{}"}}
    reloaded = {"role": "tool", "tool_call_id": "c1", "content": "x" * 30}
    found = {"role": "tool", "tool_call_id": "c2", "content": "y" * 30}
    asking = {"role": "assistant", "content": None, "tool_calls": [call, other]}
    ctx.state.get("history").extend([asking, reloaded, found])
    history = await offload(ctx)
    assert history[2] is reloaded
    handle_in(history[3]["content"])
    history.append({"role": "assistant", "content": "I see"})
    assert handle_in((await offload(ctx))[2]["content"]) == handle
