"""Identifiers, numbers and dates find their turn, however they are written then and now."""

import pytest

from durable_context import Branch, ContextClient
from durable_context.database import Pool
from tests.retrieving import asked, blocks, found, remembered, retrieved
from tests.turns import chat

EXACT = [
    ("Open C:\\Users\\ada\\plan.xlsx for me.", "Where is plan.xlsx?"),
    ("It is commit 3f2a9bc41d7e8f90a1b2c3d4.", "What of 3f2a9bc41d7e8f90a1b2c3d4?"),
    ("Host 10.0.0.12:8080 refuses.", "And the host 10.0.0.12?"),
    ("It says ERR_CONN_RESET.", "err_conn_reset again"),
    ("Windows says 0x80070005.", "What does 0x80070005 mean here?"),
    ("We run v2.3.1 now.", "Do we still run 2.3.1?"),
    ("parse_config() is slow.", "Who calls parse_config?"),
    ("std::vector::reserve throws.", "Why does vector::reserve throw?"),
    ("See issue #4521.", "Is 4521 done?"),
    ("Mail ops@example.com.", "Who reads ops@example.com?"),
    ("See https://docs.example.org/guide/setup?x=1.", "What was at docs.example.org/guide/setup?"),
    ("Set DATABASE_URL first.", "What is DATABASE_URL?"),
    ("It is 550e8400-e29b-41d4-a716-446655440000", "And 550e8400-e29b-41d4-a716-446655440000?"),
    ("HTTP 502 from nginx", "Why HTTP 502?"),
    ("It cost $9,284.50.", "Why 9284.50 dollars?"),
    ("Es kostete 7.284,50 EUR.", "Why 7284.50?"),
    ("The flight is LH441.", "When does LH441 leave?"),
    ("Ticket JIRA-88.", "What is in jira-88?"),
    ("getUserName fails", "fix getusername"),
    ("src/app/main.py line 7", "look at app/main.py"),
    ("model gpt-4o-mini", "is it gpt-4o-mini?"),
    ("We took the C++ course.", "Which of it is in C++?"),
]
TURN = {said: 3 + 4 * number for number, (said, _) in enumerate(EXACT)}


@pytest.fixture
async def branch(client: ContextClient, pool: Pool) -> Branch:
    branch = await client.open_branch("terms")
    said = {turn: chat(text, "Noted.") for text, turn in TURN.items()}
    await remembered(branch, pool, 100, said)
    return branch


async def test_what_is_exact_is_found_however_it_is_written(branch: Branch):
    missed = [
        (said, message)
        for said, message in EXACT
        if f"[turn {TURN[said]}, " not in await found(branch, message)
    ]
    assert missed == []


async def test_an_identifier_weighs_more_than_words(client: ContextClient, pool: Pool):
    """The words all speak for the later turn, the number alone for the earlier one."""
    branch = await client.open_branch("parcels")
    said = {
        9: chat("Parcel 77120 is in Lagos.", "Noted."),
        33: chat("Send my parcel to Porto.", "Sent by sea."),
    }
    await remembered(branch, pool, 62, said)
    prepared = await asked(branch, "Was my parcel sent to Porto, 77120?")
    assert blocks(prepared)[0] == (7, 12)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("We meet the falconer on 2023-09-14.", "What happens on 14 September 2023?"),
        ("We meet the falconer on September 14th, 2023.", "What happens on 14.09.2023?"),
        ("We meet the falconer on 14 September 2023.", "What happens in September?"),
        ("We meet the falconer on 14 September 2023.", "What happens in September 2023?"),
        ("Am 14. September 2023 kommt der falconer.", "What happens on 2023-09-14?"),
        ("Yesterday I met a falconer.", "Whom did I meet on 9 January 2023?"),
        ("A falconer came today.", "Who came on January 10, 2023?"),
    ],
)
async def test_a_date_finds_what_was_said_of_it_or_on_it(
    client: ContextClient, pool: Pool, said: str, message: str
):
    """Turn 9 is of 10 January 2023."""
    branch = await client.open_branch("dates")
    await remembered(branch, pool, 62, {9: chat(said, "Noted.")})
    assert said in await found(branch, message)


async def test_a_day_is_found_in_a_young_branch_too(client: ContextClient, pool: Pool):
    branch = await client.open_branch("young")
    await remembered(branch, pool, 26, {7: chat("Yesterday I met a falconer.", "Noted.")})
    assert "falconer" in await found(branch, "What happened on 7 January 2023?")


async def test_an_image_alone_finds_nothing(client: ContextClient, pool: Pool):
    image = {"type": "image_url", "image_url": {"url": "https://example.org/b.png"}}
    branch = await client.open_branch("images")
    seen = [{"role": "user", "content": [image]}, {"role": "assistant", "content": "A heron."}]
    await remembered(branch, pool, 30, {7: seen})
    assert await found(branch, {"role": "user", "content": [image]}) == ""
    asks = {"role": "user", "content": [{"type": "text", "text": "Which heron was that?"}, image]}
    assert "assistant: A heron." in retrieved(await asked(branch, asks))
