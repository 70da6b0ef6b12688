"""A context's state: reads go up the chain of parents, writes stay."""

import pytest

from durable_context.errors import ContextError
from durable_context.processors.state import ContextState


def test_reads_go_from_the_own_entries_up_the_chain_of_parents():
    state = ContextState({"c": 3}, parent=ContextState({"b": 2}, parent=ContextState({"a": 1})))
    assert (state.get("a"), state["b"], state["c"]) == (1, 2, 3)
    assert "a" in state and "d" not in state
    assert state.get("d") is None and state.get("d", 4) == 4


def test_the_nearest_entry_wins():
    oldest = ContextState({"x": "oldest"})
    parent = ContextState({"x": "parent"}, parent=oldest)
    state = ContextState({"x": "own"}, parent=parent)
    assert (state["x"], parent["x"], oldest["x"]) == ("own", "parent", "oldest")


def test_an_own_none_hides_what_is_inherited():
    state = ContextState({"x": None}, parent=ContextState({"x": 1}))
    assert state.get("x", 2) is None and state["x"] is None and "x" in state
    assert state.to_dict() == {"x": None}


def test_a_missing_key_raises_key_error_that_names_it():
    with pytest.raises(KeyError) as raised:
        ContextState(parent=ContextState())["x"]
    assert raised.value.args == ("x",)


def test_writes_change_the_own_entries_alone():
    parent = ContextState({"x": 1, "y": 1})
    state = ContextState(parent=parent)
    state.set("x", 2)
    state["y"] = 3
    state.update({"z": 4}, other=5)
    assert parent.to_dict() == {"x": 1, "y": 1}
    assert state.local_dict() == {"x": 2, "y": 3, "z": 4, "other": 5}


def test_what_is_given_to_begin_with_is_not_changed():
    given = {"x": 1}
    ContextState(given)["x"] = 2
    assert given == {"x": 1}


def test_an_inherited_entry_cannot_be_removed():
    parent = ContextState({"x": 1})
    state = ContextState(parent=parent)
    for remove in (state.delete, state.pop, state.__delitem__):
        with pytest.raises(KeyError):
            remove("x")
    assert state.pop("x", "instead") == "instead"
    assert state["x"] == parent["x"] == 1


def test_removing_an_own_entry_shows_the_inherited_one_again():
    state = ContextState({"x": 2, "y": 2, "z": 2}, parent=ContextState({"x": 1, "y": 1, "z": 1}))
    state.delete("x")
    assert state.pop("y") == 2
    assert (state["x"], state["y"], state["z"]) == (1, 1, 2)
    state.clear()
    assert state.to_dict() == {"x": 1, "y": 1, "z": 1}
    assert state.local_dict() == {}


def test_of_another_state_only_its_own_entries_are_taken():
    state = ContextState()
    state.update(ContextState({"own": 1}, parent=ContextState({"inherited": 2})))
    assert state.local_dict() == {"own": 1}


def test_nothing_to_update_from_is_no_error():
    state = ContextState(None)
    state.update(None)
    state.update()
    assert not state


def test_what_is_no_state_is_refused_by_name():
    with pytest.raises(ContextError, match=r"\[1\].* must be a dict or a ContextState"):
        ContextState().update([1])  # type: ignore[arg-type]
    with pytest.raises(ContextError, match=r"parent=.*must be a ContextState"):
        ContextState(parent={"x": 1})  # type: ignore[arg-type]


def test_dicts_of_a_state_are_new_and_hold_the_same_values():
    value = [1]
    state = ContextState({"x": value}, parent=ContextState({"y": value}))
    for taken in (state.local_dict(), state.to_dict()):
        assert taken["x"] is value
        taken["x"] = None
    assert state.to_dict() == {"y": [1], "x": [1]}


def test_keys_are_a_set_that_holds_inherited_ones_and_each_once():
    state = ContextState({"a": 2, "c": 3}, parent=ContextState({"a": 1, "b": 2}))
    assert state.keys() == {"a", "b", "c"} and isinstance(state.keys(), set)
    assert len(state) == 3 and sorted(state) == ["a", "b", "c"]


def test_the_order_of_iteration_does_not_depend_on_hashes():
    names = [f"key-{number}" for number in range(50)]
    state = ContextState(dict.fromkeys(names[25:]), parent=ContextState(dict.fromkeys(names[:25])))
    assert list(state) == names


def test_a_state_is_true_if_any_level_holds_something():
    assert not ContextState() and not ContextState(parent=ContextState())
    assert ContextState({"x": None})
    assert ContextState(parent=ContextState(parent=ContextState({"x": 1})))


def test_its_repr_counts_own_and_inherited_entries_and_hides_an_empty_parent():
    assert repr(ContextState({"a": 1, "b": 2})) == "ContextState(local=2)"
    assert repr(ContextState({"a": 1}, parent=ContextState())) == "ContextState(local=1)"
    parent = ContextState({"a": 1}, parent=ContextState({"b": 1, "a": 2}))
    assert repr(ContextState({"a": 1}, parent=parent)) == "ContextState(local=1, inherited=2)"
    assert ContextState(parent=parent).parent is parent and ContextState().parent is None
