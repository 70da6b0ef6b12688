"""What the agent's own tools show of artifacts and history."""

import json
import re
from typing import Any

import pytest

from durable_context import ContextClient
from durable_context.branch import Branch
from durable_context.database import Pool
from durable_context.tools.context_tools import ContextTool
from tests.compacting import compact_all
from tests.tool_answers import DATA, LINES, PNG, body, by_name, read_on
from tests.turns import call, calling, chat, exchange, numbered, result


@pytest.fixture
async def branch(client: ContextClient) -> Branch:
    return await client.open_branch("c")


@pytest.fixture
def tools(branch: Branch) -> dict[str, ContextTool]:
    return by_name(branch)


# reload_artifact


async def test_an_artifact_is_read_part_by_part_without_gap_or_overlap(
    branch: Branch, tools: dict[str, ContextTool]
):
    artifact = await branch.put_artifact(LINES, name="stock.txt")
    answers = await read_on(tools["reload_artifact"], handle=artifact.handle)
    assert "\n".join(body(answer) for answer in answers) == LINES
    assert len(answers) > 10
    first = answers[0].split("\n")
    assert first[0].startswith(f'[artifact {artifact.handle} "stock.txt" version 1, text/plain, ')
    assert first[0].endswith(f"{len(LINES)} bytes, 901 lines, turn 0. {DATA}]")
    shown = len(first) - 2
    assert first[1] == f"[lines 1-{shown} of 901; go on with start={shown + 1}]"
    assert first[2] == "line number 1: pallet P00001 stands in depot 1"


async def test_start_and_length_choose_lines(branch: Branch, tools: dict[str, ContextTool]):
    artifact = await branch.put_artifact(LINES, name="stock.txt")
    answer = await tools["reload_artifact"](handle=artifact.handle, start=899, length=1)
    assert answer.split("\n")[1:] == [
        "[line 899 of 901; go on with start=900]",
        "line number 899: pallet P00899 stands in depot 3",
    ]
    answer = await tools["reload_artifact"](handle=artifact.handle, start=900)
    assert answer.split("\n")[1:] == [
        "[lines 900-901 of 901]",
        "line number 900: pallet P00900 stands in depot 4",
        "",
    ]
    answer = await tools["reload_artifact"](handle=artifact.handle, start=902)
    assert answer.split("\n")[1] == "There is no line 902: it has 901 lines."


async def test_a_document_in_one_line_is_read_by_characters(
    branch: Branch, tools: dict[str, ContextTool]
):
    document = json.dumps({f"pallet {n}": {"depot": n % 7, "weight": n * 3} for n in range(2000)})
    artifact = await branch.put_artifact(f"{{\n{document}\n}}", name="d", media_type="text/plain")
    answers = await read_on(tools["reload_artifact"], handle=artifact.handle)
    assert len(answers) > 10
    assert "[line 1 of 3; go on with start=2]" in answers[0]
    assert "[line 2 of 3, characters 1-" in answers[1]
    read = "".join(body(answer) for answer in answers[1:])
    assert read == document + "\n}"


async def test_grep_shows_matching_lines_with_their_numbers(
    branch: Branch, tools: dict[str, ContextTool]
):
    artifact = await branch.put_artifact(LINES, name="stock.txt")
    answer = await tools["reload_artifact"](handle=artifact.handle, grep="pallet p0012")
    lines = answer.split("\n")
    assert lines[1] == '[10 matches for "pallet p0012" in lines 1-901 of 901]'
    assert lines[2:] == [
        f"{n}: line number {n}: pallet P{n:05d} stands in depot {n % 7}" for n in range(120, 130)
    ]
    answers = await read_on(tools["reload_artifact"], handle=artifact.handle, grep="depot 3")
    found = [int(line.split(":")[0]) for answer in answers for line in body(answer).split("\n")]
    assert found == [n for n in range(1, 901) if n % 7 == 3]
    assert ", here the first " in answers[0]


async def test_grep_in_a_long_line_shows_what_is_around_each_match(
    branch: Branch, tools: dict[str, ContextTool]
):
    words = [f"word{n}" for n in range(20_000)]
    for n in range(500, 20_000, 1000):
        words[n] = f"FLAMINGO-{n}"
    artifact = await branch.put_artifact(" ".join(words), name="d", media_type="text/plain")
    answers = await read_on(tools["reload_artifact"], handle=artifact.handle, grep="flamingo-")
    assert '[20 matches for "flamingo-" in line 1 of 1, here the first ' in answers[0]
    found = re.findall(r"FLAMINGO-\d+", "\n".join(body(answer) for answer in answers))
    assert found == [f"FLAMINGO-{n}" for n in range(500, 20_000, 1000)]
    place = re.search(r"1, from character (\d+): (.{30})", answers[0])
    assert place
    answer = await tools["reload_artifact"](handle=artifact.handle, offset=int(place[1]) - 1)
    assert body(answer).startswith(place[2])


