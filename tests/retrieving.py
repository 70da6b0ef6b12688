"""Conversations with something to be found in them, and what a prompt retrieved of them."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

from durable_context import Branch, Budget, CompactionPolicy, PreparedContext
from durable_context.database import Pool
from durable_context.prompts.rendering import FOOT, RETRIEVED_HEAD
from tests.compacting import compact_all
from tests.prompts import check_prompt
from tests.turns import chat

WIDE = Budget(max_tokens=100_000)
POLICY = CompactionPolicy()
FIRST_DAY = datetime(2023, 1, 2, 9, tzinfo=UTC)

_SUBJECTS = (
    ("garden fence", "Larch boards outlast spruce.", "Two coats of oil before winter."),
    ("sourdough", "The starter wants rye flour.", "Let it rise twelve hours."),
    ("piano lesson", "Scales come before the sonata.", "Keep the wrists loose."),
    ("bicycle", "The rear brake squeaks.", "Clean the rim with alcohol."),
    ("holiday in Norway", "Ferries leave every morning.", "Book cabins early."),
    ("tax return", "Receipts are in the blue folder.", "Commuting counts, too."),
    ("aquarium", "The filter hums at night.", "Neon tetras like soft water."),
    ("chess club", "Openings bore the beginners.", "Show them endgames instead."),
    ("wardrobe", "The hinge came loose again.", "A longer screw holds better."),
    ("choir concert", "Altos enter too late.", "Count the rests aloud."),
)
_TONES = ("Tell me about", "I worry over", "Let us talk of", "My sister asked of", "Once more to")


def filler(turn: int) -> list[dict[str, Any]]:
    """A turn about something of every day."""
    chosen = [*product(_TONES, _SUBJECTS)]
    tone, (subject, said, advice) = chosen[turn * 7 % len(chosen)]
    return chat(f"{tone} the {subject}. {said}", f"About the {subject}: {advice}")


async def converse(
    branch: Branch,
    turns: int,
    said: Mapping[int, Sequence[object]] | None = None,
    *,
    start: int = 1,
    each: timedelta = timedelta(days=1),
) -> None:
    """Turns up to that number, a day after another, most of them filler."""
    for turn in range(start, turns + 1):
        messages = (said or {}).get(turn) or filler(turn)
        await branch.record_turn(messages, occurred_at=FIRST_DAY + (turn - 1) * each)


async def remembered(
    branch: Branch,
    pool: Pool,
    turns: int,
    said: Mapping[int, Sequence[object]] | None = None,
    policy: CompactionPolicy | None = None,
) -> None:
    """The same, compacted as far as it goes."""
    await converse(branch, turns, said)
    await compact_all(pool, branch.branch_uuid, policy or branch.policy)


async def asked(
    branch: Branch, message: Any, *, budget: Budget = WIDE, at_turn: int | None = None
) -> PreparedContext:
    """The prompt for a message, checked for what holds of every prompt."""
    prepared = await branch.prepare(message, budget=budget, at_turn=at_turn)
    assert prepared, prepared
    head = (await branch.inspect()).head_turn if at_turn is None else at_turn
    check_prompt(prepared, head, branch.policy)
    return prepared


def retrieved(prepared: PreparedContext) -> str:
    """What the record of retrieved turns says; empty if there is none."""
    records = [
        message["content"]
        for message in prepared.messages
        if str(message["content"]).startswith(RETRIEVED_HEAD)
    ]
    assert len(records) <= 1
    assert bool(records) == bool(blocks(prepared))
    return records[0].removeprefix(RETRIEVED_HEAD).removesuffix(FOOT) if records else ""


def blocks(prepared: PreparedContext) -> list[tuple[int | None, int | None]]:
    """First and last turn of each retrieved block, best first."""
    shown = [block for block in prepared.manifest.blocks if block.kind == "retrieved"]
    return [(block.from_turn, block.to_turn) for block in shown]


async def found(branch: Branch, message: Any) -> str:
    return retrieved(await asked(branch, message))
