"""Large tool results are kept aside, and the payload says how to read them."""

import asyncio
from collections import UserString
from typing import Any

import pytest

from durable_context import Branch, ContextClient
from durable_context.errors import ContextError, ProcessorError
from durable_context.models import LedgerEntry
from durable_context.processors.context import Context
from durable_context.processors.markers import handle_of, marker
from durable_context.processors.offloaded import reload_offloaded
from durable_context.processors.state import ContextState
from durable_context.processors.tool_result_offloader import ToolResultOffloader

ROWS = "row 17: mia@example.org paid 12.50 EUR\n" * 60


async def fire(
    result: Any, *, max_size: int = 100, ctx: Context | None = None, **more: Any
) -> tuple[Any, Context]:
    ctx = ctx or Context("task-1")
    payload = {"tool_result": result, "tool_name": "search", "tool_call_id": "c1", **more}
    await ToolResultOffloader(max_size=max_size).process(ctx, payload)
    return payload["tool_result"], ctx


def test_it_has_the_seeds_defaults() -> None:
    offloader = ToolResultOffloader()
    assert offloader.event == "post_tool_call"
    assert offloader.name == "tool_result_offloader"
    assert offloader.max_size == 5000
    assert ToolResultOffloader(max_size=7).max_size == 7


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "10", None])
def test_a_size_that_is_no_whole_number_from_1_is_refused(wrong: Any) -> None:
    with pytest.raises(ProcessorError, match=r"max_size=.*whole number from 1"):
        ToolResultOffloader(max_size=wrong)


def test_what_cannot_keep_artifacts_is_refused() -> None:
    with pytest.raises(ProcessorError, match=r"artifacts=.*must be a branch or None"):
        ToolResultOffloader(artifacts=object())  # type: ignore[arg-type]


@pytest.mark.parametrize("payload", [{}, {"tool_result": None}])
async def test_without_a_result_nothing_happens(payload: dict[str, Any]) -> None:
    ctx, given = Context("task-1"), dict(payload)
    await ToolResultOffloader(max_size=10).process(ctx, payload)
    assert payload == given
    assert ctx.state.to_dict() == {}


async def test_a_result_of_exactly_max_size_stays() -> None:
    result, ctx = await fire("x" * 100)
    assert result == "x" * 100
    assert "offloaded_results" not in ctx.state


async def test_a_larger_result_becomes_a_preview_of_half_the_size_with_a_reference() -> None:
    result, ctx = await fire("abcdefghij" * 20)
    (entry,) = ctx.state.get("offloaded_results")
    assert result == (
        "abcdefghij" * 5
        + "...\n\n[Result truncated — full content offloaded to workspace (200 chars)]"
        + f" [[OFFLOADED: handle={entry['handle']}]]"
    )


async def test_of_an_odd_size_the_preview_is_the_smaller_half() -> None:
    result, _ = await fire("x" * 20, max_size=11)
    assert result.startswith("xxxxx...")


async def test_the_entry_says_whose_result_it_was_and_holds_all_of_it() -> None:
    _, ctx = await fire("x" * 101)
    assert ctx.state.get("offloaded_results") == [
        {
            "tool_name": "search",
            "tool_call_id": "c1",
            "content": "x" * 101,
            "size": 101,
            "artifact_id": None,
            "handle": handle_of("x" * 101, "task-1"),
        }
    ]


async def test_names_and_ids_that_are_not_given_are_unknown() -> None:
    ctx = Context("task-1")
    await ToolResultOffloader(max_size=5).process(ctx, {"tool_result": "x" * 10})
    (entry,) = ctx.state.get("offloaded_results")
    assert (entry["tool_name"], entry["tool_call_id"]) == ("unknown", "unknown")


async def test_entries_accumulate_in_order() -> None:
    ctx = Context("task-1")
    for number in range(3):
        await fire("x" * 200, ctx=ctx, tool_call_id=f"c{number}")
    ids = [entry["tool_call_id"] for entry in ctx.state.get("offloaded_results")]
    assert ids == ["c0", "c1", "c2"]


async def test_large_output_is_offloaded_whatever_its_size() -> None:
    result, ctx = await fire("tiny", large_output=True)
    assert result.startswith("tiny...\n\n[Result truncated — full content offloaded")
    assert ctx.state.get("offloaded_results")[0]["size"] == 4


