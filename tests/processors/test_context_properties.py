"""Isolation, round trips and merges over any state and any changes, as Hypothesis draws them."""

import copy
import json
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from durable_context.models import Message
from durable_context.processors.checkpoints import Checkpoint
from durable_context.processors.context import Context
from durable_context.processors.history import Record
from durable_context.processors.state import ContextState


class Client:
    """A service handle: no copy of it may be made."""

    def __deepcopy__(self, memo: object) -> "Client":
        raise AssertionError("a service handle was copied")


@dataclass
class Noted:
    text: str
    held: list[Any]


def cyclic(items: list[Any]) -> list[Any]:
    items.append(items)
    return items


def offset(minutes: int) -> timezone:
    return timezone(timedelta(minutes=minutes))


def unfolded(at: datetime) -> datetime:
    return at.replace(fold=0)  # ISO 8601 has no form for it


CLIENT = Client()
KEYS = st.sampled_from(["history", "todos", "x", "$type"])
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(st.characters(), max_size=5),
    st.binary(max_size=5),
    st.datetimes(timezones=st.none() | st.integers(-720, 720).map(offset)).map(unfolded),
    st.uuids(),
    st.decimals(allow_nan=False),
    st.timedeltas(),
)
hashable = st.recursive(
    st.integers() | st.text(max_size=3), lambda inner: st.lists(inner, max_size=2).map(tuple)
)
jsonable = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(KEYS | hashable, inner, max_size=3),
        st.dictionaries(KEYS, inner, max_size=3).map(Record),
        st.sets(hashable, max_size=3),
        st.frozensets(hashable, max_size=3),
        st.lists(inner, max_size=2).map(lambda items: [items, {"shared": items}, items]),
        st.dictionaries(KEYS, inner, max_size=2).map(
            lambda extra: Message(role="user", content="hi", extra=extra)
        ),
    ),
    max_leaves=12,
)
data = st.recursive(
    jsonable | st.just(CLIENT),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(cyclic),
        st.builds(Noted, st.text(max_size=3), st.lists(inner, max_size=3)),
        st.lists(inner, max_size=3),
        st.dictionaries(KEYS, inner, max_size=3),
    ),
    max_leaves=8,
)
states = st.dictionaries(KEYS, data, max_size=4)
kinds = st.sampled_from(["add", "clear", "set", "delete"])
changes = st.lists(st.tuples(kinds, st.integers(0, 20), KEYS, jsonable), max_size=8)


def mutable(value: Any) -> list[Any]:
    """Everything within that can be changed in place."""
    found: dict[int, Any] = {}
    waiting = [value]
    while waiting:
        current = waiting.pop()
        if id(current) in found:
            continue
        if isinstance(current, list | dict | set | Noted):
            found[id(current)] = current
        if isinstance(current, dict):
            waiting.extend(current.values())
        elif isinstance(current, list | tuple):
            waiting.extend(current)
        elif isinstance(current, Noted):
            waiting.append(current.held)
        elif isinstance(current, Message):
            waiting.append(current.extra)
    return list(found.values())


def change(state: ContextState, kind: str, place: int, key: str, value: Any) -> None:
    value = copy.deepcopy(value)
    targets = mutable(list(state.to_dict().values()))[1:]
    if kind == "set" or not targets:
        state[key] = value
    elif kind == "delete":
        state.pop(key, None)
    else:
        change_in_place(targets[place % len(targets)], kind, key, value)


def change_in_place(target: Any, kind: str, key: str, value: Any) -> None:
    if isinstance(target, Noted):
        target.text += key
    elif kind != "add":
        target.clear()
    elif isinstance(target, dict):
        target[key] = value
    elif isinstance(target, set):
        target.add(key)
    else:
        target.append(value)


