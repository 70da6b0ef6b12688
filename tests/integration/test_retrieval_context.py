"""What a message finds by what was said before it: short questions, continuations, open runs."""

from collections.abc import Mapping, Sequence

import pytest

from durable_context import Branch, ContextClient
from durable_context.database import Pool
from tests.compacting import compact_all
from tests.retrieving import FIRST_DAY, WIDE, asked, blocks, found, remembered, retrieved
from tests.turns import chat, exchange

SAID: Mapping[int, Sequence[object]] = {
    5: chat("The samovar of uncle Piotr leaks.", "Solder it with tin, the samovar is brass."),
    17: chat("Penguins breed on Heard Island.", "The penguins there number two million."),
    22: chat("Gwendolyn wrote two novels.", "The second novel of Gwendolyn is Mistral."),
    30: chat("What do you know of the samovar?", "Piotr owns one, the samovar leaks."),
}


async def _branch(client: ContextClient, pool: Pool, last: Sequence[object]) -> Branch:
    branch = await client.open_branch("talk")
    await remembered(branch, pool, 30, {**SAID, 30: last})
    return branch


@pytest.mark.parametrize(
    "message",
    [
        "And the second one?",
        "why?",
        "What about it?",
        "Tell me more",
        "How so?",
        "Can you explain that?",
        "again, please",
        "And then?",
    ],
)
async def test_a_message_that_leans_on_the_last_turn_finds_what_that_was_about(
    client: ContextClient, pool: Pool, message: str
):
    branch = await _branch(
        client, pool, chat("How many novels has Gwendolyn written?", "Gwendolyn wrote two novels.")
    )
    assert "[turn 22, " in await found(branch, message)


async def test_what_a_short_message_says_itself_comes_first(client: ContextClient, pool: Pool):
    branch = await _branch(client, pool, SAID[30])
    prepared = await asked(branch, "And penguins?")
    assert blocks(prepared)[0] == (13, 18)
    assert "penguins there number two million" in retrieved(prepared)


async def test_a_full_question_is_not_about_the_last_turn(client: ContextClient, pool: Pool):
    branch = await _branch(client, pool, SAID[30])
    text = await found(branch, "How many penguins breed there on Heard Island these days?")
    assert "penguins there number two million" in text
    assert "samovar" not in text


async def test_a_greeting_does_not_bring_up_the_last_turn(client: ContextClient, pool: Pool):
    branch = await _branch(client, pool, SAID[30])
    assert await found(branch, "Thank you, good night!") == ""


async def test_an_open_run_asks_with_its_task_and_its_latest_step(
    client: ContextClient, pool: Pool
):
    branch = await client.open_branch("run")
    await remembered(branch, pool, 30, SAID | {30: chat("Good morning.", "Good morning!")})
    assert retrieved(await asked(branch, None)) == ""
    await branch.record_turn(
        [
            {"role": "user", "content": "Write a report on the samovar of Piotr."},
            *exchange("c1", "empty", "list_files", path="reports"),
        ],
        continues=True,
        occurred_at=FIRST_DAY,
    )
    by_task = retrieved(await asked(branch, None))
    assert "Solder it with tin" in by_task
    assert "penguins" not in by_task
    await branch.record_turn(
        exchange("c2", "Heard Island: how many penguins?", "read_file", path="todo.txt"),
        continues=True,
        occurred_at=FIRST_DAY,
    )
    by_step = retrieved(await asked(branch, None))
    assert "Solder it with tin" in by_step
    assert "penguins there number two million" in by_step


async def test_an_open_run_does_not_find_its_own_raw_stretches(client: ContextClient, pool: Pool):
    branch = await client.open_branch("run")
    await remembered(branch, pool, 20, SAID)
    task = {"role": "user", "content": "Write a report on the samovar of Piotr."}
    steps = [exchange(f"c{n}", f"The samovar, chapter {n}.", "draft") for n in range(12)]
    await branch.record_turn([task, *steps[0]], continues=True)
    for step in steps[1:]:
        await branch.record_turn(step, continues=True)
    await compact_all(pool, branch.branch_uuid)
    prepared = await branch.prepare(None, budget=WIDE)
    assert prepared
    assert "Solder it with tin" in retrieved(prepared)
    assert "chapter" not in retrieved(prepared)
    assert str(prepared.messages).count("Write a report on the samovar") >= 1