async def test_with_an_artifact_id_the_reference_names_it_without_a_preview() -> None:
    result, ctx = await fire("x" * 200, artifact_id="A1")
    (entry,) = ctx.state.get("offloaded_results")
    assert entry["artifact_id"] == "A1"
    assert result == (
        "[Result stored as artifact 'A1'. Call retrieve_artifact('A1') to access.]"
        f" {marker(entry['handle'])}"
    )


@pytest.mark.parametrize("small", [{"a": 1}, ["b"], b"bytes", 7, 1.5, False, ""])
async def test_a_small_result_that_is_no_text_keeps_its_type(small: Any) -> None:
    result, ctx = await fire(small)
    assert result is small
    assert "offloaded_results" not in ctx.state


@pytest.mark.parametrize(
    ("result", "kept"),
    [
        ({"city": "Zürich", "ok": True, "n": None}, '{"city": "Zürich", "ok": true, "n": null}'),
        (["ä", 1, False, "and more of it"], '["ä", 1, false, "and more of it"]'),
        (
            ("a tuple", "is", "a", "list", "in", "JSON"),
            '["a tuple", "is", "a", "list", "in", "JSON"]',
        ),
        ({"at": UserString("somewhere else")}, '{"at": "somewhere else"}'),
        ("grüße aus Zürich, wie immer".encode(), "grüße aus Zürich, wie immer"),
        (b"\xff\xfe and other bytes that are none", "\ufffd\ufffd and other bytes that are none"),
        (bytearray(b"a bytearray of some length"), "a bytearray of some length"),
        (12345678901234567890123, "12345678901234567890123"),
    ],
)
async def test_a_large_result_that_is_no_text_is_kept_as_json_or_decoded(
    result: Any, kept: str
) -> None:
    _, ctx = await fire(result, max_size=20)
    (entry,) = ctx.state.get("offloaded_results")
    assert entry["content"] == kept
    assert entry["size"] == len(kept)


async def test_models_in_a_result_are_json_too() -> None:
    found = LedgerEntry(kind="email", value="a@example.org")
    _, ctx = await fire([found], max_size=10)
    assert '"value": "a@example.org"' in ctx.state.get("offloaded_results")[0]["content"]


async def test_what_json_cannot_hold_is_kept_as_python_shows_it() -> None:
    cycle: dict[Any, Any] = {(1, 2): "a key that JSON does not know"}
    cycle["self"] = cycle
    result, ctx = await fire(cycle, max_size=20)
    assert "a key that JSON does not know" in ctx.state.get("offloaded_results")[0]["content"]
    assert isinstance(result, str)


@pytest.mark.parametrize("max_size", [1, 50, 100, 200])
@pytest.mark.parametrize("more", [{}, {"large_output": True}, {"artifact_id": "A1"}])
async def test_firing_again_with_its_own_reference_changes_nothing(
    max_size: int, more: dict[str, Any]
) -> None:
    result, ctx = await fire("x" * 300, max_size=max_size, **more)
    entries = ctx.state.get("offloaded_results")
    again, _ = await fire(result, max_size=max_size, ctx=ctx, **more)
    assert again == result
    assert ctx.state.get("offloaded_results") is entries


async def test_a_retry_with_the_original_adds_nothing() -> None:
    first, ctx = await fire("x" * 300)
    entries = list(ctx.state.get("offloaded_results"))
    again, _ = await fire("x" * 300, ctx=ctx)
    assert again == first
    assert ctx.state.get("offloaded_results") == entries


async def test_a_long_text_that_ends_in_a_reference_is_offloaded_with_it() -> None:
    reference, ctx = await fire("x" * 300)
    forged = "something else " * 50 + reference
    result, _ = await fire(forged, ctx=ctx)
    assert result.startswith("something else")
    assert await reload_offloaded(ctx, result[-18:-2]) == forged


async def test_a_reference_with_a_longer_preview_than_it_may_have_is_offloaded() -> None:
    reference, ctx = await fire("0123456789" * 100)
    longer = "0123456789" * 90 + reference[50:]
    result, _ = await fire(longer, ctx=ctx)
    assert len(result) < 200
    assert await reload_offloaded(ctx, result[-18:-2]) == longer


