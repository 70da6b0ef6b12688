"""What compactions cost and saved, in figures that can be checked by hand."""

from decimal import Decimal
from typing import TypeAlias

import asyncpg
import pytest

from durable_context import Branch, Checkpoint, ContextClient
from durable_context.compaction.accounting import Figures, figures
from durable_context.database import Pool
from durable_context.errors import SummarizerUnavailable
from durable_context.models import Compaction
from durable_context.prompts.rendering import RenderedCheckpoint
from durable_context.summarizers import Attempt
from durable_context.tokens import token_counter
from tests.compacting import compact_all
from tests.compaction.scripted import ScriptedSummarizer
from tests.compaction.test_compactor import Steps, record
from tests.rebuilding import RebuildSteps

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
COUNTER = token_counter("o200k_base")
MODEL = "model/openai:gpt-4o-mini/1"
READ, WRITTEN = 500, 20
"""Tokens of each call of a `ScriptedSummarizer`."""


@pytest.fixture
async def branch(client: ContextClient) -> Branch:
    return await client.open_branch("conversation")


async def tokens(branch: Branch, from_turn: int, to_turn: int) -> int:
    return sum(turn.token_count for turn in await branch.turns(from_turn, to_turn))


async def newest(branch: Branch) -> Compaction:
    return (await branch.compactions())[0]


def behind_what_is_alike(old: str, new: str) -> str:
    return old[next(place for place in range(len(old)) if old[place] != new[place : place + 1]) :]


async def test_a_compaction_says_what_it_cost_and_saves_with_each_turn(
    branch: Branch, pool: Pool
) -> None:
    await record(branch, 8)
    await Steps(pool, branch, ScriptedSummarizer(recipe=MODEL)).all()
    [made], [checkpoint] = await branch.compactions(), await branch.checkpoints()
    assert made.saved_tokens is not None and made.broken_tokens is not None
    assert (made.input_tokens, made.output_tokens) == (READ, WRITTEN)
    assert made.price == Decimal("0.000087")  # 500 at $0.15 and 20 at $0.60 a million
    assert (made.head_turn, made.level) == (8, 0)
    assert made.saved_tokens == await tokens(branch, 1, 6) - checkpoint.token_count > 0
    assert made.broken_tokens == await tokens(branch, 7, 8) > 0
    assert made.balance == -made.broken_tokens - READ - WRITTEN
    await record(branch, 5)
    assert (await newest(branch)).balance == made.balance + 5 * made.saved_tokens


async def test_savings_of_all_compactions_add_up_to_what_prompts_are_spared(
    branch: Branch, pool: Pool
) -> None:
    await record(branch, 26)
    await compact_all(pool, branch.branch_uuid)
    made, checkpoints = await branch.compactions(), await branch.checkpoints()
    saved = sum(one.saved_tokens or 0 for one in made)
    assert saved == await tokens(branch, 1, 24) - checkpoints[-1].token_count
    assert [one.price for one in made] == [Decimal(0)] * 4


async def test_only_what_prompts_showed_is_read_anew(branch: Branch, pool: Pool) -> None:
    await record(branch, 8)
    await compact_all(pool, branch.branch_uuid)
    await record(branch, 18)
    await compact_all(pool, branch.branch_uuid)
    made, checkpoints = await branch.compactions(), await branch.checkpoints()
    old, new = checkpoints[0].text, checkpoints[1].text
    anew = COUNTER.count(behind_what_is_alike(old, new))
    waiting = sum([await digest_tokens(pool, branch, turn) for turn in range(13, 25)])
    assert waiting < await tokens(branch, 13, 24)
    broken = [one.broken_tokens for one in reversed(made)]
    assert broken[:2] == [
        await tokens(branch, 7, 8),
        anew + waiting + await tokens(branch, 25, 26),
    ]


async def test_what_no_prompt_showed_is_not_in_a_cache(branch: Branch, pool: Pool) -> None:
    await record(branch, 70)
    await compact_all(pool, branch.branch_uuid)
    first, *later = reversed(await branch.compactions())
    assert first.broken_tokens
    assert [one.broken_tokens for one in later] == [0] * 10


