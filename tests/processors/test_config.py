"""A context's configuration: defaults, presets, what is refused, and that it never changes."""

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from durable_context.processors.config import AutomationMode, ContextConfig, make_config


def test_defaults_are_those_of_the_original():
    assert ContextConfig().model_dump() == {
        "mode": "copilot",
        "history_rounds": 20,
        "summary_threshold": 10,
        "offload_threshold": 50,
        "enable_retrieval": False,
        "neuron_names": (),
        "extra": {},
        "token_budget_trigger": 0.8,
    }


def test_modes_are_text():
    assert [str(mode) for mode in AutomationMode] == ["pilot", "copilot", "navigator"]
    assert ContextConfig(mode="navigator").mode is AutomationMode.NAVIGATOR  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("mode", "figures"),
    [
        ("pilot", (100, 100, 100, False)),
        ("copilot", (20, 10, 50, False)),
        (AutomationMode.NAVIGATOR, (10, 5, 20, True)),
    ],
)
def test_a_mode_has_its_preset(mode: AutomationMode | str, figures: tuple[Any, ...]):
    config = make_config(mode)
    found = (config.history_rounds, config.summary_threshold, config.offload_threshold)
    assert (*found, config.enable_retrieval) == figures
    assert config.mode == mode


def test_the_preset_without_a_mode_is_the_default():
    assert make_config() == ContextConfig()


def test_a_preset_can_be_overridden():
    config = make_config("navigator", history_rounds=50, extra={"a": 1})
    assert (config.history_rounds, config.summary_threshold, config.extra) == (50, 5, {"a": 1})


def test_an_override_is_checked_against_the_preset():
    with pytest.raises(ValueError, match=r"summary_threshold \(21\) must be <= offload_thresh.*20"):
        make_config("navigator", summary_threshold=21)


def test_an_unknown_mode_is_refused():
    with pytest.raises(ValueError, match=r"^'x' is not a valid AutomationMode$"):
        make_config("x")
    with pytest.raises(ValidationError, match="'pilot', 'copilot' or 'navigator'"):
        ContextConfig(mode="x")  # type: ignore[arg-type]


def test_thresholds_in_the_wrong_order_are_refused():
    expected = r"summary_threshold \(60\) must be <= offload_threshold \(50\)"
    with pytest.raises(ValidationError, match=expected):
        ContextConfig(summary_threshold=60)
    assert ContextConfig(summary_threshold=50).offload_threshold == 50


@pytest.mark.parametrize("name", ["history_rounds", "summary_threshold", "offload_threshold"])
@pytest.mark.parametrize("value", [0, -1, True, 1.5, "10", None])
def test_nonsense_counts_are_refused_by_name(name: str, value: object):
    with pytest.raises(ValidationError, match=name):
        make_config("copilot", **{name: value})


@pytest.mark.parametrize("value", [-0.1, 1.1, True, float("nan"), "0.5"])
def test_a_trigger_beyond_0_and_1_is_refused(value: Any):
    with pytest.raises(ValidationError, match="token_budget_trigger"):
        ContextConfig(token_budget_trigger=value)
    assert ContextConfig(token_budget_trigger=1).token_budget_trigger == 1


@pytest.mark.parametrize(
    ("name", "value"), [("enable_retrieval", 1), ("neuron_names", "abc"), ("extra", [1])]
)
def test_values_of_another_type_are_refused(name: str, value: object):
    with pytest.raises(ValidationError, match=name):
        make_config("copilot", **{name: value})


def test_names_may_be_a_list():
    assert ContextConfig(neuron_names=["a", "b"]).neuron_names == ("a", "b")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["history_round", "limit", "context_manage_mode"])
def test_an_unknown_name_is_refused(name: str):
    with pytest.raises(ValidationError, match=name):
        make_config("copilot", **{name: 1})


def test_a_config_is_frozen():
    config = ContextConfig()
    with pytest.raises(ValidationError, match="frozen"):
        config.history_rounds = 5  # type: ignore[misc]


def test_extra_is_a_copy_of_what_was_given():
    given: dict[str, Any] = {"limits": {"deep": [1, {"x": {2}}]}, "raw": bytearray(b"a")}
    config = ContextConfig(extra=given)
    given["limits"]["deep"].append(3)
    given["raw"].clear()
    given["token_budget"] = 5
    assert config.extra == {"limits": {"deep": [1, {"x": {2}}]}, "raw": b"a"}


CHANGES: list[Callable[[Any], object]] = [
    lambda extra: extra.__setitem__("a", 1),
    lambda extra: extra.__delitem__("a"),
    lambda extra: extra.update(a=1),
    lambda extra: extra.__ior__({"a": 1}),
    lambda extra: extra.pop("a"),
    lambda extra: extra.popitem(),
    lambda extra: extra.clear(),
    lambda extra: extra.setdefault("b", 1),
    lambda extra: extra["a"].append(1),
    lambda extra: extra["a"].__iadd__([1]),
    lambda extra: extra["a"].__imul__(2),
    lambda extra: extra["a"].__setitem__(0, 1),
    lambda extra: extra["a"].sort(),
    lambda extra: extra["a"][0].update(b=2),
    lambda extra: extra["t"][0].clear(),
]


@pytest.mark.parametrize("change", CHANGES)
def test_extra_cannot_be_changed_at_any_depth(change: Callable[[Any], object]):
    config = ContextConfig(extra={"a": [{"b": 1}], "t": ([1],)})
    with pytest.raises(TypeError, match="cannot be changed"):
        change(config.extra)
    assert config.extra == {"a": [{"b": 1}], "t": ([1],)}


def test_sets_in_extra_are_frozen():
    assert isinstance(ContextConfig(extra={"s": {1}}).extra["s"], frozenset)


def test_extra_is_in_all_else_a_dict():
    extra = ContextConfig(extra={"a": [1], "b": {"c": 2}}).extra
    assert json.loads(json.dumps(extra)) == extra == {"a": [1], "b": {"c": 2}}
    for same in (copy.deepcopy(extra), pickle.loads(pickle.dumps(extra))):
        assert same == extra and type(same) is type(extra)
    plain = dict(extra)
    plain["x"] = 1
    assert (extra | {"x": 1})["x"] == 1 and "x" not in extra


def test_a_config_serializes_as_plain_data_and_comes_back_equal():
    config = make_config("navigator", neuron_names=("a",), extra={"a": [{"b": 1}]})
    dumped = config.model_dump()
    assert type(dumped["extra"]) is dict and type(dumped["extra"]["a"]) is list
    assert ContextConfig(**dumped) == config
    assert ContextConfig.model_validate_json(config.model_dump_json()) == config


def test_extra_that_holds_itself_is_refused():
    extra: dict[str, Any] = {}
    extra["again"] = extra
    with pytest.raises(ValidationError, match="holds itself"):
        ContextConfig(extra=extra)


def test_extra_that_cannot_be_copied_is_refused():
    deep: list[object] = []
    for _ in range(5_000):
        deep = [deep]
    with pytest.raises(ValidationError, match="nested too deeply"):
        ContextConfig(extra={"deep": deep})
