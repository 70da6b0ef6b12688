"""Inputs that are larger than the budget, in every place: what a view can shorten blocks nothing,
and what must stay whole is said to be too large.
"""

import json
from base64 import b64encode
from typing import Any

import pytest

from durable_context import Branch, Budget, BudgetExceeded, CompactionPolicy, ContextClient
from durable_context.prompts.manifest import BlockKind
from durable_context.tokens import REPLY_OVERHEAD, token_counter
from tests.prompts import check_prompt, raw_turns
from tests.provider_prompts import check_providers
from tests.turns import call, calling, chat, exchange, numbered, result
from tests.unit.test_media import png

POLICY = CompactionPolicy()
COUNTER = token_counter("o200k_base")
DOCUMENT = "\n".join(
    f"Clause {n}: for delay {n} the carrier pays {7 * n} EUR." for n in range(1950)
)
"""About 30,000 tokens."""
ROWS = json.dumps([{"row": n, "state": "late", "value": n * 7} for n in range(1_000)])
MEDIUM = "pressure 1013 kPa, " * 50
"""Too small for a view of its own: 300 tokens."""
PIXELS = b64encode(png(2_000, 2_000)).decode()


def image() -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXELS}"}}


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


def parallel(count: int, content: str, **arguments: str) -> list[dict[str, Any]]:
    """One assistant message with many calls, and their results."""
    calls = [call(f"call_{n:03d}", "get_reservation", n=n, **arguments) for n in range(count)]
    return [calling(*calls), *(result(f"call_{n:03d}", content) for n in range(count))]


PASTED = {
    "user message": chat(DOCUMENT, "I have read it."),
    "assistant message": chat("Write the contract.", DOCUMENT),
    "content parts": [
        {"role": "user", "content": [text("Read this:"), text(DOCUMENT), text("Thanks.")]},
        {"role": "assistant", "content": "I have read it."},
    ],
    "parts beside images": [
        {"role": "user", "content": [image(), text(DOCUMENT), image()]},
        {"role": "assistant", "content": "I have read it."},
    ],
    "arguments": [
        {"role": "user", "content": "Save it."},
        *exchange("a", "saved", "write_file", path="contract.txt", text=DOCUMENT),
        {"role": "assistant", "content": "Saved."},
    ],
    "result": [
        {"role": "user", "content": "Load it."},
        *exchange("a", DOCUMENT, "read_file", path="contract.txt"),
        {"role": "assistant", "content": "Loaded."},
    ],
    "JSON result": [
        {"role": "user", "content": "Load it."},
        *exchange("a", ROWS, "query", table="rows"),
        {"role": "assistant", "content": "Loaded."},
    ],
    "several": [
        {"role": "user", "content": DOCUMENT},
        *exchange("a", DOCUMENT, "write_file", text=DOCUMENT),
        *exchange("a", ROWS, "write_file", text=ROWS),
        {"role": "assistant", "content": DOCUMENT},
    ],
    "one line": chat("x7Qz+/" * 15_000, "?"),
    "blanks": chat(" \n" * 100_000 + "end", "?"),
    "many calls": [
        {"role": "user", "content": "All of them."},
        *parallel(60, MEDIUM),
        {"role": "assistant", "content": "Done."},
    ],
    "images": [
        {"role": "user", "content": [text("Compare these."), *(image() for _ in range(6))]},
        {"role": "assistant", "content": "The third is sharper."},
    ],
}


@pytest.mark.parametrize("turn", PASTED.values(), ids=PASTED)
async def test_what_the_turn_before_holds_blocks_nothing(
    client: ContextClient, turn: list[dict[str, Any]]
):
    branch = await client.open_branch("c")
    await branch.record_turn(numbered(1))
    await branch.record_turn(turn)
    for limit in (1_500, 700, 300):
        prepared = await branch.prepare("Which clause is last?", budget=Budget(max_tokens=limit))
        assert prepared
        check_prompt(prepared, 2, POLICY)
        check_providers(prepared)
        assert prepared.messages[-1]["content"] == "Which clause is last?"
    await _check_refusals(branch, "Which clause is last?")