def image(value: Any, within: tuple[int, ...] = ()) -> tuple[Any, ...]:
    """What a value holds, with types; that of a context is its state's."""
    if isinstance(value, Context):
        return image(value.state.to_dict())
    if id(value) in within:
        return ("itself",)
    within = (*within, id(value))
    parts: Any = repr(value)
    if isinstance(value, dict):
        parts = [(image(key, within), image(item, within)) for key, item in value.items()]
    elif isinstance(value, list | tuple):
        parts = [image(item, within) for item in value]
    elif isinstance(value, set | frozenset):
        parts = sorted((image(item, within) for item in value), key=repr)
    elif isinstance(value, Noted | Message):
        parts = image(vars(value), within)
    return type(value), parts


def ids(context: Context) -> set[int]:
    return {id(each) for each in mutable(list(context.state.to_dict().values()))[1:]}


@settings(deadline=None)
@given(states, st.lists(st.tuples(st.booleans(), changes), max_size=6))
def test_neither_side_of_a_fork_sees_what_the_other_does(
    state: dict[str, Any], rounds: list[tuple[bool, list[Any]]]
):
    parent = Context("parent", state=ContextState(state))
    child = parent.fork("child")
    assert image(child) == image(parent) and not ids(child) & ids(parent)
    for by_child, steps in rounds:
        acting, other = (child, parent) if by_child else (parent, child)
        before = image(other)
        for step in steps:
            change(acting.state, *step)
        assert image(other) == before
    grandchild = child.fork("grandchild")
    assert not ids(grandchild) & (ids(child) | ids(parent))


@settings(deadline=None)
@given(states, changes, changes)
def test_merging_again_changes_nothing_and_overwrites_nothing(
    state: dict[str, Any], first: list[Any], later: list[Any]
):
    parent = Context("parent", state=ContextState(state))
    child = parent.fork("child")
    for number, step in enumerate(first):
        change(child.state, *step)
        child.add_tokens({"prompt": number + 1})
    parent.merge(child)
    merged = image(parent)
    assert not ids(child) & ids(parent)
    parent.merge(child)
    assert image(parent) == merged and parent.token_usage == child.token_usage
    for step in later:
        change(parent.state, *step)
    changed = image(parent)
    parent.merge(child)
    assert image(parent) == changed


@settings(deadline=None)
@given(states, changes)
def test_a_merge_gives_the_parent_all_the_child_sees(state: dict[str, Any], steps: list[Any]):
    parent = Context("parent", state=ContextState(state))
    child = parent.fork("child")
    for step in steps:
        change(child.state, *step)
    parent.merge(child)
    seen = child.state.to_dict()
    assert image({key: parent.state[key] for key in seen}) == image(seen)


@settings(deadline=None)
@given(states, changes)
def test_a_snapshot_is_restored_as_it_was_whatever_comes_after(
    state: dict[str, Any], steps: list[Any]
):
    context = Context("main", state=ContextState(state))
    checkpoint, before = context.snapshot(), image(context)
    restored = Context.restore(checkpoint)
    assert image(restored) == before and not ids(restored) & ids(context)
    for step in steps:
        change(context.state, *step)
        change(restored.state, *step)
    assert image(Context.restore(checkpoint)) == before


@settings(deadline=None)
@given(st.dictionaries(KEYS, jsonable, max_size=4))
def test_a_snapshot_comes_back_from_json(state: dict[str, Any]):
    checkpoint = Context("main", state=ContextState(state)).snapshot(metadata=state)
    written = json.dumps(checkpoint.to_dict(), allow_nan=False)
    back = Checkpoint.from_dict(json.loads(written))
    assert image(back.values) == image(checkpoint.values)
    assert back.created_at == checkpoint.created_at
    assert json.dumps(back.to_dict(), allow_nan=False) == written


@settings(deadline=None)
@given(states)
def test_a_snapshot_of_any_state_can_be_written_as_json(state: dict[str, Any]):
    checkpoint = Context("main", state=ContextState(state)).snapshot()
    assert Checkpoint.from_dict(json.loads(json.dumps(checkpoint.to_dict(), allow_nan=False)))