async def test_grep_without_a_match_says_how_it_looks(
    branch: Branch, tools: dict[str, ContextTool]
):
    artifact = await branch.put_artifact(LINES, name="stock.txt")
    for grep in ("flamingo", "P0012.", "depot 1\nline", "(", "\\d+", "ß\x00\ud800"):
        answer = await tools["reload_artifact"](handle=artifact.handle, grep=grep, length=10)
        assert "in lines 1-10 of 901. It is looked for as it is" in answer


async def test_an_offloaded_result_is_read_by_the_handle_its_turn_shows(
    branch: Branch, tools: dict[str, ContextTool]
):
    turn = await branch.record_turn(
        [{"role": "user", "content": "Stock?"}, *exchange("a", LINES, name="stock")]
    )
    shown = turn.messages[2].content
    assert isinstance(shown, str)
    handle = re.search(r"art_[\w-]{22}", shown)
    assert handle
    answer = await tools["reload_artifact"](handle=handle[0], start=450, length=1)
    assert body(answer) == "line number 450: pallet P00450 stands in depot 2"
    assert '"stock"' in answer.split("\n")[0]


async def test_a_binary_artifact_is_described(branch: Branch, tools: dict[str, ContextTool]):
    artifact = await branch.put_artifact(PNG, name="photo.png", media_type="image/png")
    for arguments in ({}, {"start": 3}, {"grep": "x"}):
        answer = await tools["reload_artifact"](handle=artifact.handle, **arguments)
        assert answer.split("\n")[0].startswith(f'[artifact {artifact.handle} "photo.png" version')
        assert "image/png" in answer
        assert answer.split("\n")[1] == "It is not text and cannot be shown as such."


async def test_a_siblings_handle_and_a_look_alike_load_nothing(
    branch: Branch, client: ContextClient, make_client: Any
):
    await branch.record_turn(numbered(1))
    parents = await branch.put_artifact("of the parent", name="a")
    child, sibling = await branch.fork("child"), await branch.fork("sibling")
    siblings = await sibling.put_artifact("of the sibling", name="b")
    later = await branch.put_artifact("of the parent, later", name="c")
    stranger = await (await make_client(tenant="other")).open_branch("c")
    reload = by_name(child)["reload_artifact"]
    assert body(await reload(handle=parents.handle)) == "of the parent"
    for handle in (
        siblings.handle,
        later.handle,
        "art_" + "A" * 22,
        parents.handle[:-1],
        f"{parents.handle} ",
        f"[artifact {parents.handle}: text/plain]",
        parents.handle.upper(),
        "b",
        "' or true --",
        "art_\x00\ud800",
        "x" * 10_000,
    ):
        answer = await reload(handle=handle)
        assert answer.startswith("reload_artifact cannot do this: ")
        assert "of the" not in answer
        assert "Traceback" not in answer
    refused = await by_name(stranger)["reload_artifact"](handle=parents.handle)
    assert refused.startswith("reload_artifact cannot do this: ")


# list_artifacts


async def test_artifacts_are_listed_newest_first(branch: Branch, tools: dict[str, ContextTool]):
    assert "no artifacts" in await tools["list_artifacts"]()
    old = await branch.put_artifact(LINES, name="stock.txt")
    new = await branch.put_artifact(LINES + "more", name="stock.txt")
    await branch.record_turn(
        [{"role": "user", "content": "Stock?"}, *exchange("a", LINES + "tool", name="stock")]
    )
    image = await branch.put_artifact(PNG, name="photo.png", media_type="image/png")
    answer = await tools["list_artifacts"]()
    lines = answer.split("\n")
    assert lines[0] == f"[artifacts 1-3 of 3, newest first. {DATA}]"
    assert lines[1].startswith(f'- {image.handle} "photo.png" version 1, image/png, ')
    assert '"stock", text/plain' in lines[2]
    assert lines[3].startswith(f'- {new.handle} "stock.txt" version 2, text/plain, ')
    versions = await tools["list_artifacts"](name="stock.txt")
    assert [line.split()[1] for line in versions.split("\n")[1:]] == [new.handle, old.handle]
    alike = await tools["list_artifacts"](name="PHOTO")
    assert [line.split()[1] for line in alike.split("\n")[1:]] == [image.handle]
    unknown = await tools["list_artifacts"](name="zeppelin")
    assert "no artifact is named 'zeppelin'; names are photo.png, stock, stock.txt" in unknown


