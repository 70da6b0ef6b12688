"""Large and binary content: out of the turn, within reach, and never mistaken for anything else."""

import json
from base64 import b64encode
from typing import Any

import pytest

from durable_context import Branch, Budget, CompactionPolicy, ContextClient, Message
from durable_context.artifacts.contents import LARGEST
from durable_context.database import Pool
from durable_context.errors import ArtifactNotFound, ArtifactTooLarge, InvalidTurn
from durable_context.prompts.prepared import PreparedContext
from durable_context.tokens import token_counter
from tests.compacting import compact_all
from tests.events import Connection, all_events
from tests.prompts import check_prompt, check_tokens, raw_turns
from tests.turns import call, calling, chat, exchange, numbered, result
from tests.unit.test_media import png

AMPLE = Budget(max_tokens=1_000_000)
REPORT = "\n".join(f"Line {n}: pump {n % 17} at {n * 7} kPa" for n in range(1, 1_001))
"""30 KB, more than a raw turn shows whole."""
LOG = "\n".join(f"Line {n}: pump {n % 17} at {n * 7} kPa" for n in range(1, 151))
"""Large enough to be offloaded, small enough to be shown whole while it is raw."""
ASKED = {"role": "user", "content": "Read the report."}
READ = {"role": "assistant", "content": "I have read it."}
COUNTER = token_counter("o200k_base")


async def _prepared(branch: Branch, asked: str = "And now?") -> PreparedContext:
    prepared = await branch.prepare(asked, budget=AMPLE)
    assert prepared
    check_prompt(prepared, (await branch.inspect()).head_turn, branch.policy)
    return prepared


@pytest.fixture
async def branch(client: ContextClient) -> Branch:
    return await client.open_branch("conversation")


def test_the_made_up_texts_are_of_the_sizes_they_stand_for():
    assert 29_000 < len(REPORT) < 31_500 and COUNTER.count(REPORT) > 4_000
    assert 1_000 < COUNTER.count(LOG) < 4_000


async def test_a_large_result_is_stored_once_and_the_turn_keeps_a_pointer_and_a_view(
    branch: Branch, connection: Connection
):
    turn = await branch.record_turn([ASKED, *exchange("a", REPORT, "read_report"), READ])
    [artifact] = await branch.artifacts()
    stored = turn.messages[2]
    assert stored.artifact == artifact.handle
    assert stored.tool_call_id == "a" and stored.role == "tool"
    pointer, *view = str(stored.content).split("\n")
    assert pointer == f"[artifact {artifact.handle}: text/plain, {len(REPORT):,} bytes]"
    assert view[0] == f"[text, 1,000 lines, {len(REPORT):,} characters: beginning and end]"
    head, tail = view[1], view[-1]
    assert head == "Line 1: pump 1 at 7 kPa" and tail == "Line 1000: pump 14 at 7000 kPa"
    whole = set(REPORT.split("\n"))
    assert [line for line in view[1:] if line not in whole and "omitted" not in line] == []
    assert COUNTER.count(str(stored.content)) <= branch.policy.view_tokens
    assert (artifact.name, artifact.size, artifact.line_count) == (
        "read_report",
        len(REPORT),
        1_000,
    )
    assert (artifact.source, artifact.turn_no, artifact.version) == ("message", 1, None)
    assert turn.token_count > COUNTER.count(REPORT)
    assert (await branch.turns())[0].messages == turn.messages
    row = await connection.fetchval("select t::text from durable_context.turns t")
    assert "Line 500:" not in row


async def test_what_is_offloaded_can_be_read_whole_and_in_part(branch: Branch):
    turn = await branch.record_turn([ASKED, *exchange("a", REPORT)])
    handle = str(turn.messages[2].artifact)
    assert (await branch.load_artifact(handle)).content == REPORT
    part = await branch.load_artifact(handle, start=500, length=2)
    assert part.content == "Line 500: pump 7 at 3500 kPa\nLine 501: pump 8 at 3507 kPa"
    assert (part.from_line, part.to_line, part.line_count) == (500, 501, 1_000)
    found = await branch.load_artifact(handle, grep="AT 3500 KPA")
    assert (found.content, found.matches) == ("500: Line 500: pump 7 at 3500 kPa", 1)


