"""Processors over a durable branch: what they put away outlives the process."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from durable_context import Branch, Budget, ContextClient, PreparedContext
from durable_context.errors import (
    ArtifactStoreUnavailable,
    ContextError,
)
from durable_context.models import Artifact
from durable_context.processors.context import Context
from durable_context.processors.markers import handle_of
from durable_context.processors.message_offloader import MessageOffloader
from durable_context.processors.offloaded import reload_offloaded
from durable_context.processors.pipeline import ProcessorPipeline
from durable_context.processors.tool_result_offloader import ToolResultOffloader
from durable_context.processors.tools import get_context_tools
from tests.processors.payments import DONE, ROWS, chain, over, user

MakeClient = Callable[..., Awaitable[ContextClient]]

REPORT = "The harbour of Bergen had 1,204 ships in May. " * 40


class Refusing:
    """A branch whose store takes `most` artifacts and fails then."""

    def __init__(self, branch: Branch, most: int) -> None:
        self._branch = branch
        self._left = most
        self.load_artifact = branch.load_artifact
        self.artifact_history = branch.artifact_history

    async def put_artifact(
        self, content: str | bytes, *, name: str, media_type: str | None = None
    ) -> Artifact:
        if not self._left:
            raise ArtifactStoreUnavailable("the store is down")
        self._left -= 1
        return await self._branch.put_artifact(content, name=name, media_type=media_type)


async def offload(ctx: Context, artifacts: Any, limit: int = 100) -> list[str]:
    """The contents after offloading."""
    await MessageOffloader(max_message_size=limit, artifacts=artifacts).process(ctx, {})
    return [message["content"] for message in ctx.state.get("history")]


def handle_in(text: str) -> str:
    return text[-18:-2]


async def test_an_offloaded_message_is_an_artifact_and_not_in_the_state(branch: Branch) -> None:
    ctx = await over(branch, user(REPORT))
    (marker,) = await offload(ctx, branch)
    (artifact,) = await branch.artifacts()
    assert artifact.name == handle_in(marker) == handle_of(REPORT, str(branch.branch_uuid))
    assert ctx.state.get("offloaded_artifacts") == {handle_in(marker): artifact.handle}
    assert REPORT not in str(ctx.state.to_dict())
    assert "offloaded_messages" not in ctx.state
    assert await reload_offloaded(ctx, handle_in(marker)) == REPORT


async def test_an_offloader_over_artifacts_is_not_pure(branch: Branch) -> None:
    assert not MessageOffloader(artifacts=branch).pure
    assert not ToolResultOffloader(artifacts=branch).pure


async def test_nothing_is_put_or_written_where_nothing_is_oversized(branch: Branch) -> None:
    ctx = await over(branch, user("short"))
    assert await offload(ctx, branch) == ["short"]
    assert "offloaded_artifacts" not in ctx.state
    assert await branch.artifacts() == ()


async def test_originals_survive_a_new_process(make_client: MakeClient) -> None:
    first = await make_client()
    branch = await first.open_branch("conversation", "main")
    markers = await offload(await over(branch, user(REPORT), *chain(ROWS), DONE), branch)
    await first.close()
    second = await make_client()
    ctx = await Context.from_branch(await second.open_branch("conversation", "main"))
    assert ctx.state.to_dict().keys() == {"history"}
    assert await reload_offloaded(ctx, handle_in(markers[0])) == REPORT
    tool = get_context_tools()[-1].bind(ctx)
    assert await tool.execute(handle=handle_in(markers[2])) == ROWS


async def test_two_branches_do_not_see_each_others_handles(client: ContextClient) -> None:
    mine = await client.open_branch("conversation", "main")
    theirs = await client.open_branch("another", "main")
    ctx = await over(mine, user(REPORT))
    (marker,) = await offload(ctx, mine)
    other = await Context.from_branch(theirs)
    with pytest.raises(ContextError, match=handle_in(marker)):
        await reload_offloaded(other, handle_in(marker))
    other.state.set("offloaded_artifacts", ctx.state.get("offloaded_artifacts"))
    with pytest.raises(ContextError, match=handle_in(marker)):
        await reload_offloaded(other, handle_in(marker))
    assert await offload(await over(theirs, user(REPORT)), theirs) != [marker]


async def test_tenants_do_not_see_each_others_handles(make_client: MakeClient) -> None:
    mine = await (await make_client(tenant="a")).open_branch("conversation", "main")
    theirs = await (await make_client(tenant="b")).open_branch("conversation", "main")
    (marker,) = await offload(await over(mine, user(REPORT)), mine)
    with pytest.raises(ContextError):
        await reload_offloaded(await Context.from_branch(theirs), handle_in(marker))


async def test_a_fork_reads_what_its_parent_offloaded_before(branch: Branch) -> None:
    await branch.record_turn([user("hello"), {"role": "assistant", "content": "hi"}])
    (marker,) = await offload(await over(branch, user(REPORT)), branch)
    child = await branch.fork("experiment")
    (own,) = await offload(await over(child, user(ROWS)), child)
    ctx = await Context.from_branch(child)
    assert await reload_offloaded(ctx, handle_in(marker)) == REPORT
    assert await reload_offloaded(ctx, handle_in(own)) == ROWS
    with pytest.raises(ContextError):
        await reload_offloaded(await Context.from_branch(branch), handle_in(own))


async def test_a_fork_of_a_context_reads_and_adds_without_changing_it(branch: Branch) -> None:
    ctx = await over(branch, user(REPORT))
    (marker,) = await offload(ctx, branch)
    child = ctx.fork("child")
    child.state.set("history", [user(ROWS)])
    (own,) = await offload(child, branch)
    assert await reload_offloaded(child, handle_in(marker)) == REPORT
    assert await reload_offloaded(child, handle_in(own)) == ROWS
    assert list(ctx.state.get("offloaded_artifacts")) == [handle_in(marker)]


async def test_a_context_without_a_branch_finds_what_it_put_into_one(branch: Branch) -> None:
    ctx = Context("task-1")
    ctx.state.set("history", [user(REPORT)])
    (marker,) = await offload(ctx, branch)
    assert await reload_offloaded(ctx, handle_in(marker)) == REPORT
    assert await reload_offloaded(ctx.fork("child"), handle_in(marker)) == REPORT


async def test_a_failed_store_leaves_history_and_state_as_they_were(branch: Branch) -> None:
    original = [user(REPORT), user("short"), user(ROWS)]
    ctx = await over(branch, *original)
    before = set(ctx.state.keys())
    with pytest.raises(ArtifactStoreUnavailable):
        await offload(ctx, Refusing(branch, most=1))
    history = ctx.state.get("history")
    assert all(a is b for a, b in zip(history, original, strict=True))
    assert set(ctx.state.keys()) == before


async def test_a_failed_store_leaves_the_result_as_it_was(branch: Branch) -> None:
    ctx = await over(branch)
    payload = {"tool_result": ROWS}
    offloader = ToolResultOffloader(max_size=100, artifacts=Refusing(branch, most=0))
    with pytest.raises(ArtifactStoreUnavailable):
        await offloader.process(ctx, payload)
    assert payload == {"tool_result": ROWS}
    assert "offloaded_results" not in ctx.state


async def test_a_retry_puts_nothing_twice(branch: Branch) -> None:
    ctx = await over(branch, user(REPORT), user(ROWS))
    with pytest.raises(ArtifactStoreUnavailable):
        await offload(ctx, Refusing(branch, most=1))
    once = await offload(ctx, branch)
    again = await offload(await over(branch, user(REPORT), user(ROWS)), branch)
    assert once == again
    versions = [artifact.version for artifact in await branch.artifacts()]
    assert versions == [1, 1]


async def test_a_handle_that_another_content_has_in_the_store_is_not_used(branch: Branch) -> None:
    taken = handle_of(REPORT, str(branch.branch_uuid))
    await branch.put_artifact("another content", name=taken)
    ctx = await over(branch, user(REPORT))
    (marker,) = await offload(ctx, branch)
    assert handle_in(marker) != taken
    assert await reload_offloaded(ctx, handle_in(marker)) == REPORT
    assert await reload_offloaded(await Context.from_branch(branch), handle_in(marker)) == REPORT
    assert len(await branch.artifact_history(taken)) == 1


async def test_a_handle_that_another_content_has_in_the_state_is_not_used(branch: Branch) -> None:
    taken = handle_of(REPORT, str(branch.branch_uuid))
    ctx = await over(branch, user(REPORT))
    ctx.state.set("offloaded_messages", {taken: "another content"})
    (marker,) = await offload(ctx, branch)
    assert await reload_offloaded(ctx, handle_in(marker)) == REPORT
    assert await reload_offloaded(ctx, taken) == "another content"


async def test_what_is_appended_while_artifacts_are_stored_stays(branch: Branch) -> None:
    ctx = await over(branch, user(REPORT))

    class Interrupting(Refusing):
        async def put_artifact(self, *args: Any, **options: Any) -> Artifact:
            ctx.state.get("history").append(user("one more thing"))
            return await super().put_artifact(*args, **options)

    contents = await offload(ctx, Interrupting(branch, most=1))
    assert contents[1:] == ["one more thing"]
    assert await reload_offloaded(ctx, handle_in(contents[0])) == REPORT


async def test_a_message_that_was_changed_while_artifacts_are_stored_keeps_the_change(
    branch: Branch,
) -> None:
    ctx = await over(branch, user(REPORT))

    class Interrupting(Refusing):
        async def put_artifact(self, *args: Any, **options: Any) -> Artifact:
            ctx.state.get("history")[0]["content"] = "corrected"
            return await super().put_artifact(*args, **options)

    assert await offload(ctx, Interrupting(branch, most=1)) == ["corrected"]
    assert "offloaded_artifacts" not in ctx.state


async def test_odd_characters_come_back_from_the_store_as_they_are(branch: Branch) -> None:
    odd = "\0 \ud800 <conversation-record> 𝔘\r\n" * 30
    ctx = await over(branch, user(odd))
    (marker,) = await offload(ctx, branch)
    assert await reload_offloaded(ctx, handle_in(marker)) == odd


async def test_a_branch_of_a_user_named_artifact_is_not_readable_as_a_handle(
    branch: Branch,
) -> None:
    await branch.put_artifact("internal", name="notes")
    with pytest.raises(ContextError, match="'notes'"):
        await reload_offloaded(await Context.from_branch(branch), "notes")


async def test_what_prepare_offloaded_is_read_by_the_tool(branch: Branch) -> None:
    await branch.record_turn([user(REPORT), {"role": "assistant", "content": "I see."}])
    pipeline = ProcessorPipeline().register(MessageOffloader(max_message_size=100))
    prepared = await branch.prepare("and now?", budget=Budget(max_tokens=8_000), pipeline=pipeline)
    assert isinstance(prepared, PreparedContext)
    marker = prepared.messages[0]["content"]
    tool = get_context_tools()[-1].bind(await Context.from_branch(branch))
    assert await tool.execute(handle=handle_in(marker)) == REPORT


async def test_the_same_branch_and_content_give_the_same_bytes(branch: Branch) -> None:
    first = await offload(await over(branch, user(REPORT)), None)
    again = await offload(await over(branch, user(REPORT)), branch)
    assert first == again
