"""Which of what was found is shown, and that it keeps to its caps and its order."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from durable_context.models import Message
from durable_context.prompts.block_tokens import frame_tokens
from durable_context.prompts.rendering import RETRIEVED_HEAD
from durable_context.prompts.retrieved import (
    Retrieved,
    RetrievedArtifact,
    RetrievedNode,
    RetrievedTurn,
)
from durable_context.prompts.retrieved_blocks import RetrievedBlock, retrieved_blocks
from durable_context.tokens import token_counter

COUNTER = token_counter("o200k_base")
FRAME = frame_tokens("o200k_base", RETRIEVED_HEAD)
TERMS = [("anvil", 2.0), ("lindau", 1.0)]


def day(turn_no: int) -> datetime:
    return datetime(2023, 5, 1 + turn_no % 28, tzinfo=UTC)


def leaf(first: int, *said: str, last: int | None = None, score: float = 1.0) -> RetrievedNode:
    """A leaf in whose first turn that is said, all of it to the point."""
    messages = tuple(Message(role="user", content=text) for text in said)
    turn = RetrievedTurn(first, day(first), 0, messages)
    return RetrievedNode(
        score,
        0,
        first,
        last or first + 5,
        f"leaf {first}",
        f"Headline of {first}",
        None,
        {n + 1: score for n in range(len(said))},
        (turn,),
    )


def digested(turn_no: int, text: str) -> RetrievedNode:
    found = leaf(turn_no, text, last=turn_no)
    return found._replace(level=-1, summary_id=None, headline=None)


def node(first: int, last: int, text: str, score: float = 1.0) -> RetrievedNode:
    return RetrievedNode(score, 1, first, last, f"node {first}", f"Node of {first}", text, {}, ())


def artifact(turn_no: int, text: str | None, summary: str | None = None) -> RetrievedArtifact:
    return RetrievedArtifact(
        1.0,
        f"art_{turn_no}",
        turn_no,
        "put",
        "log.txt",
        "text/plain",
        1_234,
        "A log",
        summary,
        text,
        bytes([turn_no]),
    )


def shown(
    *found: Retrieved, standing: set[str] | None = None, blocks: int = 3, max_tokens: int = 750
) -> list[RetrievedBlock]:
    return retrieved_blocks(
        found, TERMS, standing or set(), blocks=blocks, max_tokens=max_tokens, counter=COUNTER
    )


def test_nothing_found_is_no_block() -> None:
    assert shown() == []


def test_a_leaf_is_its_headline_and_what_was_said_with_turn_and_day() -> None:
    (block,) = shown(leaf(7, "The anvil is in Lindau.", "Since May."))
    assert block.text == (
        "[turns 7-12] Headline of 7\n"
        "[turn 7, 2023-05-08] user: The anvil is in Lindau.\n"
        "user: Since May.\n"
    )
    assert (block.from_turn, block.to_turn, block.source_ids) == (7, 12, ("leaf 7",))


def test_a_leaf_that_stands_in_the_prompt_is_quoted_without_its_headline() -> None:
    (block,) = shown(leaf(7, "The anvil is in Lindau."), standing={"leaf 7"})
    assert block.text == "[turn 7, 2023-05-08] user: The anvil is in Lindau.\n"


def test_a_turn_that_no_leaf_covers_is_quoted_alone() -> None:
    (block,) = shown(digested(7, "The anvil is in Lindau."))
    assert block.text == "[turn 7, 2023-05-08] user: The anvil is in Lindau.\n"
    assert (block.from_turn, block.to_turn, block.source_ids) == (7, 7, ())


def test_blocks_stand_in_the_order_of_their_ranks() -> None:
    found = [leaf(first, f"The anvil {first}.") for first in (31, 1, 61)]
    assert [block.from_turn for block in shown(*found)] == [31, 1, 61]
    assert [block.from_turn for block in shown(*found, blocks=2)] == [31, 1]


def test_leaves_side_by_side_share_a_block_in_the_order_they_were_said() -> None:
    found = [leaf(13, "Anvil three."), leaf(40, "Anvil four."), leaf(7, "Anvil two."), leaf(1, "A")]
    first, second = shown(*found, blocks=2)
    assert (first.from_turn, first.to_turn) == (1, 18)
    assert first.source_ids == ("leaf 1", "leaf 7", "leaf 13")
    assert first.text.index("Anvil two.") < first.text.index("Anvil three.")
    assert first.text.count("Headline") == 1
    assert (second.from_turn, second.to_turn) == (40, 45)


def test_of_a_node_and_its_leaf_the_better_is_shown() -> None:
    low, high = leaf(7, "The anvil."), node(1, 24, "The anvil. Of something else.")
    assert [block.source_ids for block in shown(low, high)] == [("leaf 7",)]
    (block,) = shown(high, low)
    assert block.source_ids == ("node 1",)
    assert block.text == "[turns 1-24] Node of 1\n- The anvil.\n"


def test_an_artifact_is_described_and_its_lines_are_quoted() -> None:
    log = "\n".join([*("all is well here" for _ in range(99)), "the anvil rang in Lindau"])
    (block,) = shown(artifact(9, log))
    assert block.text.startswith(
        "[turn 9] artifact art_9 (log.txt, text/plain, 1,234 bytes): A log\n[line "
    )
    assert "the anvil rang in Lindau" in block.text
    assert block.text.count("\n") == 2
    assert block.source_ids == ("art_9",)


def test_an_artifact_that_cannot_be_quoted_is_summed_up() -> None:
    (block,) = shown(artifact(9, None, "Strikes of the anvil, by day."))
    assert block.text.endswith("A log\n- Strikes of the anvil, by day.\n")
    assert shown(artifact(9, None)) == []


def test_an_artifact_does_not_push_out_the_leaf_of_its_turn() -> None:
    found = shown(artifact(9, "the anvil"), leaf(7, "The anvil."))
    assert [block.source_ids for block in found] == [("art_9",), ("leaf 7",)]


def test_each_document_gets_its_best_excerpt_before_any_gets_another() -> None:
    rich = leaf(1, *(f"The anvil {n} rings in Lindau all day long." for n in range(40)), score=9.0)
    poor = leaf(20, "An anvil.", score=1.0)
    first, second = shown(rich, poor, max_tokens=FRAME + 120)
    assert "An anvil." in second.text
    assert first.text.count("rings") > 1


def test_the_turn_and_the_day_are_said_where_they_change() -> None:
    found = leaf(1, "Anvil one.", "Anvil two.")
    later = RetrievedTurn(2, day(1), 2, (Message(role="assistant", content="Anvil three."),))
    other = RetrievedTurn(3, day(3), 3, (Message(role="assistant", content="Anvil four."),))
    found = found._replace(turns=(*found.turns, later, other), spoken={n: 1.0 for n in range(1, 5)})
    (block,) = shown(found, standing={"leaf 1"})
    assert block.text == (
        "[turn 1, 2023-05-02] user: Anvil one.\nuser: Anvil two.\n"
        "[turn 2] assistant: Anvil three.\n"
        "[turn 3, 2023-05-04] assistant: Anvil four.\n"
    )


said = st.text(st.sampled_from("anvil Lindau.\n[]<>…铁砧😀\u202e"), max_size=700)
firsts = st.sampled_from([1, 7, 13, 25, 31, 43])
found_ones = st.one_of(
    st.builds(lambda first, texts: leaf(first, *texts), firsts, st.lists(said, max_size=5)),
    st.builds(lambda first, text: node(first, first + 23, text), firsts, said),
    st.builds(artifact, firsts, st.one_of(st.none(), said), st.one_of(st.none(), said)),
    st.builds(digested, st.integers(60, 70), said),
)


@given(st.lists(found_ones, max_size=8), st.integers(1, 6), st.integers(0, 900), st.booleans())
def test_blocks_keep_to_their_caps_and_are_counted_as_they_read(
    found: list[Retrieved], blocks: int, max_tokens: int, stand: bool
) -> None:
    standing = {"leaf 1", "leaf 25"} if stand else None
    made = shown(*found, standing=standing, blocks=blocks, max_tokens=max_tokens)
    assert len(made) <= blocks
    assert not made or FRAME + sum(block.tokens for block in made) <= max_tokens
    for block in made:
        assert block.tokens == COUNTER.count(block.text)
        assert block.text.endswith("\n") and "\n\n" not in block.text
        assert block.from_turn <= block.to_turn
    together = "".join(block.text for block in made)
    assert COUNTER.count(together) == sum(block.tokens for block in made)


def test_content_that_came_more_than_once_is_quoted_once() -> None:
    newest, oldest = artifact(31, "the anvil"), artifact(28, "the anvil")
    found = shown(newest, oldest._replace(sha256=newest.sha256), leaf(1, "an anvil"))
    assert [block.from_turn for block in found] == [31, 1]