async def test_a_raw_turn_shows_a_result_whole_up_to_4000_tokens_and_others_as_views(
    branch: Branch,
):
    log = await branch.record_turn([ASKED, *exchange("a", LOG)])
    report = await branch.record_turn([ASKED, *exchange("b", REPORT)])
    assert log.messages[2].artifact and report.messages[2].artifact
    prepared = await _prepared(branch)
    assert prepared.messages[2]["content"] == LOG
    assert prepared.messages[5]["content"] == report.messages[2].content
    [omitted] = prepared.manifest.omitted
    assert omitted.startswith("turn 2 message 2: a view of ")


async def test_a_result_in_the_object_store_is_shown_as_its_view(make_client: Any, tmp_path: Any):
    """A prompt is one read of the database."""
    client = await make_client(artifact_url=f"file://{tmp_path}/objects", inline_limit=1_000)
    branch = await client.open_branch("conversation")
    turn = await branch.record_turn([ASKED, *exchange("a", LOG)])
    assert (await _prepared(branch)).messages[2]["content"] == turn.messages[2].content
    assert (await branch.load_artifact(str(turn.messages[2].artifact))).content == LOG


async def test_a_result_that_is_no_longer_raw_is_shown_in_no_prompt(branch: Branch, pool: Pool):
    turn = await branch.record_turn([ASKED, *exchange("a", LOG), READ])
    for n in range(2, 9):
        await branch.record_turn(numbered(n))
    prepared = await _prepared(branch)
    assert raw_turns(prepared) == [7, 8]
    assert "Line 75:" not in json.dumps(prepared.messages)
    assert await compact_all(pool, branch.branch_uuid) == 1
    prepared = await _prepared(branch)
    assert "Line 75:" not in json.dumps(prepared.messages)
    assert str(turn.messages[2].artifact) in prepared.messages[0]["content"]


async def test_over_budget_a_whole_result_becomes_its_view(branch: Branch):
    turn = await branch.record_turn([ASKED, *exchange("a", LOG)])
    whole = await _prepared(branch)
    tight = await branch.prepare("And now?", budget=Budget(max_tokens=whole.token_count - 1))
    assert tight and tight.messages[2]["content"] == turn.messages[2].content
    check_prompt(tight, 1, branch.policy)
    assert [reduction.kind for reduction in tight.manifest.reductions] == ["view"]


async def test_what_is_small_stays_where_it_is(branch: Branch):
    text = "word " * 900
    turn = await branch.record_turn([ASKED, *exchange("a", text)])
    assert turn.messages[2].content == text and turn.messages[2].artifact is None
    assert await branch.artifacts() == ()


async def test_json_stays_json(branch: Branch):
    rows = [{"id": n, "name": f"pump {n}", "readings": [n, n * 2, n * 3]} for n in range(800)]
    document = json.dumps({"site": "Rotterdam", "count": 800, "rows": rows})
    turn = await branch.record_turn([ASKED, *exchange("a", document, "list_pumps")])
    pointer, kind, shape = str(turn.messages[2].content).split("\n")
    [artifact] = await branch.artifacts()
    assert artifact.media_type == "application/json" and "application/json" in pointer
    assert kind.startswith("[JSON object of 3, ")
    preview = json.loads(shape)
    assert preview["site"] == "Rotterdam" and preview["count"] == 800
    assert set(preview["rows"][0]) == {"id", "name", "readings"}
    assert "800 items" in preview["rows"][-1]
    assert json.loads(str((await branch.load_artifact(artifact.handle)).content))["rows"] == rows


async def test_a_result_in_text_parts_is_offloaded_as_one_text(branch: Branch):
    parts = [{"type": "text", "text": LOG}, {"type": "text", "text": REPORT}]
    message = result("a", "") | {"content": parts}
    turn = await branch.record_turn([ASKED, calling(call("a", "run")), message])
    loaded = await branch.load_artifact(str(turn.messages[2].artifact))
    assert LOG in str(loaded.content) and REPORT in str(loaded.content)
    await _prepared(branch)


async def test_text_parts_that_a_raw_turn_shows_whole_count_as_they_are_shown(branch: Branch):
    lines = LOG.split("\n")
    parts = [{"type": "text", "text": "\n".join(lines[n : n + 50])} for n in (0, 50, 100)]
    message = result("a", "") | {"content": parts}
    await branch.record_turn([ASKED, calling(call("a", "run")), message])
    prepared = await _prepared(branch)
    assert "Line 75:" in json.dumps(prepared.messages[2]["content"])