async def _check_refusals(branch: Branch, message: str | None, **options: Any) -> BudgetExceeded:
    """From 1 token up: the same refusal until it fits, and then a prompt."""
    refused = await branch.prepare(message, budget=Budget(max_tokens=1), **options)
    assert isinstance(refused, BudgetExceeded)
    assert sum(block.token_count for block in refused.blocks) + REPLY_OVERHEAD == refused.smallest
    assert refused.smallest <= refused.required
    for limit in {2, 3, refused.smallest // 2, refused.smallest - 1}:
        again = await branch.prepare(message, budget=Budget(max_tokens=limit), **options)
        assert again == refused.model_copy(update={"limit": limit})
    enough = Budget(max_tokens=refused.smallest)
    prepared = await branch.prepare(message, budget=enough, **options)
    assert prepared
    check_prompt(prepared, prepared.manifest.head_turn, POLICY)
    check_providers(prepared)
    return refused


async def test_every_budget_from_one_up_is_refused_or_met(client: ContextClient):
    branch = await client.open_branch("c")
    await branch.record_turn(numbered(1))
    await branch.record_turn(PASTED["several"])
    refused = await branch.prepare("And?", budget=Budget(max_tokens=1))
    assert isinstance(refused, BudgetExceeded)
    for limit in range(1, refused.smallest + 60):
        prepared = await branch.prepare("And?", budget=Budget(max_tokens=limit))
        assert bool(prepared) == (limit >= refused.smallest)
        if prepared:
            check_prompt(prepared, 2, POLICY)
        else:
            assert prepared == refused.model_copy(update={"limit": limit})


async def test_a_turn_larger_than_the_budget_stands_in_short(client: ContextClient):
    branch = await client.open_branch("c")
    work: list[Any] = [{"role": "user", "content": "Go through all shipments."}]
    for n in range(150):
        work += exchange(f"call_{n}", f"SHP-{n:04d} {MEDIUM}", "look", shipment=n)
    await branch.record_turn([*work, {"role": "assistant", "content": "All 150 are on time."}])
    prepared = await branch.prepare("Which was last?", budget=Budget(max_tokens=8_000))
    assert prepared
    check_prompt(prepared, 1, POLICY)
    check_providers(prepared)
    said = str(prepared.messages)
    assert "Go through all shipments." in said and "All 150 are on time." in said
    await _check_refusals(branch, "Which was last?")


async def test_a_new_message_is_never_shortened(client: ContextClient):
    branch = await client.open_branch("c")
    await branch.record_turn(numbered(1))
    for message in (DOCUMENT, "word " * 400):
        refused = await branch.prepare(message, budget=Budget(max_tokens=300))
        _check_named(refused, "user", COUNTER.count(message))
        enough = Budget(max_tokens=refused.smallest)  # type: ignore[union-attr]
        prepared = await branch.prepare(message, budget=enough)
        assert prepared and prepared.messages[-1]["content"] == message
    await _check_refusals(branch, DOCUMENT)


def _check_named(refused: object, kind: BlockKind, tokens: int) -> None:
    """The block that does not fit is said with its tokens."""
    assert isinstance(refused, BudgetExceeded)
    [block] = [block for block in refused.blocks if block.kind == kind]
    assert block.token_count >= tokens
    assert refused.required >= refused.smallest > refused.limit
    assert block.token_count > refused.limit


async def test_instructions_and_tools_that_exceed_the_budget_are_named(client: ContextClient):
    branch = await client.open_branch("c")
    await branch.record_turn(numbered(1))
    tool = {
        "type": "function",
        "function": {"name": "get", "description": DOCUMENT, "parameters": {"type": "object"}},
    }
    for fields in ({"instructions": DOCUMENT}, {"tools": [tool]}):
        budget = Budget(max_tokens=8_000, **fields)  # type: ignore[arg-type]
        refused = await branch.prepare("hello", budget=budget)
        assert refused == await branch.prepare("hello", budget=budget)
        _check_named(refused, "instructions", COUNTER.count(DOCUMENT))
        assert isinstance(refused, BudgetExceeded)
        enough = Budget(max_tokens=refused.smallest, **fields)  # type: ignore[arg-type]
        prepared = await branch.prepare("hello", budget=enough)
        assert prepared
        check_prompt(prepared, 1, POLICY)


async def test_the_task_of_an_open_run_is_never_shortened(client: ContextClient):
    branch = await client.open_branch("c")
    await branch.record_turn(numbered(1))
    task = [{"role": "user", "content": DOCUMENT}, *exchange("a", "noted")]
    await branch.record_turn(task, continues=True)
    await branch.record_turn(exchange("b", "noted again"), continues=True)
    _check_named(
        await branch.prepare(None, budget=Budget(max_tokens=8_000)), "task", COUNTER.count(DOCUMENT)
    )
    refused = await _check_refusals(branch, None)
    prepared = await branch.prepare(None, budget=Budget(max_tokens=refused.smallest))
    assert prepared and DOCUMENT in [message["content"] for message in prepared.messages]


PENDING = {
    "huge results": [one for n in range(5) for one in exchange(f"a{n}", DOCUMENT, "read", n=n)],
    "huge arguments": [
        one for n in range(5) for one in exchange(f"a{n}", "saved", "write", text=DOCUMENT, n=n)
    ],
    "huge both": [one for n in range(3) for one in exchange("a", ROWS, "write", text=DOCUMENT)],
    "huge words": [calling(call("a", "go"), content=DOCUMENT), result("a", "gone")],
    "60 parallel": parallel(60, "ok"),
    "60 medium results": parallel(60, MEDIUM),
    "60 huge results": parallel(60, ROWS),
    "60 huge arguments": parallel(60, "saved", text=DOCUMENT),
    "60 medium both": parallel(60, MEDIUM, text=MEDIUM),
    "60 exchanges": [one for n in range(60) for one in exchange(f"a{n}", MEDIUM, "read", n=n)],
    "images": [
        calling(call("a", "screenshot")),
        {"role": "tool", "tool_call_id": "a", "content": [image() for _ in range(8)]},
    ],
}


@pytest.mark.parametrize("pending", PENDING.values(), ids=PENDING)
async def test_what_is_pending_blocks_nothing(client: ContextClient, pending: list[dict[str, Any]]):
    branch = await client.open_branch("c")
    await branch.record_turn(numbered(1))
    await branch.record_turn([{"role": "user", "content": "Do it all."}], continues=True)
    prepared = await branch.prepare(None, budget=Budget(max_tokens=8_000), pending=pending)
    assert prepared
    check_prompt(prepared, 2, POLICY)
    check_providers(prepared)
    assert "Do it all." in [message["content"] for message in prepared.messages]
    _check_same_exchanges(prepared.messages[-len(pending) :], pending)
    refused = await _check_refusals(branch, None, pending=pending)
    assert refused.smallest < 4_000


def _check_same_exchanges(shown: Any, pending: list[dict[str, Any]]) -> None:
    """The same calls and results in the same order; arguments are still a JSON object."""
    for message, whole in zip(shown, pending, strict=True):
        assert message["role"] == whole["role"]
        assert message.get("tool_call_id") == whole.get("tool_call_id")
        calls = message.get("tool_calls", [])
        names = [(one["id"], one["function"]["name"]) for one in whole.get("tool_calls", [])]
        assert [(one["id"], one["function"]["name"]) for one in calls] == names
        for one in calls:
            assert isinstance(json.loads(one["function"]["arguments"]), dict)
        assert message["role"] != "tool" or message["content"]


async def test_pending_results_are_whole_while_there_is_room(client: ContextClient):
    branch = await client.open_branch("c")
    await branch.record_turn([{"role": "user", "content": "Do it all."}], continues=True)
    pending = [*parallel(20, MEDIUM), *exchange("last", DOCUMENT)]
    prepared = await branch.prepare(None, budget=Budget(max_tokens=100_000), pending=pending)
    assert prepared and prepared.messages[-1]["content"] == DOCUMENT
    prepared = await branch.prepare(None, budget=Budget(max_tokens=16_000), pending=pending)
    assert prepared
    contents = [message["content"] for message in prepared.messages]
    assert contents.count(MEDIUM) == 20, "the largest gives way first"
    assert len(contents[-1]) < len(DOCUMENT) / 3, "and takes what room is left"
    assert prepared.token_count > 15_000
    assert "Clause 0" in contents[-1] and "Clause 1949" in contents[-1]


async def test_signed_reasoning_is_whole_or_nothing(client: ContextClient):
    """Providers refuse it when it was cut: what is pending needs it, raw turns give way whole."""
    branch = await client.open_branch("c")
    await branch.record_turn([{"role": "user", "content": "Do it all."}], continues=True)
    thought = {
        "type": "thinking",
        "thinking": "The carrier pays for delays. " * 800,
        "signature": "c2ln",
    }
    signed = [{"provider": "anthropic", "block": thought}]
    pending = [calling(call("a", "go")) | {"reasoning": signed}, result("a", "gone")]
    refused = await branch.prepare(None, budget=Budget(max_tokens=2_000), pending=pending)
    _check_named(refused, "pending", COUNTER.count("The carrier pays for delays. " * 800))
    await branch.record_turn(pending, continues=True)
    wide = await branch.prepare(None, budget=Budget(max_tokens=8_000))
    assert wide and thought in wide.to_anthropic()["messages"][1]["content"]
    prepared = await branch.prepare(
        None, budget=Budget(max_tokens=2_000), pending=exchange("b", "gone too")
    )
    assert prepared and not prepared.reasoning
    check_prompt(prepared, 2, POLICY)
    check_providers(prepared)


async def test_images_in_raw_turns_are_left_out_by_budget_and_come_back_with_room(
    client: ContextClient,
):
    branch = await client.open_branch("c")
    await branch.record_turn(PASTED["images"])
    await branch.record_turn(PASTED["parts beside images"])
    wide = await branch.prepare("Which?", budget=Budget(max_tokens=100_000))
    assert wide and len(wide.parts) == 8
    loaded = await wide.load_parts()
    assert image() in [part for m in loaded.messages for part in m["content"] if part != ""]
    for limit in (6_000, 3_000, 1_000, 400):
        prepared = await branch.prepare("Which?", budget=Budget(max_tokens=limit))
        assert prepared
        check_prompt(prepared, 2, POLICY)
        check_providers(prepared)
        assert (await prepared.load_parts()).token_count <= limit
    assert raw_turns(wide) == [1, 2]
    await _check_refusals(branch, "Which?")


async def test_long_arguments_that_are_pending_take_what_room_there_is(client: ContextClient):
    branch = await client.open_branch("c")
    await branch.record_turn([{"role": "user", "content": "Write it."}], continues=True)
    pending = [calling(call("w", "write_file", content=DOCUMENT)), result("w", "written")]
    prepared = await branch.prepare(None, budget=Budget(max_tokens=8_000), pending=pending)
    assert prepared
    [written] = prepared.messages[-2]["tool_calls"]
    assert json.loads(written["function"]["arguments"])["content"].startswith(DOCUMENT[:1_000])
    assert prepared.token_count > 3_000
