"""A context: what it is made of, tokens, snapshots and what they restore."""

from typing import Any

import pytest

from durable_context.errors import CheckpointError, ContextError
from durable_context.processors.checkpoints import Checkpoint
from durable_context.processors.config import ContextConfig
from durable_context.processors.context import Context
from durable_context.processors.history import Record
from durable_context.processors.pipeline import ContextProcessor, ProcessorPipeline
from durable_context.processors.state import ContextState


class Client:
    """A service handle."""


@pytest.mark.parametrize("task_id", ["", None, 5])
def test_a_context_needs_a_task(task_id: Any):
    with pytest.raises(ContextError, match=r"^task_id is required and must be non-empty$"):
        Context(task_id)


def test_a_new_context_is_empty():
    context = Context("task-1")
    assert (context.task_id, context.config, context.parent) == ("task-1", ContextConfig(), None)
    assert (context.children, context.token_usage, context.branch) == ([], {}, None)
    assert len(context.state) == len(context.checkpoints) == 0


def test_a_state_and_a_config_are_used_as_they_are():
    state, config = ContextState(), ContextConfig(history_rounds=5)
    parent = Context("parent", state=ContextState({"x": 1}))
    context = Context("task-1", config=config, parent=parent, state=state)
    assert context.state is state and context.config is config
    assert context.parent is parent and "x" not in state


def test_the_config_is_the_parents_where_none_is_given():
    parent = Context("parent", config=ContextConfig(history_rounds=5))
    assert Context("child", parent=parent).config is parent.config
    assert Context("child", parent=parent, config=ContextConfig()).config == ContextConfig()


def test_a_context_made_with_a_parent_is_as_isolated_as_a_fork():
    parent = Context("parent", state=ContextState({"seen": [1]}))
    child = Context("child", parent=parent)
    parent.state["later"] = 1
    child.state["seen"].append(2)
    assert child.state.to_dict() == {"seen": [1, 2]} and parent.state["seen"] == [1]
    assert parent.children == []
    parent.merge(child)
    assert parent.state.to_dict() == {"seen": [1, 2], "later": 1}


@pytest.mark.parametrize("name", ["config", "parent", "state"])
def test_what_a_context_cannot_be_made_of_is_refused_by_name(name: str):
    with pytest.raises(ContextError, match=rf"{name}=\{{'x': 1\}}; it must be a Context"):
        Context("task-1", **{name: {"x": 1}})


def test_lists_of_a_context_are_copies():
    context = Context("task-1")
    context.add_tokens({"prompt": 1})
    context.children.append(context)
    context.token_usage["prompt"] = 9
    assert context.children == [] and context.token_usage == {"prompt": 1}


def test_tokens_accumulate():
    context = Context("task-1")
    context.add_tokens({"prompt": 100})
    context.add_tokens({"prompt": 50, "output": 30, "none": 0})
    assert context.token_usage == {"prompt": 150, "output": 30, "none": 0}


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt": 1, "output": -5}, "output=-5; it must be a whole number, from 0"),
        ({"prompt": 1, "output": True}, "output=True"),
        ({"prompt": 1, "output": 1.5}, "output=1.5"),
        ({"prompt": 1, "output": None}, "output=None"),
        ({"prompt": 1, 5: 1}, "a key 5; keys must be text"),
        ([("prompt", 1)], "must be a dict of counts"),
        (None, "token_usage=None"),
    ],
)
def test_tokens_that_cannot_be_are_refused_and_none_are_added(usage: Any, expected: str):
    context = Context("task-1")
    with pytest.raises(ContextError, match=expected):
        context.add_tokens(usage)
    assert context.token_usage == {}


def test_its_repr_names_a_parent_and_counts_children_where_there_are_any():
    parent = Context("parent")
    child = parent.fork("child")
    child.fork("one"), child.fork("two")
    assert repr(Context("task-1")) == "Context(task_id='task-1')"
    assert repr(parent) == "Context(task_id='parent', children=1)"
    assert repr(child) == "Context(task_id='child', parent='parent', children=2)"