async def test_text_that_utf_8_cannot_hold_is_offloaded_and_shown(branch: Branch):
    text = "\n".join(f"row {n} is \ud800 broken" for n in range(150))
    turn = await branch.record_turn([ASKED, *exchange("a", text)])
    assert (await branch.load_artifact(str(turn.messages[2].artifact))).content == text
    shown = (await _prepared(branch)).messages[2]["content"]
    assert shown == text.replace("\ud800", "\ufffd")


async def test_several_results_of_a_turn_have_handles_of_their_own_and_one_content(
    branch: Branch, connection: Connection
):
    both = calling(call("a", "left"), call("b", "right"))
    turn = await branch.record_turn([ASKED, both, result("a", LOG), result("b", LOG), READ])
    again = await branch.record_turn([ASKED, *exchange("c", LOG)])
    handles = {turn.messages[2].artifact, turn.messages[3].artifact, again.messages[2].artifact}
    assert len(handles) == 3 and None not in handles
    assert {one.name for one in await branch.artifacts()} == {"left", "right", "run"}
    assert await connection.fetchval("select count(*) from durable_context.artifact_contents") == 1


IMAGE = png(800, 600, b"noise")
IMAGE_PART = {
    "type": "image_url",
    "image_url": {"url": f"data:image/png;base64,{b64encode(IMAGE).decode()}", "detail": "high"},
}
SOUND_PART = {
    "type": "input_audio",
    "input_audio": {"data": b64encode(b"RIFF....WAVEfmt sound").decode(), "format": "wav"},
}
FILE_PART = {
    "type": "file",
    "file": {
        "filename": "plan.pdf",
        "file_data": f"data:application/pdf;base64,{b64encode(b'%PDF-1.7 plan').decode()}",
    },
}
TEXT_PART = {"type": "text", "text": "What is in these?"}


async def test_binary_parts_are_named_references_until_they_are_loaded(
    branch: Branch, connection: Connection
):
    parts = [TEXT_PART, IMAGE_PART, SOUND_PART, FILE_PART]
    await branch.record_turn([{"role": "user", "content": parts}, READ])
    image, sound, file = await branch.artifacts()
    assert (image.media_type, image.width, image.height) == ("image/png", 800, 600)
    assert image.size == len(IMAGE) and image.token_count > 500
    assert (file.name, file.media_type, sound.source) == ("plan.pdf", "application/pdf", "part")
    prepared = await _prepared(branch)
    said = prepared.messages[0]["content"]
    assert [part["type"] for part in said] == ["text"] * 4
    assert said[1]["text"] == (
        f"[image {image.handle}: image/png, 800×600 pixels, {len(IMAGE):,} bytes]"
    )
    assert file.handle in said[3]["text"] and "plan.pdf" in said[3]["text"]
    assert prepared.token_count > image.token_count + sound.token_count + file.token_count
    loaded = await prepared.load_parts()
    assert loaded.messages[0]["content"] == parts
    assert (loaded.token_count, loaded.parts) == (prepared.token_count, ())
    assert (await branch.load_artifact(image.handle)).content == IMAGE
    row = await connection.fetchval("select t::text from durable_context.turns t")
    assert b64encode(IMAGE).decode()[-40:] not in row


async def test_a_tool_may_return_an_image(branch: Branch):
    message = result("a", "") | {"content": [TEXT_PART, IMAGE_PART]}
    await branch.record_turn([ASKED, calling(call("a", "screenshot")), message, READ])
    prepared = await _prepared(branch)
    [image] = await branch.artifacts()
    assert image.source == "part" and image.handle in prepared.messages[2]["content"][1]["text"]
    loaded = await prepared.load_parts()
    assert loaded.messages[2] == prepared.messages[2], "chat takes images from users alone"
    shown = loaded.to_responses_input()[2]["output"]
    assert shown[1]["image_url"] == IMAGE_PART["image_url"]["url"]


@pytest.mark.parametrize(
    "part",
    [{"type": "text", "text": REPORT}, {"type": "text", "text": REPORT, "cache_control": {}}],
    ids=["beside an image", "with a field we know nothing of"],
)
async def test_a_large_text_part_is_offloaded_whatever_it_stands_beside(
    branch: Branch, connection: Connection, part: dict[str, Any]
):
    parts = [part, IMAGE_PART] if set(part) == {"type", "text"} else [part]
    message = result("a", "") | {"content": parts}
    await branch.record_turn([ASKED, calling(call("a", "read")), message, READ])
    row = await connection.fetchval("select t::text from durable_context.turns t")
    assert "Line 500:" not in row
    contents = [
        (await branch.load_artifact(one.handle)).content for one in await branch.artifacts()
    ]
    assert any("Line 500:" in content for content in contents if isinstance(content, str))
    await _prepared(branch)


