import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.recall.values import (
    Asked,
    appeared,
    argument_values,
    command_values,
    holds,
    text_of,
)
from benchmarks.traces import Half, MissingData, Task, joined, swe, taubench


def calling(name: str = "book", **arguments: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": "call_1", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def values(message: dict[str, Any]) -> list[str]:
    return [asked.value for asked in argument_values(message)]


def in_command(command: str) -> dict[str, str]:
    return {a.value: a.argument for a in command_values(calling("bash", command=command))}


def task(name: str, user_messages: int) -> Task:
    return Task(name, None, ({"role": "user", "content": "Go on."},) * user_messages)


def test_values_are_asked_for_wherever_they_are_nested() -> None:
    message = calling(order="ORD-1", lines=[{"sku": "S-7", "box": {"to": "Ghent"}}, {"sku": "S-8"}])

    assert list(argument_values(message)) == [
        Asked("book", "order", "ORD-1"),
        Asked("book", "lines.sku", "S-7"),
        Asked("book", "lines.box.to", "Ghent"),
        Asked("book", "lines.sku", "S-8"),
    ]


def test_what_says_nothing_is_not_asked_for() -> None:
    assert values(calling(a=True, b=None, c=9, d="9", e="ok", f="yes", g="", h=10, i="JFK")) == [
        "10",
        "JFK",
    ]


def test_a_value_is_asked_for_once_a_call() -> None:
    assert values(calling(sender="mia_44", receiver="mia_44")) == ["mia_44"]


def test_arguments_that_are_no_json_are_one_value() -> None:
    message = calling()
    message["tool_calls"][0]["function"]["arguments"] = "ORD-1"

    assert values(message) == ["ORD-1"]


def test_a_command_is_asked_for_paths_symbols_and_line_numbers() -> None:
    found = in_command('edit 118:124 src/app/models.py\ntotal = parse_amount(row)\nrowCount()\n"4"')

    assert found == {
        "src/app/models.py": "path",
        "parse_amount": "symbol",
        "rowCount": "symbol",
        "118": "line number",
        "124": "line number",
    }


def test_a_method_is_a_symbol_and_a_file_a_path() -> None:
    assert in_command("cat notes.txt && python -c 'delta.total_seconds()'") == {
        "notes.txt": "path",
        "delta.total_seconds": "symbol",
    }


def test_the_parts_of_a_path_are_not_asked_for_again() -> None:
    assert in_command("ls /opt/my_repo/first_test.py") == {"/opt/my_repo/first_test.py": "path"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It is ORD-1.", True),
        ("ORD-12", False),
        ("xORD-1", False),
        ("ORD-12 and ORD-1", True),
        ("my_ORD-1", False),
    ],
)
def test_a_text_holds_a_value_only_as_a_whole_token(text: str, found: bool) -> None:
    assert holds(text, "ORD-1") is found


def test_only_values_that_an_earlier_message_named_are_asked_for() -> None:
    earlier = [
        {"role": "user", "content": "Where is ORD-1?"},
        calling("find", order="ORD-1", depot="D_9"),
        {"role": "tool", "tool_call_id": "call_1", "content": '{"carrier": "C-3"}'},
    ]
    asked = argument_values(calling(a="ORD-1", b="D_9", c="C-3", d="C-4"))

    assert [each.value for each in appeared(asked, earlier)] == ["ORD-1", "D_9", "C-3"]


def test_arguments_are_read_without_escapes() -> None:
    assert holds(text_of(calling(text='first\nORD-1 "here"')), "ORD-1")


def test_tasks_are_joined_until_a_branch_is_long_enough() -> None:
    tasks = [task(f"task {n}", turns) for n, turns in enumerate((4, 3, 2, 5, 1))]

    assert [[t.name for t in group] for group in joined(tasks, 7)] == [
        ["task 0", "task 1"],
        ["task 2", "task 3", "task 4"],
    ]
    assert joined(tasks, 100) == [tuple(tasks)]


def test_halves_have_no_trajectory_in_common(tmp_path: Path) -> None:
    rows = [
        {
            "trajectory_id": f"trajectory {index}",
            "source_index": index,
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Go on."},
            ],
        }
        for index in (3, 1, 0, 2)
    ]
    (tmp_path / "taubench.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    names = {half: [t.name for t in taubench(tmp_path, half)[0].tasks] for half in Half}
    assert names == {
        Half.DEV: ["trajectory 0", "trajectory 2"],
        Half.HELDOUT: ["trajectory 1", "trajectory 3"],
    }
    first = taubench(tmp_path, Half.DEV)[0].tasks[0]
    assert (first.system, [m["role"] for m in first.messages]) == ("Be brief.", ["user"])


def test_missing_data_is_named_with_its_source(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match="SWE-agent") as caught:
        swe(tmp_path)

    assert repr(str(tmp_path)) in str(caught.value)
    assert "--data" in str(caught.value)
