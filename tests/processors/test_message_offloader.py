"""Oversized messages become markers, and nothing else changes."""

from types import SimpleNamespace
from typing import Any

import pytest

from durable_context.errors import ProcessorError
from durable_context.models import Message
from durable_context.processors.context import Context
from durable_context.processors.history import Record
from durable_context.processors.markers import handle_of
from durable_context.processors.message_offloader import MessageOffloader
from durable_context.processors.offloaded import reload_offloaded
from durable_context.processors.state import ContextState
from tests.processors.exchanges import over
from tests.processors.offloading import handle_in, offload, user


def test_it_has_the_seeds_defaults() -> None:
    offloader = MessageOffloader()
    assert offloader.event == "pre_llm_call"
    assert offloader.name == "message_offloader"
    assert offloader.max_message_size == 10_000
    assert repr(offloader) == "MessageOffloader(event='pre_llm_call', name='message_offloader')"


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "10", None])
def test_a_limit_that_is_no_whole_number_from_1_is_refused(wrong: Any) -> None:
    with pytest.raises(ProcessorError, match=r"max_message_size=.*whole number from 1"):
        MessageOffloader(max_message_size=wrong)


def test_what_cannot_keep_artifacts_is_refused() -> None:
    with pytest.raises(ProcessorError, match=r"artifacts='here'; it must be a branch or None"):
        MessageOffloader(artifacts="here")  # type: ignore[arg-type]


def test_it_is_pure_while_it_keeps_contents_in_the_state() -> None:
    assert MessageOffloader().pure


async def test_without_a_history_nothing_is_written() -> None:
    ctx = Context("task-1")
    await MessageOffloader().process(ctx, {})
    assert ctx.state.to_dict() == {}


async def test_messages_within_the_limit_are_untouched() -> None:
    small = [user("x" * 20), {"role": "assistant", "content": "short"}]
    ctx = over(*small)
    history = await offload(ctx)
    assert history[0] is small[0]
    assert history[1] is small[1]
    assert "offloaded_messages" not in ctx.state


@pytest.mark.parametrize("role", ["user", "assistant", "tool"])
async def test_an_oversized_message_is_replaced_by_a_marker_and_its_content_kept(role: str) -> None:
    ctx = over({"role": role, "content": "x" * 21})
    (message,) = await offload(ctx)
    assert message["role"] == role
    assert ctx.state.get("offloaded_messages") == {handle_in(message["content"]): "x" * 21}


@pytest.mark.parametrize("role", ["system", "developer", "function"])
async def test_system_messages_and_unknown_roles_are_never_offloaded(role: str) -> None:
    original = {"role": role, "content": "x" * 50}
    ctx = over(original)
    assert await offload(ctx) == [original]
    assert "offloaded_messages" not in ctx.state


async def test_our_own_blocks_are_never_offloaded() -> None:
    block = Record(user("x" * 50))
    assert (await offload(over(block)))[0] is block


async def test_only_the_oversized_of_several_are_replaced_each_by_its_own_handle() -> None:
    history = await offload(over(user("small"), user("x" * 30), user("y" * 30)))
    assert history[0] == user("small")
    assert handle_in(history[1]["content"]) != handle_in(history[2]["content"])


async def test_the_same_content_has_one_handle() -> None:
    ctx = over(user("x" * 30), {"role": "assistant", "content": "x" * 30})
    history = await offload(ctx)
    assert history[0]["content"] == history[1]["content"]
    assert len(ctx.state.get("offloaded_messages")) == 1


async def test_the_same_state_gives_the_same_bytes_and_another_task_other_handles() -> None:
    first, again = await offload(over(user("x" * 30))), await offload(over(user("x" * 30)))
    elsewhere = await offload(over(user("x" * 30), task_id="task-2"))
    assert first == again
    assert first != elsewhere


async def test_two_contents_of_one_handle_get_two() -> None:
    one, other = (f"a message that is too long {number}" for number in (96917, 19142319))
    assert handle_of(one, "task-1") == handle_of(other, "task-1")
    ctx = over(user(one), user(other), user(one))
    history = await offload(ctx)
    assert history[0] == history[2] != history[1]
    for message, content in zip(history, (one, other, one), strict=True):
        assert await reload_offloaded(ctx, handle_in(message["content"])) == content
    history.append(user(other))
    assert (await offload(ctx))[3] == history[1]


async def test_all_else_of_a_message_stays() -> None:
    calls = [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}]
    asking = {"role": "assistant", "content": "x" * 30, "tool_calls": calls, "name": "planner"}
    result = {"role": "tool", "content": "y" * 30, "tool_call_id": "c1", "cached": True}
    history = await offload(over(asking, result, user("and now?")))
    assert history[0] == asking | {"content": history[0]["content"]}
    assert history[1] == result | {"content": history[1]["content"]}
    handle_in(history[0]["content"])
    handle_in(history[1]["content"])