async def test_a_child_loads_the_parts_of_its_parent(branch: Branch):
    await branch.record_turn([{"role": "user", "content": [TEXT_PART, IMAGE_PART]}, READ])
    child = await branch.fork("child")
    loaded = await (await _prepared(child)).load_parts()
    assert loaded.messages[0]["content"] == [TEXT_PART, IMAGE_PART]


async def test_messages_are_offloaded_where_policy_says_so(make_client: Any):
    client: ContextClient = await make_client(CompactionPolicy(offload_messages=True))
    branch = await client.open_branch("conversation")
    turn = await branch.record_turn(chat(f"Look: {LOG}", f"I see: {REPORT}"))
    asked, answered = turn.messages
    assert asked.artifact and answered.artifact
    assert (await branch.load_artifact(answered.artifact)).content == f"I see: {REPORT}"
    prepared = await _prepared(branch)
    assert prepared.messages[0]["content"] == f"Look: {LOG}"
    assert prepared.messages[1]["content"] == answered.content


async def test_messages_stay_where_policy_does_not_say_so(branch: Branch):
    turn = await branch.record_turn(chat(f"Look: {LOG}", f"I see: {REPORT}"))
    assert [message.artifact for message in turn.messages] == [None, None]
    assert [m["content"] for m in (await _prepared(branch)).messages[:2]] == [
        f"Look: {LOG}",
        f"I see: {REPORT}",
    ]


async def test_the_task_of_a_long_run_stays_as_it_was_said(make_client: Any, pool: Pool):
    policy = CompactionPolicy(offload_messages=True, run_raw_tokens=0)
    branch = await (await make_client(policy)).open_branch("conversation")
    task = {"role": "user", "content": f"Work through this list:\n{REPORT}"}
    turn = await branch.record_turn([task, *exchange("a", LOG)], continues=True)
    assert turn.messages[0].artifact is None and turn.messages[2].artifact
    for n in range(2, 10):
        await branch.record_turn(exchange(f"c{n}", f"step {n}"), continues=True)
    assert await compact_all(pool, branch.branch_uuid, policy) >= 1
    prepared = await branch.prepare(None, budget=AMPLE)
    assert prepared and task in prepared.messages


async def test_text_that_looks_like_a_handle_is_left_alone_and_loads_nothing(branch: Branch):
    real = (await branch.put_artifact("the plan", name="plan")).handle
    forged = f"art_{'A' * 22}"
    text = f"[artifact {forged}: text/plain, 30,000 bytes]\n{real}"
    turn = await branch.record_turn(
        [
            {"role": "user", "content": text},
            *exchange("a", text),
            {"role": "assistant", "content": text},
        ]
    )
    assert [message.artifact for message in turn.messages] == [None] * 4
    prepared = await _prepared(branch)
    assert [prepared.messages[n]["content"] for n in (0, 2, 3)] == [text] * 3
    for handle in (
        forged,
        "art_",
        "",
        f"{real}\n",
        f" {real}",
        real[:-1],
        "art_' or true --ABCDEFG",
    ):
        with pytest.raises(ArtifactNotFound):
            await branch.load_artifact(handle)


@pytest.mark.parametrize(
    "message",
    [
        Message(role="user", content="Mine", artifact=f"art_{'A' * 22}"),
        Message(role="user", content=({"type": "text", "text": "x", "artifact": {"handle": "x"}},)),
        {"role": "user", "content": [IMAGE_PART | {"artifact": {"handle": f"art_{'A' * 22}"}}]},
    ],
    ids=["a message", "a part of a message", "a part of a dict"],
)
async def test_a_pointer_from_outside_is_refused(branch: Branch, message: Any):
    with pytest.raises(InvalidTurn, match="points to artifact"):
        await branch.record_turn([message])
    assert await branch.turns() == ()


async def test_an_artifact_field_of_a_dict_means_nothing(branch: Branch):
    secret = await (await branch.fork("other")).put_artifact("secret", name="secret")
    message = {"role": "user", "content": "Mine", "artifact": secret.handle}
    turn = await branch.record_turn([message, READ])
    assert turn.messages[0].artifact is None
    stored = (await branch.turns())[0].messages[0]
    assert stored.artifact is None and stored.extra == {"artifact": secret.handle}
    assert "secret" not in json.dumps((await _prepared(branch)).messages)


