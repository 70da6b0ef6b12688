"""What a message finds of turns long past, and what it finds nothing with."""

from typing import Any

import pytest

from durable_context import Branch, CompactionPolicy, ContextClient
from durable_context.database import Pool
from tests.compacting import compact_once
from tests.prompts import raw_turns
from tests.retrieving import asked, blocks, converse, filler, found, remembered, retrieved
from tests.turns import chat, exchange

SAID = {
    3: chat("Our landlord is called Ferdinand Okonkwo.", "Noted, Ferdinand Okonkwo."),
    9: chat("The importer died with E4031 last night.", "E4031 means that the disk is full."),
    14: chat("What did the plumber charge?", "The plumber's invoice came to 1,284.50 euros."),
    20: [
        {"role": "user", "content": "Where is retrying configured?"},
        *exchange("c1", "retries: 7", "read_file", path="src/billing/retry_policy.yaml"),
        {"role": "assistant", "content": "In src/billing/retry_policy.yaml, seven attempts."},
    ],
    27: chat("We adopted a puppy on 8 May 2023!", "Congratulations! What is the puppy called?"),
    33: chat("Ship parcel PKG-77120 to Lagos.", "PKG-77120 goes to Lagos by air."),
    39: chat("Grandmother was swimming across the lake.", "At her age, remarkable."),
    40: chat("Ship parcel PKG-77121 to Porto.", "PKG-77121 goes to Porto by sea."),
    46: chat("How tall is the new lighthouse?", "It rises forty-one metres."),
}


@pytest.fixture
async def branch(client: ContextClient, pool: Pool) -> Branch:
    branch = await client.open_branch("old talk")
    await remembered(branch, pool, 62, SAID)
    return branch


@pytest.mark.parametrize(
    ("message", "turn", "quoted"),
    [
        ("Who was Okonkwo?", 3, "Ferdinand Okonkwo"),
        ("I see E4031 again, what was it?", 9, "the disk is full"),
        ("Did somebody send me a bill of 1284.50?", 14, "1,284.50 euros"),
        ("Open src/billing/retry_policy.yaml", 20, "seven attempts"),
        ("What is in retry_policy.yaml?", 20, "seven attempts"),
        ("What happened on 8 May 2023?", 27, "adopted a puppy"),
        ("Where did PKG-77120 go?", 33, "to Lagos by air"),
        ("Where did 77121 go?", 40, "to Porto by sea"),
        ("Who swims in lakes?", 39, "swimming across the lake"),
        ("Tell me again about adopting puppies", 27, "adopted a puppy"),
    ],
)
async def test_an_old_turn_is_quoted_with_its_number_and_day(
    branch: Branch, message: str, turn: int, quoted: str
):
    text = await found(branch, message)
    days = {turn: (await branch.turns(turn, turn))[0].occurred_at}
    assert f"[turn {turn}, {days[turn]:%Y-%m-%d}]" in text
    assert quoted in text


async def test_a_day_finds_what_was_said_on_it(branch: Branch):
    (turn,) = await branch.turns(31, 31)
    prepared = await asked(branch, f"What did we talk about on {turn.occurred_at:%d %B %Y}?")
    assert "[turn 31, 2023-02-01]" in retrieved(prepared)


async def test_a_month_without_its_year_finds_what_happened_in_it(branch: Branch):
    assert "adopted a puppy" in await found(branch, "What did I tell you of a puppy in May?")


async def test_an_answer_is_quoted_with_the_question_before_it(branch: Branch):
    text = await found(branch, "Which thing rises forty-one metres?")
    lines = text.splitlines()
    (answer,) = [n for n, line in enumerate(lines) if "It rises forty-one metres." in line]
    assert "How tall is the new lighthouse?" in lines[answer - 1]


@pytest.mark.parametrize(
    "message",
    [
        "hello",
        "Thanks a lot!",
        "Good morning, how are you?",
        "ok",
        "Yes, please go on.",
        "and of the to is",
        "👍",
        "...",
        "?!",
        "     \n",
        "\x00",
        "\ud800",
    ],
)
async def test_small_talk_and_stop_words_find_nothing(branch: Branch, message: str):
    assert await found(branch, message) == ""