async def digest_tokens(pool: Pool, branch: Branch, turn_no: int) -> int:
    async with pool.acquire() as connection:
        return await connection.fetchval(
            "select digest_tokens from durable_context.turns"
            " where branch_uuid = $1 and turn_no = $2",
            branch.branch_uuid,
            turn_no,
        )


async def test_failed_attempts_are_paid_for_too(branch: Branch, pool: Pool) -> None:
    await record(branch, 8)
    spent = Attempt(made_by=MODEL, outcome="invalid", input_tokens=400, output_tokens=10)
    failing = SummarizerUnavailable("cut", attempts=(spent,))
    steps = Steps(pool, branch, ScriptedSummarizer(failing, recipe=MODEL))
    plan = await steps.plan()
    with pytest.raises(SummarizerUnavailable):
        await steps.summarize(plan)
    running = await newest(branch)
    assert (running.status, running.attempts, running.saved_tokens) == ("running", 1, None)
    assert running.balance == -410
    await steps.commit(plan, await steps.summarize(plan))
    made = await newest(branch)
    assert (made.input_tokens, made.output_tokens, made.attempts) == (900, 30, 2)
    assert made.price == Decimal("0.000153")


async def test_a_call_of_unknown_price_leaves_the_sum_unknown(branch: Branch, pool: Pool) -> None:
    await record(branch, 8)
    await Steps(pool, branch, ScriptedSummarizer(recipe="scripted/1")).all()
    made = await newest(branch)
    assert (made.price, made.input_tokens) == (None, READ)


async def test_what_a_revert_rejected_saves_nothing_any_more(branch: Branch, pool: Pool) -> None:
    await record(branch, 14)
    await compact_all(pool, branch.branch_uuid)
    await record(branch, 3)
    await branch.revert(6)
    rejected, kept = await branch.compactions()
    await record(branch, 4)
    after = await branch.compactions()
    assert after[0].balance == rejected.balance
    assert after[1].balance == kept.balance + 4 * (kept.saved_tokens or 0)


async def test_nodes_that_are_replaced_save_what_the_checkpoint_is_shorter(
    branch: Branch, pool: Pool
) -> None:
    await record(branch, 14)
    await compact_all(pool, branch.branch_uuid)
    await record(branch, 1)
    old = (await branch.checkpoints())[-1]
    await RebuildSteps(pool, branch.branch_uuid, ScriptedSummarizer(recipe=MODEL), "rebuild").all()
    new = (await branch.checkpoints())[-1]
    made = [one for one in await branch.compactions() if one.reason == "rebuild"]
    assert [one.input_tokens + one.output_tokens for one in made] == [READ + WRITTEN] * 2
    saved, broken = zip(*((one.saved_tokens, one.broken_tokens) for one in made), strict=True)
    assert sorted(saved) == sorted([0, old.token_count - new.token_count]) != [0, 0]
    anew = COUNTER.count(behind_what_is_alike(old.text, new.text))
    anew += await digest_tokens(pool, branch, 13) + await tokens(branch, 14, 15)
    assert sorted(broken) == [0, anew]


def test_figures_count_what_stood_behind_what_is_alike() -> None:
    old = checkpoint("one two three four five\n", 100)
    assert figures(None, rendered("one two\n", 40), 1_000, COUNTER) == Figures(960, 0)
    longer = rendered("one two three four five\nsix\n", 130)
    assert figures(old, longer, 1_000, COUNTER) == Figures(970, 0)
    changed = rendered("one two and no more\n", 60)
    assert figures(old, changed, 0, COUNTER) == Figures(40, COUNTER.count("three four five\n"))
    assert COUNTER.count("three four five\n") == 4


def rendered(text: str, tokens: int) -> RenderedCheckpoint:
    return RenderedCheckpoint(text=text, token_count=tokens, sections=(), ledger=())


def checkpoint(text: str, tokens: int) -> Checkpoint:
    return Checkpoint.model_construct(text=text, token_count=tokens)
