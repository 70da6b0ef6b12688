"""Forks see their parent as it was and never change it, not even through what they share."""

import threading
from collections import defaultdict, deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any, NamedTuple, NoReturn
from uuid import UUID

import pytest
from pydantic import BaseModel, PrivateAttr

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
    _lock: Any = PrivateAttr(default_factory=threading.Lock)


@dataclass
class Task:
    done: list[str] = field(default_factory=list)
    client: Client | None = None


@dataclass(frozen=True, slots=True)
class Fixed:
    items: list[int]
    client: Client


@dataclass
class Guarded:
    __slots__ = ("__lock",)

    def __init__(self) -> None:
        self.__lock = threading.Lock()

    @property
    def lock(self) -> Any:
        return self.__lock


@dataclass
class Stubborn:
    error: Exception

    def __deepcopy__(self, memo: object) -> NoReturn:
        raise self.error


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
    told = Slotted("told")
    told.client = Client()
    parent = context(
        client=Client(),
        method=Client().send,
        module=threading,
        kind=Client,
        nested=[{"a": (Client(),)}],
        pair=Pair([1], Client()),
        fixed=Fixed([1], Client()),
        task=Task(client=Client()),
        note=Note(lines=[], client=Client()),
        keyed={Client(): [1]},
        made=defaultdict(Client().send, a=[1]),
        told=told,
        group={Client()},
    )
    before, after = parent.state, parent.fork("child").state
    for key in ("client", "method", "module", "kind"):
        assert after[key] is before[key]
    assert after["nested"][0]["a"][0] is before["nested"][0]["a"][0]
    assert after["pair"].right is before["pair"].right
    for key in ("fixed", "task", "note", "told"):
        assert after[key].client is before[key].client
    assert list(after["keyed"]) == list(before["keyed"]) and after["group"] == before["group"]
    assert after["made"].default_factory is before["made"].default_factory


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


def test_a_service_handle_in_a_private_slot_is_shared():
    parent = context(guarded=Guarded())
    copy = parent.fork("child").state["guarded"]
    assert copy is not parent.state["guarded"] and copy.lock is parent.state["guarded"].lock


@pytest.mark.parametrize("kind", [TypeError, ValueError, AttributeError])
def test_data_that_cannot_be_copied_are_refused_and_leave_no_child(kind: type[Exception]):
    parent = context(x=Stubborn(kind("not me")))
    with pytest.raises(ContextError, match="cannot be copied: not me"):
        parent.fork("child")
    assert parent.children == []


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