async def test_what_was_never_spoken_of_finds_nothing(branch: Branch):
    message = (
        "Please write a haskell quicksort over generic comparators; benchmark allocations "
        "against mergesort, heapsort and introsort, then graph throughput by input cardinality, "
        "annotating each asymptotic bound with its proof sketch."
    )
    assert await found(branch, message) == ""


@pytest.mark.parametrize("named", [True, False])
async def test_the_names_of_the_speakers_find_nothing(
    client: ContextClient, pool: Pool, named: bool
):
    def speaks(name: str, role: str, text: str) -> dict[str, Any]:
        if named:
            return {"role": role, "content": text, "name": name}
        return {"role": role, "content": f"{name}: {text}"}

    branch = await client.open_branch("two people")
    said: dict[int, list[Any]] = {}
    for turn in range(1, 63):
        user, assistant = (message["content"] for message in filler(turn))
        said[turn] = [speaks("Melanie", "user", user), speaks("Jolene", "assistant", assistant)]
    said[9] = [
        speaks("Melanie", "user", "I bought a harp, and my mother said: Melanie!"),
        speaks("Jolene", "assistant", "Oh, Melanie!"),
    ]
    await remembered(branch, pool, 62, said)
    for message in ("Melanie, Jolene!", "Hello Melanie", "Thanks, Jolene."):
        assert await found(branch, message) == ""
    assert "I bought a harp" in await found(branch, "Which instrument, a harp, did Melanie buy?")


async def test_a_branch_without_turns_has_nothing_to_find(client: ContextClient):
    branch = await client.open_branch("new")
    assert await found(branch, "Where is E4031 in src/main.py of 8 May 2023?") == ""


@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize("turns", [20, 200])
async def test_compaction_that_is_behind_still_lets_digested_turns_be_found(
    client: ContextClient, pool: Pool, turns: int, compacted: bool
):
    branch = await client.open_branch("behind")
    target = turns - 12
    await converse(branch, turns, {target: SAID[9]})
    if compacted:
        await compact_once(pool, branch.branch_uuid, branch.policy)
    prepared = await asked(branch, "Explain to my boss why the importer died with E4031")
    assert blocks(prepared) == [(target, target)]
    assert retrieved(prepared).startswith(f"[turn {target}, ")
    assert "E4031 means that the disk is full." in retrieved(prepared)
    (block,) = [one for one in prepared.manifest.blocks if one.kind == "retrieved"]
    assert block.source_ids == ()


async def test_before_any_leaf_what_is_named_comes_before_what_was_spoken_of_last(
    client: ContextClient,
):
    branch = await client.open_branch("behind")
    await converse(branch, 200, {188: SAID[9]})
    prepared = await asked(branch, "I see E4031 again, what was it?")
    assert blocks(prepared)[0] == (188, 188)


async def test_raw_turns_are_never_repeated(client: ContextClient, pool: Pool):
    branch = await client.open_branch("raw")
    await remembered(branch, pool, 30, {5: SAID[9], 29: SAID[9], 30: SAID[33]})
    prepared = await asked(branch, "What of E4031 and PKG-77120?")
    assert raw_turns(prepared) == [29, 30]
    assert "[turn 5, " in retrieved(prepared)
    assert "PKG-77120" not in retrieved(prepared)
    young = await client.open_branch("young")
    await converse(young, 6, {2: SAID[9]})
    assert await found(young, "I see E4031 again, what was it?") == ""


async def test_no_blocks_or_no_tokens_for_them_means_none(client: ContextClient, pool: Pool):
    branch = await client.open_branch("old talk")
    await remembered(branch, pool, 30, SAID)
    message = "I see E4031 again, what was it?"
    assert await found(branch, message)
    for policy in (CompactionPolicy(retrieved_blocks=0), CompactionPolicy(retrieved_tokens=0)):
        branch.policy = policy
        assert await found(branch, message) == ""