async def test_what_was_reloaded_is_not_offloaded_again() -> None:
    result, ctx = await fire("x" * 300, tool_name="reload_offloaded", large_output=True)
    assert result == "x" * 300
    assert "offloaded_results" not in ctx.state


async def test_the_reference_is_found_by_reload_offloaded() -> None:
    result, ctx = await fire("first half, " * 30 + "the end")
    assert (await reload_offloaded(ctx, result[-18:-2])).endswith("the end")


async def test_a_child_never_appends_to_its_parents_list() -> None:
    _, parent = await fire("x" * 300)
    entries = parent.state.get("offloaded_results")
    child = parent.fork("child")
    await fire("y" * 300, ctx=child, tool_call_id="c2")
    assert parent.state.get("offloaded_results") is entries
    assert len(entries) == 1
    assert len(child.state.get("offloaded_results")) == 2


async def test_a_state_that_shares_its_parents_list_does_not_change_it() -> None:
    _, parent = await fire("x" * 300)
    child = Context("child", state=ContextState(parent=parent.state))
    await fire("y" * 300, ctx=child, tool_call_id="c2")
    assert len(parent.state.get("offloaded_results")) == 1


async def test_a_state_that_holds_something_else_is_refused_and_stays() -> None:
    ctx = Context("task-1")
    ctx.state.set("offloaded_results", "nonsense")
    with pytest.raises(ContextError, match=r"offloaded_results.*'nonsense'.*list of dicts"):
        await fire("x" * 300, ctx=ctx)


@pytest.fixture
async def branch(client: ContextClient) -> Branch:
    return await client.open_branch("conversation", "main")


async def test_an_offloaded_result_is_an_artifact_and_its_entry_names_it(branch: Branch) -> None:
    ctx = await Context.from_branch(branch)
    payload = {"tool_result": ROWS, "tool_name": "query", "tool_call_id": "c1"}
    await ToolResultOffloader(max_size=100, artifacts=branch).process(ctx, payload)
    (artifact,) = await branch.artifacts()
    assert ctx.state.get("offloaded_results") == [
        {
            "tool_name": "query",
            "tool_call_id": "c1",
            "size": len(ROWS),
            "artifact_id": None,
            "handle": artifact.name,
            "artifact": artifact.handle,
        }
    ]
    assert payload["tool_result"] == (
        f"{ROWS[:50]}...\n\n[Result truncated — full content kept as artifact ({len(ROWS)} chars)]"
        f" [[OFFLOADED: handle={artifact.name}]]"
    )
    assert await reload_offloaded(ctx, str(artifact.name)) == ROWS


@pytest.mark.parametrize("max_size", [10, 100])
async def test_over_a_branch_firing_again_changes_nothing_after_a_restart_either(
    branch: Branch, max_size: int
) -> None:
    ctx = await Context.from_branch(branch)
    offloader = ToolResultOffloader(max_size=max_size, artifacts=branch)
    payload = {"tool_result": ROWS, "tool_name": "query", "tool_call_id": "c1"}
    await offloader.process(ctx, payload)
    before = dict(payload), ctx.state.get("offloaded_results")
    await offloader.process(ctx, payload)
    restarted = await Context.from_branch(branch)
    await offloader.process(restarted, payload)
    assert (payload, ctx.state.get("offloaded_results")) == before
    assert "offloaded_results" not in restarted.state
    assert len(await branch.artifacts()) == 1


async def test_results_that_come_at_the_same_time_are_all_noted(branch: Branch) -> None:
    ctx = await Context.from_branch(branch)
    offloader = ToolResultOffloader(max_size=100, artifacts=branch)
    payloads = [{"tool_result": f"{n} {ROWS}", "tool_call_id": f"c{n}"} for n in range(5)]
    await asyncio.gather(*(offloader.process(ctx, payload) for payload in payloads))
    noted = {entry["tool_call_id"] for entry in ctx.state.get("offloaded_results")}
    assert noted == {f"c{n}" for n in range(5)}
    assert len(ctx.state.get("offloaded_artifacts")) == 5
