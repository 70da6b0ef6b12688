"""The artifact store of a branch in place of files."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from durable_context import Branch, ContextClient
from durable_context.errors import ArtifactNotFound
from durable_context.offload import ContextOffloadOp, OffloadResult
from tests.offload.talks import Short, blocks, done, talk

MakeClient = Callable[..., Awaitable[ContextClient]]


def op_of(branch: Branch, **parameters: Any) -> ContextOffloadOp:
    given: dict[str, Any] = {
        "max_total_tokens": 300,
        "compact_ratio_threshold": 0,
        "chat_id": "chat",
        "summarizer": Short(),
    }
    return ContextOffloadOp(artifacts=branch, **given | parameters)


async def run(branch: Branch, messages: Any = None, **parameters: Any) -> OffloadResult:
    return await op_of(branch, **parameters).run(talk(3, 800) if messages is None else messages)


async def test_originals_go_to_the_branch_and_handles_are_the_references(branch: Branch) -> None:
    found = await run(branch)
    artifacts = await branch.artifacts()
    assert {file.reference for file in found.files} == {a.handle for a in artifacts}
    assert [file.kind for file in found.files] == ["tool_message"] * 3 + ["message_group"]
    assert {a.media_type for a in artifacts} == {"text/plain", "application/json"}
    assert found.files[-1].reference in blocks(found)[0]
    for file in found.files:
        content = await op_of(branch).load(file.reference)
        assert len(content.encode()) == file.size
    group = json.loads(await op_of(branch).load(found.files[-1].reference))
    assert [message["role"] for message in group] == [m["role"] for m in talk(3, 800)[1:-2]]


async def test_a_retry_finds_what_is_there_and_puts_nothing_twice(branch: Branch) -> None:
    first, again = await run(branch), await run(branch)
    assert first == again
    for artifact in await branch.artifacts():
        assert len(await branch.artifact_history(artifact.name or "")) == 1


async def test_two_runs_at_the_same_time_agree(branch: Branch) -> None:
    results = await asyncio.gather(*(run(branch) for _ in range(8)))
    later = await run(branch)
    assert {json.dumps(result.messages) for result in results} == {json.dumps(later.messages)}
    assert [(f.reference, f.kind) for f in await op_of(branch).files()] == [
        (file.reference, file.kind) for file in later.files
    ]
    for file in later.files:
        assert await op_of(branch).load(file.reference)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_what_others_put_under_a_name_of_ours_is_no_original(
    when: str, branch: Branch, client: ContextClient
) -> None:
    elsewhere = await client.open_branch("elsewhere")
    expected = (await run(elsewhere, context_manage_mode="compact")).files
    names = [artifact.name or "" for artifact in await elsewhere.artifacts()]
    first = await run(branch, context_manage_mode="compact") if when == "after" else None
    foreign = [await branch.put_artifact("foreign", name=name) for name in names]
    found = first or await run(branch, context_manage_mode="compact")
    assert [file.sha256 for file in found.files] == [file.sha256 for file in expected]
    assert {f.reference for f in await op_of(branch).files()} == {f.reference for f in found.files}
    for file in found.files:
        assert "foreign" not in await op_of(branch).load(file.reference)
    for artifact in foreign:
        with pytest.raises(ArtifactNotFound):
            await op_of(branch).load(artifact.handle)


async def test_another_process_finds_all_of_the_chat(
    branch: Branch, make_client: MakeClient
) -> None:
    found = await run(branch)
    again = await (await make_client()).open_branch("conversation")
    op = op_of(again)
    assert {f.reference for f in await op.files()} == {f.reference for f in found.files}
    assert (await op.load(found.files[0].reference)).startswith("row 0 0")
    repeated = await op_of(again, context_manage_mode="compact", max_tool_message_tokens=1).run(
        (await run(branch, context_manage_mode="compact")).messages
    )
    assert not repeated.changed and done(repeated, "compact")[0] == ("kept", "already_offloaded")


async def test_a_fork_reads_what_its_parent_kept(branch: Branch) -> None:
    found = await run(branch)
    fork = await branch.fork("other")
    assert await op_of(fork).load(found.files[0].reference)
    assert (await run(fork)).messages == found.messages


async def test_other_chats_branches_and_artifacts_are_not_read(
    branch: Branch, client: ContextClient
) -> None:
    found = await run(branch)
    report = await branch.put_artifact("a report", name="report")
    elsewhere = await client.open_branch("elsewhere")
    for op, reference in (
        (op_of(branch, chat_id="other"), found.files[0].reference),
        (op_of(elsewhere), found.files[0].reference),
        (op_of(branch), report.handle),
        (op_of(branch), "art_" + "0" * 22),
        (op_of(branch), "../report"),
    ):
        with pytest.raises(ArtifactNotFound):
            await op.load(reference)
    assert await op_of(branch, chat_id="other").files() == ()


@pytest.mark.parametrize("chat_id", ["../escape", "\0", "a/b", "x" * 5_000])
async def test_no_name_is_made_of_a_chat_id(chat_id: str, branch: Branch) -> None:
    await run(branch, chat_id=chat_id)
    for artifact in await branch.artifacts():
        folder, digits, name = (artifact.name or "").split("/")
        assert folder == "offload" and len(digits) == 32 and name[:64].isalnum()


async def test_an_object_store_that_is_down_leaves_the_messages(
    make_client: MakeClient, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    client = await make_client(artifact_url=(tmp_path / "file").as_uri(), inline_limit=0)
    found = await run(await client.open_branch("conversation"))
    assert not found.changed and list(found.messages) == talk(3, 800)
    assert {failure.reason for failure in found.failures} == {"store_failed"}


async def test_a_second_run_changes_nothing(branch: Branch) -> None:
    op = op_of(branch, summary_role="user")
    first = await op.run(talk(3, 800))
    again = await op.run(first.messages)
    other = await op_of(branch, summary_role="user").run(first.messages)
    assert not again.changed and not other.changed and other.messages == first.messages