async def test_a_repeated_turn_returns_the_first_handles(branch: Branch):
    messages = [ASKED, *exchange("a", REPORT), READ]
    first = await branch.record_turn(messages, turn_key="k")
    again = await branch.record_turn(messages, turn_key="k")
    assert again.repeated and not first.repeated
    assert again.messages == first.messages
    assert len(await branch.artifacts()) == 1
    child = await branch.fork("child")
    elsewhere = await child.record_turn(messages, turn_key="k")
    assert elsewhere.messages[2].artifact != first.messages[2].artifact


async def test_64_mib_work_and_one_byte_more_is_refused_by_name(make_client: Any, tmp_path: Any):
    client: ContextClient = await make_client(artifact_url=f"file://{tmp_path}/objects")
    branch = await client.open_branch("conversation")
    line = b"pump 7 at 3500 kPa, all is well\n"
    content = line * (LARGEST // len(line))
    assert len(content) == LARGEST
    turn = await branch.record_turn([ASKED, *exchange("a", content.decode())])
    [artifact] = await branch.artifacts()
    assert artifact.size == LARGEST and turn.messages[2].artifact == artifact.handle
    part = await branch.load_artifact(artifact.handle, start=2_000_000, length=1)
    assert part.content == line.decode().rstrip()
    put = await branch.put_artifact(content, name="all", media_type="text/plain")
    assert put.sha256 == artifact.sha256
    with pytest.raises(ArtifactTooLarge, match="67,108,865 bytes"):
        await branch.record_turn([ASKED, *exchange("a", f"{content.decode()}!")])
    with pytest.raises(ArtifactTooLarge, match="67,108,865 bytes"):
        await branch.put_artifact(content + b"!", name="all")
    assert len(await branch.turns()) == 1 and len(await branch.artifact_history("all")) == 1
    await _prepared(branch)


async def test_the_size_is_that_of_the_bytes(branch: Branch):
    with pytest.raises(ArtifactTooLarge):
        await branch.put_artifact("ü" * (LARGEST // 2 + 1), name="all")


async def test_the_ledger_carries_the_handle_into_later_prompts(branch: Branch, pool: Pool):
    turn = await branch.record_turn([ASKED, *exchange("a", REPORT, "read_report"), READ])
    handle = str(turn.messages[2].artifact)
    [entry] = [entry for entry in turn.ledger if entry.kind == "artifact"]
    assert entry.value == f"{handle} (read_report, text/plain, {len(REPORT):,} bytes)"
    for n in range(2, 30):
        await branch.record_turn(numbered(n))
    assert await compact_all(pool, branch.branch_uuid) == 4
    prepared = await _prepared(branch)
    assert handle in prepared.messages[0]["content"]
    first, *later = await branch.checkpoints()
    assert first.artifact_handles == (handle,)
    assert {handles.artifact_handles for handles in later} == {()}
    assert handle in [e.value.split(" ")[0] for e in later[-1].ledger if e.kind == "artifact"]


async def test_children_read_artifacts_of_their_parents_and_nobody_elses(
    branch: Branch, make_client: Any
):
    early = await branch.record_turn([ASKED, *exchange("a", REPORT)])
    child, sibling = await branch.fork("child"), await branch.fork("sibling")
    late = await branch.record_turn([ASKED, *exchange("b", LOG)])
    own = await child.record_turn([ASKED, *exchange("c", f"{LOG}\nof the child")])
    named = await child.put_artifact("of the child", name="plan")
    after = await branch.put_artifact("of the parent, after the fork", name="plan")
    inherited = str(early.messages[2].artifact)
    for reader in (branch, child, sibling):
        assert (await reader.load_artifact(inherited)).content == REPORT
    unseen = {
        branch: [own.messages[2].artifact, named.handle],
        child: [late.messages[2].artifact, after.handle],
        sibling: [late.messages[2].artifact, own.messages[2].artifact, named.handle, after.handle],
    }
    for reader, handles in unseen.items():
        for handle in handles:
            with pytest.raises(ArtifactNotFound):
                await reader.load_artifact(str(handle))
    other = await (await make_client(tenant="other")).open_branch("conversation")
    with pytest.raises(ArtifactNotFound):
        await other.load_artifact(inherited)


async def test_versions_go_on_in_the_child_and_stay_in_the_parent(branch: Branch):
    for n in range(1, 5):
        await branch.record_turn(numbered(n))
        await branch.put_artifact(f"plan {n}", name="plan")
    child = await branch.fork("child", at_turn=2)
    assert [one.version for one in await child.artifact_history("plan")] == [1, 2]
    newest = await child.put_artifact("plan of the child", name="plan")
    reverted = await child.revert_artifact("plan", 1)
    assert (newest.version, reverted.version) == (3, 4)
    assert (await child.load_artifact(reverted.handle)).content == "plan 1"
    assert [one.handle for one in await child.artifacts()] == [reverted.handle]
    history = await branch.artifact_history("plan")
    assert [one.version for one in history] == [1, 2, 3, 4]
    assert (await branch.load_artifact(history[2].handle)).content == "plan 3"
    with pytest.raises(ArtifactNotFound):
        await child.revert_artifact("plan", 5)


async def test_events_tell_what_was_offloaded(branch: Branch):
    turn = await branch.record_turn([ASKED, *exchange("a", REPORT, "read_report"), READ])
    put = await branch.put_artifact("the plan", name="plan")
    recorded, offloaded, told = await all_events(branch)
    assert (recorded.kind, recorded.data["artifacts"]) == ("recorded", 1)
    assert (offloaded.kind, offloaded.turn_no) == ("offloaded", 1)
    assert offloaded.data["handle"] == turn.messages[2].artifact
    assert (told.kind, told.data["handle"], told.data["version"]) == ("put", put.handle, 1)


async def test_what_the_model_has_not_read_yet_is_whole_as_far_as_the_budget_allows(branch: Branch):
    await branch.record_turn([ASKED], continues=True)
    pending = exchange("a", REPORT, "read")
    prepared = await branch.prepare(None, budget=Budget(max_tokens=64_000), pending=pending)
    assert prepared
    check_tokens(prepared)
    assert prepared.messages[-1]["content"] == REPORT
    smaller = await branch.prepare(None, budget=Budget(max_tokens=3_000), pending=pending)
    assert smaller
    check_tokens(smaller)
    assert [reduction.kind for reduction in smaller.manifest.reductions] == ["view"]


async def test_text_that_stays_in_its_turn_is_counted_to_the_last_token(branch: Branch):
    window = "word " * 2_000
    text = "".join(window + "仓" * 27_500 for _ in range(40))
    assert len(text) > 1_000_000
    await branch.record_turn(chat(text, "I see."))
    prepared = await branch.prepare("And?", budget=Budget(max_tokens=10_000_000))
    assert prepared
    check_tokens(prepared)


async def test_a_result_whose_view_is_no_smaller_is_counted_as_it_is_shown(branch: Branch):
    message = result("a", "") | {"content": [{"type": "text", "text": "\n"}] * 1_001}
    await branch.record_turn([ASKED, calling(call("a", "read")), message, READ])
    prepared = await branch.prepare("And?", budget=Budget(max_tokens=64_000))
    assert prepared
    check_tokens(prepared)


async def test_what_a_raw_turn_shows_whole_is_not_quoted_again(branch: Branch, pool: Pool):
    rows = "\n".join(f"row {n}: price {n * 3} euro" for n in range(160))
    await branch.record_turn([ASKED, *exchange("a", rows, "read"), READ])
    for n in range(2, 14):
        await branch.record_turn(numbered(n))
    await compact_all(pool, branch.branch_uuid)
    [artifact] = await branch.artifacts()
    raw, later = [
        await branch.prepare("row price euro", budget=Budget(max_tokens=64_000), at_turn=turn)
        for turn in (1, 13)
    ]
    assert raw
    assert later
    assert rows in [message["content"] for message in raw.messages]
    assert not any(artifact.handle in block.source_ids for block in raw.manifest.blocks)
    assert any(artifact.handle in block.source_ids for block in later.manifest.blocks)


async def test_a_retry_under_another_policy_returns_what_is_stored(
    make_client: Any, branch: Branch
):
    turn = [ASKED, *exchange("a", REPORT, "read"), READ]
    first = await branch.record_turn(turn, turn_key="k")
    lenient = await make_client(CompactionPolicy(offload_tokens=100_000))
    other = await lenient.find_branch(branch.conversation_id)
    again = await other.record_turn(turn, turn_key="k")
    assert again == first.model_copy(update={"repeated": True})
