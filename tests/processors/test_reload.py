"""What was offloaded is read again by its handle."""

import json
from typing import Any

import pytest

from durable_context.errors import ContextError
from durable_context.processors.checkpoints import Checkpoint
from durable_context.processors.context import Context
from durable_context.processors.message_offloader import MessageOffloader
from durable_context.processors.offloaded import reload_offloaded


def holding(key: str, value: Any) -> Context:
    ctx = Context("task-1")
    ctx.state.set(key, value)
    return ctx


async def test_a_known_handle_gives_the_whole_content() -> None:
    ctx = holding("offloaded_messages", {"off_0123456789ab": "original " * 10_000})
    assert await reload_offloaded(ctx, "off_0123456789ab") == "original " * 10_000


@pytest.mark.parametrize("handle", ["off_abc123", "0123456789ab"])
async def test_handles_of_the_seeds_example_and_of_older_states_are_found(handle: str) -> None:
    ctx = holding("offloaded_messages", {handle: "original"})
    assert await reload_offloaded(ctx, handle) == "original"


async def test_an_empty_content_is_a_content() -> None:
    assert await reload_offloaded(holding("offloaded_messages", {"off_1": ""}), "off_1") == ""


async def test_the_content_of_a_tool_result_is_found_by_its_handle() -> None:
    entry = {"handle": "off_0123456789ab", "content": "rows"}
    ctx = holding("offloaded_results", [{"content": "of an older state"}, entry])
    assert await reload_offloaded(ctx, "off_0123456789ab") == "rows"


async def test_an_unknown_handle_is_an_error_that_names_it() -> None:
    with pytest.raises(ContextError, match="no offloaded content of handle 'off_0123456789ab'"):
        await reload_offloaded(Context("task-1"), "off_0123456789ab")


@pytest.mark.parametrize("handle", ["", None, 7, ["off_0123456789ab"], b"off_0123456789ab"])
async def test_what_can_be_no_handle_is_an_error_that_names_it(handle: Any) -> None:
    with pytest.raises(ContextError, match="must be text, such as 'off_0123456789ab'"):
        await reload_offloaded(holding("offloaded_messages", {"off_1": "x"}), handle)


@pytest.mark.parametrize("handle", ["../../etc/passwd", "off_" + "z" * 5000, "off_\0", "%s"])
async def test_hostile_handles_are_unknown_and_the_error_stays_short(handle: str) -> None:
    with pytest.raises(ContextError) as raised:
        await reload_offloaded(Context("task-1"), handle)
    assert len(str(raised.value)) < 200


async def test_a_handle_of_another_context_is_unknown() -> None:
    holding("offloaded_messages", {"off_0123456789ab": "secret"})
    with pytest.raises(ContextError):
        await reload_offloaded(Context("task-2"), "off_0123456789ab")


async def test_a_state_that_holds_something_else_is_an_error_that_says_so() -> None:
    with pytest.raises(ContextError, match=r"offloaded_messages.*\['x'\].*must be a dict"):
        await reload_offloaded(holding("offloaded_messages", ["x"]), "off_0123456789ab")


async def test_a_restored_checkpoint_still_finds_what_was_offloaded() -> None:
    ctx = holding("history", [{"role": "user", "content": "x" * 50}])
    await MessageOffloader(max_message_size=10).process(ctx, {})
    written = json.dumps(ctx.snapshot().to_dict())
    restored = Context.restore(Checkpoint.from_dict(json.loads(written)))
    (handle,) = restored.state.get("offloaded_messages")
    assert await reload_offloaded(restored, handle) == "x" * 50
