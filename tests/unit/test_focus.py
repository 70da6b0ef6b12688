"""What summaries are to keep in view, as summarizers without a model take it."""

import pytest

from durable_context.compaction.focus import base_recipe, checked_focus, focused_recipe
from durable_context.errors import InvalidArgument
from durable_context.models import Summary
from durable_context.summarizers.extractive import ExtractiveSummarizer
from tests.segments import leaf, merging, node, said

STORY = [
    said(
        number,
        f"Please check invoice {number} of the supplier in Porto for the monthly report.",
        f"Invoice {number} lists {10 * number} crates of cork at {number} euro each. It was paid"
        f" on day {number} by transfer. The accountant approved the whole sum without any remark.",
    )
    for number in range(1, 7)
]
ASIDE = said(
    7,
    "Thanks, that is all for the report of this month.",
    "You are welcome. By the way, the forklift battery was leaking again.",
)


async def test_a_leaf_keeps_what_shares_terms_with_the_focus() -> None:
    turns = [*STORY, ASIDE]
    plain = await ExtractiveSummarizer().summarize(leaf(turns, max_tokens=120))
    focus = "What happened to the forklift's batteries?"
    focused = await ExtractiveSummarizer().summarize(leaf(turns, max_tokens=120, focus=focus))
    assert "forklift" not in plain.text
    assert "the forklift battery was leaking again" in focused.text
    assert "Invoice" in focused.text, "the rest of the room is for what says most"


async def test_so_does_a_merge() -> None:
    focus = "forklift battery"
    nodes: list[Summary] = []
    for first, turns in ((1, STORY), (7, [*STORY, ASIDE]), (13, STORY)):
        draft = await ExtractiveSummarizer().summarize(leaf(turns, focus=focus))
        nodes.append(node(first, first + 5, draft.headline, draft.text, made_by="extractive/1"))
    plain = await ExtractiveSummarizer().summarize(merging(nodes, max_tokens=200))
    focused = await ExtractiveSummarizer().summarize(merging(nodes, max_tokens=200, focus=focus))
    assert "leaking" not in plain.text
    assert "leaking" in focused.text


async def test_a_focus_that_nothing_is_said_of_changes_nothing() -> None:
    plain = await ExtractiveSummarizer().summarize(leaf(STORY, max_tokens=120))
    focused = await ExtractiveSummarizer().summarize(
        leaf(STORY, max_tokens=120, focus="zeppelins over Lisbon")
    )
    assert focused == plain


def test_nodes_with_a_focus_have_a_recipe_of_their_own_upon_the_summarizers() -> None:
    recipe = focused_recipe("model/x/1", "the battery")
    assert recipe != focused_recipe("model/x/1", "the forklift")
    assert recipe.removeprefix("model/x/1+focus:").isalnum() and len(recipe) == 9 + 7 + 8
    assert base_recipe(recipe) == base_recipe("model/x/1") == "model/x/1"
    assert focused_recipe("model/x/1", None) == "model/x/1"


@pytest.mark.parametrize("focus", ["", " \n", "x" * 501, None, 5])
def test_a_focus_that_is_none_is_refused(focus: str) -> None:
    with pytest.raises(InvalidArgument, match="allowed is text of 1 to 500 characters"):
        checked_focus(focus)
