from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest

from benchmarks.baselines import Prompt, tokens_of
from benchmarks.cache.checks import CheckpointCheck, PrefixCheck, stable_prefix
from benchmarks.cache.prefixes import Account, common_tokens, in_steps
from durable_context import Budget, Checkpoint, Manifest, PreparedContext
from durable_context.prompts.manifest import Reduction, ReductionKind
from durable_context.prompts.rendering import CHECKPOINT_HEAD, FOOT, LEDGER_HEADING
from durable_context.tokens import token_counter

COUNTER = token_counter("o200k_base")


def said(text: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": text}


def tokens(*messages: dict[str, Any]) -> int:
    return sum(tokens_of(message, COUNTER) for message in messages)


def prepared(
    messages: list[dict[str, Any]], stable: int, *reductions: ReductionKind
) -> PreparedContext:
    """A prompt whose first `stable` messages are its stable prefix."""
    manifest = Manifest(
        blocks=(),
        omitted=(),
        reductions=tuple(Reduction(kind=kind, tokens_saved=1) for kind in reductions),
        stable_prefix_tokens=tokens(*messages[:stable]),
        branch_uuid=uuid4(),
        head_turn=1,
        encoding="o200k_base",
    )
    return PreparedContext(
        messages=tuple(messages), manifest=manifest, token_count=1, budget=Budget(max_tokens=100)
    )


def checkpoint(frontier: list[UUID], nodes: str, ledger: str) -> Checkpoint:
    return Checkpoint(
        checkpoint_id=uuid4(),
        turn_no=len(frontier),
        parent_id=None,
        frontier=tuple(frontier),
        ledger=(),
        text=f"{CHECKPOINT_HEAD}{nodes}{LEDGER_HEADING}{ledger}{FOOT}",
        token_count=1,
        token_usage={},
        artifact_handles=(),
        schema_version=1,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


def test_whole_messages_in_common_count_with_their_overhead() -> None:
    first, second = said("You help.", "system"), said("Where is my parcel?")

    assert common_tokens([first, second], [first, second, said("Go on.")], COUNTER) == tokens(
        first, second
    )
    assert common_tokens([], [first], COUNTER) == 0


def test_the_beginning_of_the_first_other_message_counts() -> None:
    before = [said("one " * 50 + "two"), said("the same again")]
    after = [said("one " * 50 + "three"), said("the same again")]

    assert 48 <= common_tokens(before, after, COUNTER) <= tokens(before[0])


def test_another_role_at_the_beginning_leaves_next_to_nothing_in_common() -> None:
    text = "The same words. " * 30

    assert common_tokens([said(text)], [said(text, "assistant")], COUNTER) < 5


@pytest.mark.parametrize(
    ("common", "served"), [(0, 0), (1_023, 0), (1_024, 1_024), (1_151, 1_024), (1_152, 1_152)]
)
def test_openai_serves_prefixes_in_steps(common: int, served: int) -> None:
    assert in_steps(common) == served


def test_each_branch_has_its_own_prompt_before() -> None:
    account = Account("ours", 4_000)
    messages = (said("The same words. " * 20),)
    size = tokens(*messages)
    for branch in ("one", "other", "one"):
        account.add(branch, Prompt(messages, size), COUNTER)
    account.add("other", None, COUNTER)

    assert (account.prompts, account.exceeded) == (3, 1)
    assert account.cached == size
    assert account.share == pytest.approx(1 / 3)


def test_cached_tokens_cost_a_part_of_the_price() -> None:
    account = Account("ours", 4_000)
    messages = (said("word " * 2_000),)
    for _ in range(2):
        account.add("one", Prompt(messages, 2_100), COUNTER)

    served = in_steps(tokens(*messages))
    assert account.net_tokens(1.0) == 2_100
    assert account.net_tokens(0.1) == pytest.approx(2_100 - 0.9 * served / 2)


def test_a_prompt_that_begins_with_the_stable_messages_before_it_breaks_nothing() -> None:
    check = PrefixCheck()
    before = [said("checkpoint"), said("digest"), said("tail")]
    check.add(prepared(before, 2), prepared([*before[:2], said("new tail")], 2), COUNTER)

    assert (check.pairs, check.broken) == (1, 0)


def test_a_block_may_grow_before_its_closing_line() -> None:
    check = PrefixCheck()
    shown = said(f"digest of one turn\n{FOOT}")
    before = prepared([said("checkpoint"), shown], 2)
    stable = before.manifest.stable_prefix_tokens - COUNTER.count(FOOT)
    manifest = before.manifest.model_copy(update={"stable_prefix_tokens": stable})
    before = before.model_copy(update={"manifest": manifest})
    grown = [said("checkpoint"), said(f"digest of one turn\nand another\n{FOOT}")]
    other = [said("checkpoint"), said(f"digest of two turns\n{FOOT}")]

    assert stable_prefix(before, COUNTER) == (
        (said("checkpoint"),),
        "digest of one turn\n",
        True,
    )
    check.add(before, prepared(grown, 2), COUNTER)
    assert (check.pairs, check.broken, check.inexact) == (1, 0, 0)
    check.add(before, prepared(other, 2), COUNTER)
    check.add(before, prepared(grown[:1], 1), COUNTER)
    assert (check.pairs, check.broken, check.inexact) == (3, 2, 0)


def test_a_stable_message_that_changed_is_counted_with_its_cause() -> None:
    check = PrefixCheck()
    before = prepared([said("checkpoint"), said("tail")], 1)
    other = [said("other"), said("tail")]

    check.add(before, prepared(other, 1), COUNTER)
    check.add(before, prepared(other, 1, "node_to_headline"), COUNTER)
    check.add(before, prepared(other, 1, "view"), COUNTER)

    assert (check.pairs, check.broken, check.broken_by_budget) == (3, 3, 1)
    assert len(check.examples) == 2


def test_a_stable_prefix_of_other_tokens_than_its_messages_is_inexact() -> None:
    whole = prepared([said("checkpoint"), said("digest")], 1)
    tokens_less = whole.manifest.stable_prefix_tokens - 1
    less = whole.manifest.model_copy(update={"stable_prefix_tokens": tokens_less})

    assert stable_prefix(whole, COUNTER).exact
    assert not stable_prefix(whole.model_copy(update={"manifest": less}), COUNTER).exact


def test_checkpoints_may_change_only_after_their_nodes_unless_levels_merge() -> None:
    a, b, c, d = (uuid4() for _ in range(4))
    check = CheckpointCheck()
    check.add(
        [
            checkpoint([a], "node a\n", "- old\n"),
            checkpoint([a, b], "node a\nnode b\n", "- new\n"),
            checkpoint([a, b, c], "node a, shorter\nnode b\nnode c\n", "- new\n"),
            checkpoint([d], "merged\n", "- new\n"),
        ]
    )

    assert (check.plain, check.broken, check.merges) == (2, 1, 1)
    assert check.shares()["plain"] > check.shares()["merge"]
