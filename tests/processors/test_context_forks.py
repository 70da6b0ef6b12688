"""Forks see their parent as it was and never change it; a merge brings back what they did."""

import threading
from collections import defaultdict, deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from pydantic import BaseModel

from durable_context.errors import ContextError
from durable_context.models import Message
from durable_context.processors.config import ContextConfig
from durable_context.processors.context import Context
from durable_context.processors.history import Record, read_history, write_history
from durable_context.processors.state import ContextState


class Client:
    """A service handle, which cannot be copied."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    async def send(self) -> None: ...


class Slotted(str):
    """A text that knows its client."""

    client: Client


class Note(BaseModel):
    lines: list[str]
    client: Any = None
    model_config = {"arbitrary_types_allowed": True}


@dataclass
class Task:
    done: list[str] = field(default_factory=list)
    client: Client | None = None


@dataclass(frozen=True, slots=True)
class Fixed:
    items: list[int]
    client: Client


class Pair(NamedTuple):
    left: list[int]
    right: Client


class Color(Enum):
    RED = "red"


def context(**entries: Any) -> Context:
    return Context("parent", state=ContextState(entries))


def test_a_fork_sees_the_parent_as_it_was_at_the_fork():
    parent = context(x=1, seen=["a"])
    child = parent.fork("child")
    parent.state["x"] = 2
    parent.state["y"] = 3
    parent.state["seen"].append("b")
    parent.state.delete("seen")
    assert child.state.to_dict() == {"x": 1, "seen": ["a"]}
    assert child.state.local_dict() == {}


def test_a_fork_of_a_fork_sees_both_as_they_were():
    parent = context(x=1)
    child = parent.fork("child")
    child.state["y"] = 2
    grandchild = child.fork("grandchild")
    child.state["y"] = parent.state["x"] = 9
    assert grandchild.state.to_dict() == {"x": 1, "y": 2}
    assert grandchild.parent is child and child.children == [grandchild]


def test_a_child_never_changes_its_parents_list():
    parent = context(offloaded_results=[{"tool_name": "a"}])
    child = parent.fork("child")
    child.state["offloaded_results"].append({"tool_name": "b"})
    child.state["offloaded_results"][0]["tool_name"] = "c"
    assert parent.state["offloaded_results"] == [{"tool_name": "a"}]


def test_a_child_that_rewrites_the_history_in_place_leaves_its_parents_messages():
    history = [{"role": "user", "content": "Hello"}]
    parent = context(history=history)
    child = parent.fork("child")
    child.state["history"][0]["content"] = "[[OFFLOADED: handle=off_0123456789ab]]"
    write_history(child, [*read_history(child), {"role": "assistant", "content": "Hi"}])
    assert parent.state["history"] is history == [{"role": "user", "content": "Hello"}]
    assert len(child.state["history"]) == 2


def test_siblings_do_not_see_each_other():
    parent = context(x=[0])
    one, other = parent.fork("one"), parent.fork("other")
    one.state["x"].append(1)
    one.state["mine"] = 1
    assert other.state.to_dict() == {"x": [0]} and parent.children == [one, other]


def test_a_fork_has_its_parents_config_and_tokens():
    parent = Context("parent", config=ContextConfig(history_rounds=5))
    parent.add_tokens({"prompt": 100})
    child = parent.fork("child")
    child.add_tokens({"prompt": 1})
    assert child.config is parent.config and child.parent is parent
    assert (child.token_usage, parent.token_usage) == ({"prompt": 101}, {"prompt": 100})


def test_a_fork_needs_a_task_and_a_failed_one_leaves_no_child():
    parent = context()
    with pytest.raises(ContextError, match="task_id is required"):
        parent.fork("")
    assert parent.children == []


def test_service_handles_are_shared_wherever_they_are():
    client = Client()
    told = Slotted("told")
    told.client = client
    parent = context(
        client=client,
        method=client.send,
        module=threading,
        kind=Client,
        nested=[{"a": (client,)}],
        pair=Pair([1], client),
        fixed=Fixed([1], client),
        task=Task(client=client),
        note=Note(lines=[], client=client),
        keyed={client: [1]},
        made=defaultdict(client.send, a=[1]),
        told=told,
        group={client},
    )
    state = parent.fork("child").state
    assert state["client"] is client and state["method"] == client.send
    assert state["module"] is threading and state["kind"] is Client
    assert state["nested"][0]["a"][0] is state["pair"].right is state["fixed"].client is client
    assert state["task"].client is state["note"].client is state["told"].client is client
    assert list(state["keyed"]) == list(state["group"]) == [client]
    assert state["made"].default_factory == client.send


def test_data_within_what_holds_a_service_handle_are_copies():
    client = Client()
    parent = context(
        pair=Pair([1], client),
        fixed=Fixed([1], client),
        task=Task(["a"], client),
        note=Note(lines=["a"], client=client),
        keyed={client: [1]},
        made=defaultdict(list, a=[1]),
        queue=deque([[1]]),
        raw=bytearray(b"a"),
    )
    state = parent.fork("child").state
    for held in (
        state["pair"].left,
        state["fixed"].items,
        state["task"].done,
        state["note"].lines,
        state["keyed"][client],
        state["made"]["a"],
        state["queue"],
        state["queue"][0],
        state["raw"],
    ):
        held.clear()
    assert (parent.state["pair"].left, parent.state["fixed"].items) == ([1], [1])
    assert (parent.state["task"].done, parent.state["note"].lines) == (["a"], ["a"])
    assert parent.state["keyed"] == {client: [1]} and parent.state["made"] == {"a": [1]}
    assert list(parent.state["queue"]) == [[1]] and parent.state["raw"] == b"a"


def test_types_are_kept():
    values = {
        "record": Record(role="user", content="ours"),
        "message": Message(role="user", content="hi"),
        "made": defaultdict(list, a=[1]),
        "at": datetime.now(UTC),
        "id": UUID(int=1),
        "color": Color.RED,
        "frozen": frozenset({(1, 2)}),
    }
    state = context(**values).fork("child").state
    assert state.to_dict() == values
    assert {key: type(state[key]) for key in state} == {key: type(values[key]) for key in values}


def test_cycles_and_what_is_shared_within_survive():
    again: dict[str, Any] = {"n": 1}
    again["again"] = (again, [again])
    parent = context(again=again, shared=again)
    state = parent.fork("child").state
    copy = state["again"]
    assert copy is not again and copy["again"][0] is copy["again"][1][0] is copy
    assert state["shared"] is copy
    parent.merge(parent.children[0])
    assert parent.state["again"] is again


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