def test_a_snapshot_holds_state_and_tokens_as_they_were():
    context = Context("main", state=ContextState({"x": [1]}))
    context.add_tokens({"prompt": 5})
    first = context.snapshot(metadata={"step": 3})
    context.state["x"].append(2)
    context.state["y"] = 1
    context.add_tokens({"prompt": 5})
    second = context.snapshot()
    assert (first.task_id, first.version, first.metadata) == ("main", 1, {"step": 3})
    assert (first.values, first.token_usage) == ({"x": [1]}, {"prompt": 5})
    assert (second.version, second.values) == (2, {"x": [1, 2], "y": 1})
    assert second.token_usage == {"prompt": 10}
    assert [context.checkpoints.get(1), context.checkpoints.latest] == [first, second]


def test_a_snapshot_of_a_fork_holds_what_it_inherits():
    parent = Context("parent", state=ContextState({"shared": 1}))
    parent.snapshot()
    child = parent.fork("child")
    child.state["own"] = 2
    assert child.snapshot().values == {"shared": 1, "own": 2}
    assert len(child.checkpoints) == len(parent.checkpoints) == 1


def test_restoring_makes_a_new_context_and_changes_no_other():
    context = Context("main", state=ContextState({"x": [1]}))
    context.add_tokens({"prompt": 5})
    checkpoint = context.snapshot()
    context.state["x"].append(2)
    restored = context.restore(checkpoint)
    restored.state["x"].append(3)
    restored.add_tokens({"prompt": 1})
    assert context.state["x"] == [1, 2] and context.token_usage == {"prompt": 5}
    assert restored.state["x"] == [1, 3] and restored.token_usage == {"prompt": 6}
    assert checkpoint.values == {"x": [1]} and checkpoint.token_usage == {"prompt": 5}
    assert restored.task_id == "main" and len(restored.checkpoints) == 0


def test_a_restored_fork_has_no_parent_and_all_it_saw():
    parent = Context("parent", config=ContextConfig(history_rounds=5))
    parent.state["shared"] = 1
    child = parent.fork("child")
    child.state["own"] = 2
    restored = Context.restore(child.snapshot())
    assert (restored.parent, restored.children) == (None, [])
    assert restored.state.local_dict() == {"shared": 1, "own": 2}
    assert restored.config == ContextConfig()
    assert Context.restore(child.snapshot(), config=child.config).config is parent.config


def test_a_restored_context_keeps_service_handles_and_the_type_of_our_blocks():
    client = Client()
    context = Context("main")
    context.state.update(client=client, nested={"client": [client]}, history=[Record(role="user")])
    restored = Context.restore(context.snapshot())
    assert restored.state["client"] is restored.state["nested"]["client"][0] is client
    assert type(restored.state["history"][0]) is Record


def test_a_restored_context_goes_on_from_json():
    context = Context("main", state=ContextState({"todos": [{"item": "a", "done": False}]}))
    context.add_tokens({"prompt": 42})
    restored = Context.restore(Checkpoint.from_dict(context.snapshot().to_dict()))
    assert restored.state.to_dict() == context.state.to_dict()
    assert restored.token_usage == {"prompt": 42}


@pytest.mark.parametrize(("given", "name"), [({}, "dict"), ("x", "str"), (None, "NoneType")])
def test_only_a_checkpoint_can_be_restored(given: Any, name: str):
    with pytest.raises(CheckpointError, match=f"^Expected Checkpoint, got {name}$"):
        Context.restore(given)


class Failing(ContextProcessor):
    """Changes the history in place, then fails."""

    async def process(self, ctx: Context, payload: dict[str, Any]) -> None:
        ctx.state["history"][0]["content"] = "gone"
        ctx.state["history"].clear()
        raise RuntimeError("the model is down")


async def test_a_snapshot_undoes_what_a_pipeline_did_before_it_failed():
    history = [{"role": "user", "content": "Hello"}]
    context = Context("main", state=ContextState({"history": history}))
    before = context.snapshot()
    with pytest.raises(RuntimeError, match=r"^the model is down$"):
        await ProcessorPipeline().register(Failing("pre_llm_call")).fire("pre_llm_call", context)
    assert context.state["history"] == []
    restored = Context.restore(before)
    assert restored.state["history"] == [{"role": "user", "content": "Hello"}]