async def test_the_message_itself_never_changes() -> None:
    original = user("x" * 30)
    ctx = over(original)
    assert (await offload(ctx))[0] is not original
    assert original == user("x" * 30)


async def test_the_callers_list_is_the_one_that_changes() -> None:
    ctx = Context("task-1")
    mine = [user("x" * 30)]
    ctx.state.set("history", mine)
    await offload(ctx)
    handle_in(mine[0]["content"])


@pytest.mark.parametrize("content", [None, ""])
async def test_a_message_without_content_is_passed_over(content: Any) -> None:
    calls = [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}]
    asking = {"role": "assistant", "content": content, "tool_calls": calls}
    assert await offload(over(asking), limit=1) == [asking]


async def test_of_parts_the_largest_texts_go_until_the_rest_is_within_the_limit() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 500}}
    parts = [
        {"type": "text", "text": "a" * 15},
        image,
        {"type": "text", "text": "b" * 40, "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "c" * 30},
    ]
    ctx = over(user(parts))
    (message,) = await offload(ctx)
    first, second, third, fourth = message["content"]
    assert (first, second) == (parts[0], image)
    assert third == parts[2] | {"text": third["text"]}
    assert await reload_offloaded(ctx, handle_in(third["text"])) == "b" * 40
    assert await reload_offloaded(ctx, handle_in(fourth["text"])) == "c" * 30
    assert parts[2]["text"] == "b" * 40, "the part itself never changes"


async def test_parts_whose_text_is_within_the_limit_stay_however_large_the_image() -> None:
    image = {"type": "image_url", "image_url": {"url": "A" * 500}}
    message = user([{"type": "text", "text": "a" * 20}, image])
    assert (await offload(over(message)))[0] is message


async def test_message_objects_are_replaced_by_changed_copies() -> None:
    ours = Message(role="user", content="x" * 30)
    parts = Message(role="user", content=({"type": "text", "text": "y" * 30},))
    theirs = SimpleNamespace(role="assistant", content="z" * 30, refusal=None)
    history = await offload(over(ours, parts, theirs))
    handle_in(history[0].content)
    handle_in(history[1].content[0]["text"])
    handle_in(history[2].content)
    assert (ours.content, theirs.content) == ("x" * 30, "z" * 30)
    assert isinstance(history[1].content, tuple)


async def test_content_that_is_no_text_is_kept_as_json_and_not_as_repr() -> None:
    ctx = over({"role": "tool", "content": {"ok": True, "city": "Zürich", "n": None}})
    (message,) = await offload(ctx)
    kept = await reload_offloaded(ctx, handle_in(message["content"]))
    assert kept == '{"ok": true, "city": "Zürich", "n": null}'


@pytest.mark.parametrize("text", ["\ud800" * 30, "\0" * 30, "𝔘" * 30, "<|endoftext|>" * 3])
async def test_odd_characters_come_back_as_they_are(text: str) -> None:
    ctx = over(user(text))
    (message,) = await offload(ctx)
    assert await reload_offloaded(ctx, handle_in(message["content"])) == text


async def test_a_forked_child_offloads_its_own_history_and_never_its_parents() -> None:
    parent = over(user("x" * 30))
    before = parent.state.to_dict()["history"][0]
    child = parent.fork("child")
    (theirs,) = await offload(child)
    handle_in(theirs["content"])
    assert parent.state.get("history") == [before]
    assert "offloaded_messages" not in parent.state
    assert parent.state.get("history")[0] is before


async def test_a_child_finds_what_its_parent_offloaded_and_adds_to_a_dict_of_its_own() -> None:
    parent = over(user("x" * 30))
    (first,) = await offload(parent)
    child = parent.fork("child")
    child.state.set("history", [*child.state.get("history"), user("y" * 30)])
    history = await offload(child)
    assert history[0]["content"] == first["content"]
    assert await reload_offloaded(child, handle_in(first["content"])) == "x" * 30
    assert len(child.state.get("offloaded_messages")) == 2
    assert len(parent.state.get("offloaded_messages")) == 1


async def test_a_state_that_shares_its_parents_dict_does_not_change_it() -> None:
    parent = over(user("x" * 30))
    await offload(parent)
    child = Context("child", state=ContextState(parent=parent.state))
    child.state.set("history", [user("y" * 30)])
    await offload(child)
    assert len(parent.state.get("offloaded_messages")) == 1


async def test_a_history_that_is_none_is_refused_and_nothing_changes() -> None:
    ctx = over(user("x" * 30), {"content": "no role"})
    with pytest.raises(ProcessorError, match="no role"):
        await offload(ctx)
    assert ctx.state.get("history")[0] == user("x" * 30)
    assert "offloaded_messages" not in ctx.state
