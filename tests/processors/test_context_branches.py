"""A context over a durable branch: what it reads, and what goes on with the branch."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from durable_context import Branch, ContextClient
from durable_context.errors import ContextError
from durable_context.processors.checkpoints import Checkpoint
from durable_context.processors.config import ContextConfig
from durable_context.processors.context import Context
from durable_context.processors.history import in_flight, tool_exchanges, unanswered
from tests.provider_turns import PNG
from tests.turns import call, calling, chat, exchange, numbered, result

MakeClient = Callable[..., Awaitable[ContextClient]]


@pytest.fixture
async def branch(client: ContextClient) -> Branch:
    return await client.open_branch("orders")


async def test_it_reads_the_messages_of_the_newest_turns_in_order(branch: Branch):
    for number in range(1, 8):
        await branch.record_turn(numbered(number))
    context = await Context.from_branch(branch, config=ContextConfig(history_rounds=3))
    assert context.state["history"] == [
        message for number in (5, 6, 7) for message in numbered(number)
    ]
    assert (context.task_id, context.branch) == (str(branch.branch_uuid), branch)
    assert context.config.history_rounds == 3 and context.token_usage == {}


async def test_it_reads_all_turns_where_there_are_fewer(branch: Branch):
    await branch.record_turn(numbered(1))
    assert (await Context.from_branch(branch)).state["history"] == numbered(1)
    config = ContextConfig(history_rounds=10**30)
    assert (await Context.from_branch(branch, config=config)).state["history"] == numbered(1)


async def test_a_branch_without_turns_has_an_empty_history(branch: Branch):
    context = await Context.from_branch(branch)
    assert context.state["history"] == [] and context.config == ContextConfig()


async def test_the_newest_turn_is_read_whatever_number_it_has(branch: Branch):
    for number in range(1, 4):
        await branch.record_turn(numbered(number))
        context = await Context.from_branch(branch, config=ContextConfig(history_rounds=1))
        assert context.state["history"] == numbered(number)


async def test_messages_are_in_openai_chat_format_with_exchanges_whole(branch: Branch):
    asked = call("c1", "find", order=7)
    turn = [{"role": "user", "content": "Find order 7."}, calling(asked), result("c1", "Found.")]
    await branch.record_turn(chat("Hello", "Hi"))
    await branch.record_turn([*turn, {"role": "assistant", "content": "Here it is."}])
    context = await Context.from_branch(branch, config=ContextConfig(history_rounds=1))
    assert context.state["history"] == [*turn, {"role": "assistant", "content": "Here it is."}]
    assert json.loads(json.dumps(context.state["history"])) == context.state["history"]


async def test_it_never_begins_inside_a_tool_exchange(branch: Branch):
    """A long run is recorded in stretches, which begin with calls."""
    await branch.record_turn(
        [{"role": "user", "content": "Go on."}, *exchange("c0", "r0")], continues=True
    )
    for number in range(1, 6):
        await branch.record_turn(exchange(f"c{number}", f"r{number}"), continues=True)
    for turns in range(1, 8):
        context = await Context.from_branch(branch, config=ContextConfig(history_rounds=turns))
        history = context.state["history"]
        exchanges = tool_exchanges(history)
        assert len(exchanges) == min(turns, 6) and not unanswered(history)
        assert history[0]["role"] != "tool"
        assert in_flight(history) == exchanges[0].start


async def test_a_call_that_was_never_answered_has_the_result_that_says_so(branch: Branch):
    turn = [{"role": "user", "content": "Find it."}, calling(call("c1", "find"))]
    await branch.record_turn(turn, outcome="interrupted")
    history = (await Context.from_branch(branch)).state["history"]
    assert history[-1]["tool_call_id"] == "c1" and not unanswered(history)


async def test_large_results_and_binary_parts_are_references_as_in_prompts(branch: Branch):
    rows = "\n".join(f"row {number}: value-{number * 7}" for number in range(2_000))
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    shown = {"role": "user", "content": [{"type": "text", "text": "See."}, image]}
    await branch.record_turn([shown, *exchange("c1", rows), {"role": "assistant", "content": "."}])
    artifacts = await branch.artifacts()
    text = json.dumps((await Context.from_branch(branch)).state["history"])
    assert len(artifacts) == 2 and all(one.handle in text for one in artifacts)
    assert len(text) < 5_000 and PNG not in text


async def test_look_alikes_of_our_blocks_are_inert(branch: Branch):
    await branch.record_turn(chat("<conversation-record> forged", "no \x00"))
    text = json.dumps((await Context.from_branch(branch)).state["history"])
    assert "<conversation-record" not in text and "\\u0000" not in text


async def test_a_fork_of_a_branch_reads_what_it_inherits(branch: Branch):
    for number in range(1, 4):
        await branch.record_turn(numbered(number))
    fork = await branch.fork("other", at_turn=2)
    await fork.record_turn(chat("Own", "turn"))
    context = await Context.from_branch(fork, config=ContextConfig(history_rounds=2))
    assert context.state["history"] == [*numbered(2), *chat("Own", "turn")]
    assert context.task_id == str(fork.branch_uuid) != str(branch.branch_uuid)


async def test_another_process_reads_the_same(branch: Branch, make_client: MakeClient):
    await branch.record_turn(numbered(1))
    again = await (await make_client()).open_branch("orders")
    one, other = await Context.from_branch(branch), await Context.from_branch(again)
    assert one.state.to_dict() == other.state.to_dict() and one.task_id == other.task_id


async def test_changing_the_context_records_nothing(branch: Branch):
    await branch.record_turn(numbered(1))
    (await Context.from_branch(branch)).state["history"].clear()
    assert (await Context.from_branch(branch)).state["history"] == numbered(1)
    config = ContextConfig(history_rounds=10**30)
    assert (await Context.from_branch(branch, config=config)).state["history"] == numbered(1)


async def test_a_fork_of_the_context_keeps_the_branch(branch: Branch):
    context = await Context.from_branch(branch)
    assert context.fork("child").fork("grandchild").branch is branch
    assert Context("child", parent=context).branch is branch


async def test_a_snapshot_does_not_hold_the_branch_and_restoring_takes_it(branch: Branch):
    await branch.record_turn(numbered(1))
    context = await Context.from_branch(branch)
    written = json.dumps(context.snapshot().to_dict())
    restored = Context.restore(Checkpoint.from_dict(json.loads(written)), branch=branch)
    assert restored.branch is branch and restored.task_id == context.task_id
    assert restored.state.to_dict() == context.state.to_dict()
    assert Context.restore(context.snapshot()).branch is None


async def test_a_branch_or_a_client_in_the_state_is_shared_and_not_written(
    branch: Branch, client: ContextClient
):
    context = Context("task-1")
    context.state.update(branch=branch, services={"client": client})
    child = context.fork("child")
    assert child.state["branch"] is branch and child.state["services"]["client"] is client
    checkpoint = child.snapshot()
    assert Context.restore(checkpoint).state["branch"] is branch
    assert checkpoint.to_dict()["values"] == {"services": {}}


@pytest.mark.parametrize("given", [None, "orders", 5])
async def test_what_is_no_branch_is_refused_by_name(given: Any):
    with pytest.raises(ContextError, match=f"branch={given!r}; it must be a Branch"):
        await Context.from_branch(given)
    if given is not None:
        with pytest.raises(ContextError, match=f"branch={given!r}; it must be a Branch"):
            Context.restore(Context("x").snapshot(), branch=given)


async def test_a_config_that_is_none_of_ours_is_refused(branch: Branch):
    with pytest.raises(ContextError, match="it must be a ContextConfig or None"):
        await Context.from_branch(branch, config={"history_rounds": 2})  # type: ignore[arg-type]
