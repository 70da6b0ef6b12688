"""A merge brings back what a child did, once, and leaves what the parent did meanwhile."""

import re
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel

from durable_context.errors import ContextError
from durable_context.processors import (
    MessageOffloader,
    ProcessorPipeline,
    ToolResultOffloader,
    reload_offloaded,
)
from durable_context.processors.context import Context
from durable_context.processors.history import Record
from durable_context.processors.state import ContextState


class Client:
    """A service handle."""


class Note(BaseModel):
    lines: list[str]


@dataclass
class Task:
    done: list[str] = field(default_factory=list)
    client: Client | None = None


def context(**entries: Any) -> Context:
    return Context("parent", state=ContextState(entries))


def test_a_merge_brings_what_the_child_wrote_and_changed_in_place():
    parent = context(seen=["a"], kept=1)
    child = parent.fork("child")
    child.state["seen"].append("b")
    child.state["new"] = [1]
    parent.merge(child)
    assert parent.state.to_dict() == {"seen": ["a", "b"], "kept": 1, "new": [1]}


def test_what_was_merged_is_a_copy():
    parent, client = context(), Client()
    child = parent.fork("child")
    child.state["new"] = {"list": [1], "client": client}
    parent.merge(child)
    parent.state["new"]["list"].append(2)
    child.state["new"]["list"].append(3)
    assert (parent.state["new"]["list"], child.state["new"]["list"]) == ([1, 2], [1, 3])
    assert parent.state["new"]["client"] is client


def test_an_entry_the_child_set_replaces_the_parents_even_with_what_it_inherited():
    parent = context(x=1)
    child = parent.fork("child")
    parent.state["x"] = 2
    child.state["x"] = 1
    parent.merge(child)
    assert parent.state["x"] == 1


def test_what_the_child_left_as_it_was_replaces_nothing():
    parent = context(x=[1], y={"n": float("nan")}, client=Client())
    child = parent.fork("child")
    parent.state["x"].append(2)
    parent.state["y"] = "newer"
    parent.merge(child)
    assert parent.state["x"] == [1, 2] and parent.state["y"] == "newer"


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state["d"].update(b=state["d"].pop("b"), a=state["d"].pop("a")),
        lambda state: state["d"].update(a=True),
        lambda state: state["d"].update(a=1.0),
        lambda state: state["s"].add(2),
        lambda state: state["task"].done.append("x"),
        lambda state: state["note"].lines.append("x"),
        lambda state: setattr(state["task"], "client", Client()),
        lambda state: state["history"].__setitem__(0, dict(state["history"][0])),
    ],
)
def test_the_smallest_change_in_place_is_merged(change: Any):
    parent = context(
        d={"a": 1, "b": 2}, s={1}, task=Task(), note=Note(lines=[]), history=[Record(role="user")]
    )
    child = parent.fork("child")
    change(child.state)
    parent.merge(child)
    assert repr(parent.state.to_dict()) == repr(child.state.to_dict())
    assert type(parent.state["history"][0]) is type(child.state["history"][0])


def test_merging_twice_adds_nothing():
    parent = context(x=[1])
    parent.add_tokens({"prompt": 100})
    child = parent.fork("child")
    child.state["x"].append(2)
    child.state["y"] = [3]
    child.add_tokens({"prompt": 5, "output": 2})
    for _ in range(3):
        parent.merge(child)
    assert parent.state.to_dict() == {"x": [1, 2], "y": [3]}
    assert parent.token_usage == {"prompt": 105, "output": 2}


def test_merging_again_adds_what_is_new_and_leaves_what_the_parent_wrote_meanwhile():
    parent = context(x=[1])
    child = parent.fork("child")
    child.state["x"].append(2)
    child.state["y"] = "child"
    child.state["z"] = [1]
    child.add_tokens({"prompt": 5})
    parent.merge(child)
    parent.state.update(x="parent", y="parent")
    child.state["z"].append(2)
    child.add_tokens({"prompt": 2})
    parent.merge(child)
    assert parent.state.to_dict() == {"x": "parent", "y": "parent", "z": [1, 2]}
    assert parent.token_usage == {"prompt": 7}


def test_what_the_child_takes_back_after_a_merge_brings_nothing():
    parent = context(x=1)
    child = parent.fork("child")
    child.state["x"] = 5
    parent.merge(child)
    child.state.delete("x")
    parent.state["x"] = 7
    parent.merge(child)
    assert child.state["x"] == 1 and parent.state["x"] == 7


