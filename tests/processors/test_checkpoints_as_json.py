"""Checkpoints as JSON and back: what comes back as it was, and what is left out."""

import json
from collections import defaultdict, deque
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict

from durable_context.errors import CheckpointError
from durable_context.models import Message, ToolCall
from durable_context.processors.checkpoints import Checkpoint
from durable_context.processors.history import Record
from durable_context.showing import shown

AT = datetime(2026, 5, 4, 3, 2, 1, 7, tzinfo=timezone(timedelta(hours=2)))


class Client:
    """A service handle."""


class Color(Enum):
    RED = "red"


class Shape(BaseModel):
    sides: int
    client: Any = None


@dataclass
class Point:
    x: int
    client: Any = None


def through_json(checkpoint: Checkpoint) -> Checkpoint:
    return Checkpoint.from_dict(json.loads(json.dumps(checkpoint.to_dict(), allow_nan=False)))


def holding(**values: Any) -> Checkpoint:
    return Checkpoint("t1", 1, values, {})


DATA: list[Any] = [
    None,
    True,
    -5,
    2.5,
    "text \ud800 \x00 <|endoftext|>",
    [1, [2, {"a": None}]],
    (1, (2, [])),
    {1, 2, 3},
    frozenset({"a", ("b", 1)}),
    b"\x00\xff",
    bytearray(b"ab"),
    AT,
    date(2026, 5, 4),
    time(3, 2, 1),
    timedelta(days=-1, microseconds=1),
    Decimal("1.10"),
    UUID(int=7),
    float("inf"),
    -(10**5_000),
    {1: "a", (2, 3): "b", None: "c"},
    {"$type": "set", "value": [1]},
    Record(role="user", content="a block of ours"),
    Message(
        role="assistant",
        tool_calls=(ToolCall(id="c1", name="get", arguments="{}"),),
        extra={"cost": [1]},
    ),
]


@pytest.mark.parametrize("value", DATA, ids=lambda value: shown(value, 30))
def test_data_come_back_from_json_as_they_were(value: Any):
    checkpoint = holding(value=value, among=[value, {"deep": value}])
    back = through_json(checkpoint)
    assert back == checkpoint
    assert type(back.values["value"]) is type(value)


def test_the_same_state_is_written_the_same_way():
    names = [f"name-{number}" for number in range(30)]
    one, other = holding(a=set(names)), holding(a=set(reversed(names)))
    assert json.dumps(one.to_dict()["values"]) == json.dumps(other.to_dict()["values"])


def test_what_json_has_no_type_for_comes_back_as_what_it_holds():
    back = through_json(
        holding(
            enum=Color.RED,
            model=Shape(sides=3),
            record=Point(1),
            counts=defaultdict(int, a=1),
            queue=deque([1, 2]),
        )
    )
    assert back.values == {
        "enum": "red",
        "model": {"sides": 3, "client": None},
        "record": {"x": 1, "client": None},
        "counts": {"a": 1},
        "queue": [1, 2],
    }


def test_service_handles_are_left_out_of_the_dict_and_nowhere_else():
    client = Client()
    checkpoint = Checkpoint(
        "t1",
        1,
        {"client": client, "deep": [1, client, (client,)], "point": Point(1, client), "f": print},
        {},
        {"client": client},
    )
    back = through_json(checkpoint)
    assert back.values == {"deep": [1, ()], "point": {"x": 1}} and back.metadata == {}
    assert checkpoint.values["client"] is checkpoint.values["point"].client is client


def test_data_that_hold_themselves_are_written_without_that():
    again: list[Any] = [1]
    again.append({"again": again})
    shared = [2]
    back = through_json(holding(again=again, twice=[shared, shared]))
    assert back.values == {"again": [1, {}], "twice": [[2], [2]]}


@dataclass(frozen=True)
class Place:
    name: str


class Side(BaseModel):
    model_config = ConfigDict(frozen=True)
    length: int


class Corners(Enum):
    ALL = [1, 2]  # noqa: RUF012


def test_what_comes_back_as_a_dict_is_in_sets_and_as_a_key_a_tuple():
    place = (("name", "Rotterdam"),)
    side: Any = Side(length=3)
    back = through_json(
        holding(
            members={Place("Rotterdam"), side, Corners.ALL},
            keys={Place("Rotterdam"): 1, (side, frozenset({Place("Rotterdam")})): 2},
        )
    )
    assert back.values == {
        "members": {place, (("length", 3),), (1, 2)},
        "keys": {place: 1, ((("length", 3),), frozenset({place})): 2},
    }


def test_a_member_of_a_set_that_holds_itself_is_written_without_that():
    @dataclass(eq=False)
    class Node:
        neighbours: list[Any]

    node = Node([1])
    node.neighbours.append(node)
    back = through_json(holding(nodes={node}))
    assert back.values == {"nodes": {(("neighbours", (1,)),)}}


@pytest.mark.parametrize("other", ["red", Place("red"), 1])
def test_keys_that_would_come_back_the_same_are_refused(other: Any):
    @dataclass(frozen=True)
    class Town:
        name: str

    class Number(Enum):
        ONE = 1.0

    checkpoint = holding(keys={Color.RED: 1, Town("red"): 2, Number.ONE: 3, other: 4})
    with pytest.raises(CheckpointError, match=r"keys of .* would be the same"):
        checkpoint.to_dict()


@pytest.mark.parametrize("kind", ["UUID", "bytes", "datetime", "time", "Message", "Record", "gone"])
@pytest.mark.parametrize("value", [5, [5], None, True, "x"])
def test_what_no_checkpoint_holds_is_refused_when_it_is_read(kind: str, value: Any):
    fields = holding().to_dict() | {"values": {"odd": {"$type": kind, "value": value}}}
    with pytest.raises(CheckpointError, match="values cannot be read"):
        Checkpoint.from_dict(fields)
