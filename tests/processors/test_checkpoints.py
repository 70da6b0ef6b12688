"""Checkpoints: versions, what cannot be changed through them, and what is refused."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from durable_context.errors import CheckpointError, ContextError
from durable_context.processors.checkpoints import Checkpoint, CheckpointStore

AT = datetime(2026, 5, 4, 3, 2, 1, 7, tzinfo=timezone(timedelta(hours=2)))


def holding(**values: Any) -> Checkpoint:
    return Checkpoint("t1", 1, values, {})


def test_a_checkpoint_holds_what_it_was_given():
    checkpoint = Checkpoint("t1", 2, {"a": [1]}, {"prompt": 5}, {"step": 3}, AT)
    assert (checkpoint.task_id, checkpoint.version, checkpoint.created_at) == ("t1", 2, AT)
    assert checkpoint.values == {"a": [1]} and checkpoint.token_usage == {"prompt": 5}
    assert checkpoint.metadata == {"step": 3}


def test_it_has_no_metadata_and_the_time_now_by_default():
    before = datetime.now(UTC)
    checkpoint = Checkpoint(task_id="t1", version=1, values={}, token_usage={})
    assert checkpoint.metadata == {} and before <= checkpoint.created_at <= datetime.now(UTC)


@pytest.mark.parametrize(
    "name", ["task_id", "version", "values", "token_usage", "metadata", "created_at", "other"]
)
def test_a_checkpoint_is_frozen(name: str):
    with pytest.raises(AttributeError):
        setattr(holding(), name, {})


def test_its_contents_cannot_be_changed_through_it_nor_through_what_it_was_made_of():
    values, usage, metadata = {"a": [1, {"b": 2}]}, {"prompt": 5}, {"m": [1]}
    checkpoint = Checkpoint("t1", 1, values, usage, metadata)
    for held in (values, checkpoint.values):
        held["a"][1]["b"] = 3
        held["c"] = 4
    for tokens in (usage, checkpoint.token_usage):
        tokens["prompt"] = 6
    for noted in (metadata, checkpoint.metadata):
        noted["m"].append(2)
    checkpoint.to_dict()["values"]["a"].clear()
    assert checkpoint == Checkpoint(
        "t1", 1, {"a": [1, {"b": 2}]}, {"prompt": 5}, {"m": [1]}, checkpoint.created_at
    )


def test_its_repr_names_task_and_version_and_counts_keys():
    checkpoint = Checkpoint("t1", 3, {"a": 1, "b": 2}, {})
    assert repr(checkpoint) == "Checkpoint(task_id='t1', version=3, keys=2)"


def test_checkpoints_are_equal_by_their_contents():
    def made(item: int) -> Checkpoint:
        return Checkpoint("t1", 1, {"a": [float("nan"), {item}]}, {}, created_at=AT)

    one = made(1)
    assert one == made(1) and one != made(2)
    assert one != Checkpoint("t1", 2, one.values, {}, created_at=AT)
    assert one != one.to_dict()


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"task_id": ""}, "task_id is required"),
        ({"task_id": 5}, "task_id is required"),
        ({"version": 0}, "version=0; it must be a whole number, from 1"),
        ({"version": True}, "version=True"),
        ({"version": "1"}, "version='1'"),
        ({"values": [1]}, r"values=\[1\]; it must be a dict"),
        ({"values": None}, "values=None"),
        ({"token_usage": [1]}, "token_usage="),
        ({"token_usage": {"prompt": -1}}, "prompt=-1"),
        ({"token_usage": {1: 1}}, "a key 1"),
        ({"metadata": 7}, "metadata=7"),
        ({"created_at": "yesterday"}, "created_at='yesterday'"),
        ({"created_at": "2026-05-04T03:02:01"}, "created_at=.*zone"),
        ({"created_at": 12}, "created_at=12"),
        ({"schema_version": 2}, "schema_version=2 is not known; it must be 1"),
        ({"schema_version": "1"}, "schema_version='1'"),
        ({"values": {"a": {"$type": "Client", "value": {}}}}, "values cannot be read: 'Client'"),
        ({"values": {"a": {"$type": "set"}}}, "values cannot be read: 'value'"),
        ({"values": {"a": {"$type": "set", "value": [[1]]}}}, "values cannot be read"),
        ({"values": {"a": {"$type": [], "value": 1}}}, "values cannot be read"),
        ({"values": {"a": {"$type": "bytes", "value": "?"}}}, "values cannot be read"),
        ({"values": {"a": {"$type": "Decimal", "value": "x"}}}, "values cannot be read"),
        ({"values": {"a": {"$type": "Message", "value": {}}}}, "values cannot be read"),
        ({"values": {"$type": "set", "value": []}}, r"values=set\(\); it must be a dict"),
        ({"metadata": {"a": {"$type": "date", "value": "x"}}}, "metadata cannot be read"),
    ],
)
def test_what_is_no_checkpoint_is_refused_with_the_reason(changed: dict[str, Any], expected: str):
    fields = Checkpoint("t1", 1, {}, {}).to_dict()
    with pytest.raises(CheckpointError, match=expected):
        Checkpoint.from_dict(fields | changed)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"version": 1}, "no task_id"),
        ({"task_id": "t1"}, "no version"),
        ({}, "no task_id and no version"),
        ([1], r"\[1\] is no checkpoint"),
    ],
)
def test_what_is_missing_is_named(fields: Any, expected: str):
    with pytest.raises(CheckpointError, match=expected):
        Checkpoint.from_dict(fields)


def test_only_task_and_version_are_required():
    checkpoint = Checkpoint.from_dict({"task_id": "t1", "version": 2})
    assert (checkpoint.values, checkpoint.token_usage, checkpoint.metadata) == ({}, {}, {})


def test_a_checkpoint_without_a_schema_version_is_taken_as_it_is():
    values = {"x": {"$type": "set", "value": [1]}}
    checkpoint = Checkpoint.from_dict({"task_id": "t1", "version": 2, "values": values})
    assert checkpoint.values == values


def test_its_dict_has_the_originals_keys_and_a_schema_version():
    fields = Checkpoint("t1", 1, {"key": "val"}, {"prompt": 50}, {"note": "x"}, AT).to_dict()
    assert fields == {
        "schema_version": 1,
        "task_id": "t1",
        "version": 1,
        "values": {"key": "val"},
        "token_usage": {"prompt": 50},
        "metadata": {"note": "x"},
        "created_at": "2026-05-04T03:02:01.000007+02:00",
    }


def test_data_nested_too_deeply_are_refused_and_no_recursion_error_escapes():
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ContextError, match="nested too deeply"):
        holding(deep=deep)
    while deep:  # or its end would be reached by recursion, too
        deep = deep.pop()


def test_versions_count_from_1():
    store = CheckpointStore("t1")
    assert (store.task_id, store.version, store.latest, store.list_versions()) == (
        "t1",
        0,
        None,
        [],
    )
    saved = [store.save({"a": number}, {"prompt": number}) for number in range(3)]
    assert [one.version for one in saved] == store.list_versions() == [1, 2, 3]
    assert len(store) == store.version == 3 and store.latest is saved[-1]
    assert store.get(2) is saved[1] and saved[1].values == {"a": 1}
    assert saved[0].task_id == "t1"


def test_a_version_is_saved_with_metadata():
    assert CheckpointStore("t1").save({}, {}, metadata={"step": 5}).metadata == {"step": 5}


@pytest.mark.parametrize("version", [0, 2, -1, True, "1", 1.0, None])
def test_a_version_that_is_not_there_is_refused_with_those_that_are(version: Any):
    store = CheckpointStore("t1")
    with pytest.raises(CheckpointError, match=f"version {version!r} not found .available: none"):
        store.get(version)
    store.save({}, {})
    with pytest.raises(CheckpointError, match=f"version {version!r} not found .available: 1-1"):
        store.get(version)


@pytest.mark.parametrize("task_id", ["", None, 5])
def test_a_store_needs_a_task(task_id: Any):
    with pytest.raises(CheckpointError, match=r"^task_id is required and must be non-empty$"):
        CheckpointStore(task_id)


def test_a_refused_checkpoint_is_not_saved():
    store = CheckpointStore("t1")
    with pytest.raises(CheckpointError):
        store.save({}, {"prompt": -1})
    assert len(store) == 0


def test_a_store_without_checkpoints_is_true():
    assert CheckpointStore("t1")


def test_the_repr_of_a_store_counts_its_checkpoints():
    store = CheckpointStore("task-1")
    store.save({}, {})
    assert repr(store) == "CheckpointStore(task_id='task-1', checkpoints=1)"