def test_what_the_parent_used_itself_meanwhile_is_kept():
    parent = context()
    child = parent.fork("child")
    parent.add_tokens({"prompt": 10})
    child.add_tokens({"prompt": 1})
    parent.merge(child)
    assert parent.token_usage == {"prompt": 11}


def test_a_merge_goes_up_one_level_at_a_time():
    root = context()
    root.add_tokens({"prompt": 50})
    child = root.fork("child")
    child.add_tokens({"prompt": 30})
    grandchild = child.fork("grandchild")
    grandchild.add_tokens({"prompt": 20})
    grandchild.state["found"] = [1]
    child.merge(grandchild)
    assert child.state["found"] == [1] and "found" not in root.state
    assert child.token_usage == {"prompt": 100}
    root.merge(child)
    assert root.state["found"] == [1] and root.token_usage == {"prompt": 100}


def test_only_an_own_child_can_be_merged():
    root = context()
    child = root.fork("child")
    grandchild = child.fork("grandchild")
    for given, name in [(Context("x"), "'x'"), (grandchild, "'grandchild'"), (root, "'parent'")]:
        with pytest.raises(ContextError, match=f"^Context {name} is not a child of 'parent'$"):
            root.merge(given)
    with pytest.raises(ContextError, match=r"Context \{\} is not a child"):
        root.merge({})  # type: ignore[arg-type]


def test_a_merge_that_fails_changes_nothing():
    parent = context(x=[1])
    child = parent.fork("child")
    deep: list[Any] = []
    child.state["deep"] = deep
    for _ in range(100_000):
        deep.append([])
        deep = deep[0]
    child.state["x"].append(2)
    child.add_tokens({"prompt": 5})
    with pytest.raises(ContextError, match="nested too deeply"):
        parent.merge(child)
    assert parent.state.to_dict() == {"x": [1]} and parent.token_usage == {}
    del deep
    unnest(child.state.pop("deep"))
    parent.merge(child)
    assert parent.state.to_dict() == {"x": [1, 2]} and parent.token_usage == {"prompt": 5}


def unnest(deep: list[Any]) -> None:
    """The end of deep data would be reached by recursion, too."""
    while deep:
        deep = deep.pop()


def test_a_child_with_a_state_of_its_own_brings_its_own_entries():
    parent = context(x=1)
    child = Context("child", parent=parent, state=ContextState({"y": [2]}))
    parent.merge(child)
    assert parent.state.to_dict() == {"x": 1, "y": [2]}


def test_a_number_that_must_not_be_compared_is_merged_as_any_other():
    parent = context(x=Decimal("sNaN"), rate=Decimal("1.0"))
    child = parent.fork("child")
    for _ in range(2):
        child.state["x"], child.state["rate"] = Decimal("sNaN"), Decimal("1.00")
        parent.merge(child)
    assert parent.state["x"].is_snan() and str(parent.state["rate"]) == "1.00"


async def test_what_parents_and_children_offloaded_is_found_after_all_merges():
    pipeline = ProcessorPipeline()
    pipeline.register(ToolResultOffloader(max_size=100))
    pipeline.register(MessageOffloader(max_message_size=100))

    async def offload(ctx: Context, word: str) -> list[str]:
        payload = {"tool_result": f"{word} result " * 50, "tool_name": "find", "tool_call_id": word}
        await pipeline.fire("post_tool_call", ctx, payload)
        ctx.state["history"] = [{"role": "user", "content": f"{word} message " * 50}]
        await pipeline.fire("pre_llm_call", ctx)
        texts = [str(payload["tool_result"]), ctx.state["history"][0]["content"]]
        return re.findall(r"off_[0-9a-f]{12}", " ".join(texts))

    parent = context()
    handles = await offload(parent, "p0")
    children = [parent.fork(f"child {number}") for number in range(3)]
    for child in children:
        handles += await offload(child, child.task_id)
    handles += await offload(parent, "p1")
    for child in [*children, *children]:
        parent.merge(child)
    assert len(set(handles)) == 10
    for handle in handles:
        assert await reload_offloaded(parent, handle)
    calls = [entry["tool_call_id"] for entry in parent.state["offloaded_results"]]
    assert calls == ["p0", "p1", "child 0", "child 1", "child 2"]