async def test_a_long_list_comes_in_parts(branch: Branch, tools: dict[str, ContextTool]):
    handles = [
        (await branch.put_artifact(f"content {n}", name=f"{n} of many.txt")).handle
        for n in range(40)
    ]
    answers = await read_on(tools["list_artifacts"])
    assert len(answers) > 1
    listed = [line.split()[1] for answer in answers for line in body(answer).split("\n")]
    assert listed == handles[::-1]
    assert (
        await tools["list_artifacts"](start=41) == "There is no artifact number 41: there are 40."
    )


# search_history


async def test_search_shows_hits_with_excerpts_and_how_to_go_on(
    branch: Branch, tools: dict[str, ContextTool], pool: Pool
):
    artifact = await branch.put_artifact(LINES, name="stock.txt")
    for n in range(1, 16):
        await branch.record_turn(numbered(n))
    await compact_all(pool, branch.branch_uuid)
    answer = await tools["search_history"](query="order 1009")
    lines = answer.split("\n")
    assert lines[0].startswith('[1 hits for "order 1009". expand_summary shows turns whole')
    assert lines[0].endswith(f"{DATA}]")
    assert lines[1].startswith("1. turns 7-12: ")
    assert lines[2].strip().startswith("[turn 9, ")
    answer = await tools["search_history"](query="P00450")
    assert f"1. artifact {artifact.handle}, turn 0: " in answer
    assert "pallet P00450" in answer
    answer = await tools["search_history"](query="zeppelin")
    assert answer.startswith('Nothing in this conversation matches "zeppelin".')


# expand_summary


async def test_the_turns_behind_a_summary_are_shown_as_they_were_recorded(
    branch: Branch, tools: dict[str, ContextTool], pool: Pool
):
    await branch.record_turn(
        [
            {"role": "user", "content": "Where is it?\n[turn 99] not a head"},
            calling(call("a", "find", shipment="SHP-1"), content="I look."),
            result("a", "In Rotterdam."),
            {"role": "assistant", "content": "It is in Rotterdam."},
        ]
    )
    for n in range(2, 9):
        await branch.record_turn(numbered(n))
    await compact_all(pool, branch.branch_uuid)
    (summary,) = await branch.summaries()
    (turn, *_) = await branch.turns(1, 1)
    answers = await read_on(tools["expand_summary"], summary_id=str(summary.summary_id))
    assert answers == await read_on(tools["expand_summary"], from_turn=1, to_turn=6)
    lines = answers[0].split("\n")
    assert lines[0] == f"[turns 1-6, as recorded. {DATA}]"
    assert lines[1:12] == [
        f"[turn 1, {turn.occurred_at:%Y-%m-%d %H:%M}]",
        "user:",
        "  Where is it?",
        "  [turn 99] not a head",
        "assistant:",
        "  I look.",
        '  calls find({"shipment": "SHP-1"})',
        "result of find:",
        "  In Rotterdam.",
        "assistant:",
        "  It is in Rotterdam.",
    ]
    assert lines[-1].endswith("left the depot in Rotterdam on day 6 and is on its way.")
    alone = await tools["expand_summary"](from_turn=6)
    assert alone.split("\n")[0] == f"[turn 6, as recorded. {DATA}]"
    assert alone.split("\n")[1:] == lines[-5:]


async def test_many_turns_come_in_parts_that_lose_nothing(
    branch: Branch, tools: dict[str, ContextTool]
):
    words = iter(range(100_000))
    for n in range(1, 31):
        await branch.record_turn(
            chat(
                "\n".join(f"w{next(words)}w " * 9 for _ in range(n)),
                "".join(f"w{next(words)}w " for _ in range(40 * n)),
            )
        )
    answers = await read_on(tools["expand_summary"], from_turn=1, to_turn=500)
    assert len(answers) > 20
    whole = "\n".join(message.content for t in await branch.turns() for message in t.messages)
    read = re.findall(r"w\d+w", "\n".join(answers))
    assert read == re.findall(r"w\d+w", whole)


async def test_an_offloaded_result_stays_a_pointer_in_its_turn(
    branch: Branch, tools: dict[str, ContextTool]
):
    await branch.record_turn(
        [{"role": "user", "content": "Stock?"}, *exchange("a", LINES, name="stock")]
    )
    (artifact,) = await branch.artifacts()
    answer = await tools["expand_summary"](from_turn=1)
    assert artifact.handle in answer
    assert "P00450" not in answer
