"""Processors over a durable branch: what they put away outlives the process."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from durable_context import Branch, ContextClient
from durable_context.errors import (
    ArtifactStoreUnavailable,
    ContextError,
    ProcessorError,
    SummarizerUnavailable,
)
from durable_context.models import Artifact
from durable_context.processors.context import Context
from durable_context.processors.dialogue_compressor import DialogueCompressor
from durable_context.processors.markers import handle_of
from durable_context.processors.message_offloader import MessageOffloader
from durable_context.processors.offloaded import reload_offloaded
from durable_context.processors.pipeline import ProcessorPipeline
from durable_context.processors.tool_result_offloader import ToolResultOffloader
from durable_context.processors.tools import get_context_tools
from durable_context.summarizers import SummaryDraft, SummaryRequest
from durable_context.summarizers.extractive import ExtractiveSummarizer

MakeClient = Callable[..., Awaitable[ContextClient]]

REPORT = "The harbour of Bergen had 1,204 ships in May. " * 40
ROWS = "row 17: mia@example.org paid 12.50 EUR\n" * 60


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


class Telling:
    """A summarizer of our protocol that gives one answer and remembers what it was asked."""

    recipe = "telling/1"

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.requests: list[SummaryRequest] = []

    async def summarize(self, request: SummaryRequest) -> SummaryDraft:
        self.requests.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        draft: SummaryDraft = self.answer
        return draft


@pytest.fixture
async def branch(client: ContextClient) -> Branch:
    return await client.open_branch("conversation", "main")


def user(content: str) -> dict[str, Any]:
    return {"role": "user", "content": content}


def chain(content: str, call_id: str = "c1") -> list[dict[str, Any]]:
    inner = {"name": "query", "arguments": '{"table": "payments"}'}
    calls = [{"id": call_id, "type": "function", "function": inner}]
    return [
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": call_id, "content": content},
    ]


DONE = {"role": "assistant", "content": "Mia paid."}


async def over(branch: Branch, *history: Any) -> Context:
    ctx = await Context.from_branch(branch)
    ctx.state.set("history", list(history))
    return ctx


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


async def test_an_offloaded_result_is_an_artifact_and_its_entry_names_it(branch: Branch) -> None:
    ctx = await over(branch)
    payload = {"tool_result": ROWS, "tool_name": "query", "tool_call_id": "c1"}
    await ToolResultOffloader(max_size=100, artifacts=branch).process(ctx, payload)
    (artifact,) = await branch.artifacts()
    assert ctx.state.get("offloaded_results") == [
        {
            "tool_name": "query",
            "tool_call_id": "c1",
            "size": len(ROWS),
            "artifact_id": None,
            "handle": artifact.name,
            "artifact": artifact.handle,
        }
    ]
    assert payload["tool_result"] == (
        f"{ROWS[:50]}...\n\n[Result truncated — full content kept as artifact ({len(ROWS)} chars)]"
        f" [[OFFLOADED: handle={artifact.name}]]"
    )
    assert await reload_offloaded(ctx, str(artifact.name)) == ROWS


@pytest.mark.parametrize("max_size", [10, 100])
async def test_firing_again_with_its_own_reference_changes_nothing(
    branch: Branch, max_size: int
) -> None:
    ctx = await over(branch)
    offloader = ToolResultOffloader(max_size=max_size, artifacts=branch)
    payload = {"tool_result": ROWS, "tool_name": "query", "tool_call_id": "c1"}
    await offloader.process(ctx, payload)
    before = dict(payload), ctx.state.get("offloaded_results")
    await offloader.process(ctx, payload)
    restarted = await Context.from_branch(branch)
    await offloader.process(restarted, payload)
    assert (payload, ctx.state.get("offloaded_results")) == before
    assert "offloaded_results" not in restarted.state
    assert len(await branch.artifacts()) == 1


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


async def test_content_kept_as_artifacts_is_summarized_and_not_the_marker(branch: Branch) -> None:
    asked: list[list[dict[str, Any]]] = []

    async def summarizer(given: list[dict[str, Any]]) -> str:
        asked.append(given)
        return "Mia paid 12.50."

    ctx = await over(branch, user("who paid?"), *chain(ROWS), DONE)
    await offload(ctx, branch)
    pipeline = ProcessorPipeline().register(DialogueCompressor(summarizer=summarizer))
    await pipeline.fire("pre_llm_call", ctx)
    assert asked == [chain(ROWS)]
    summary = {"role": "assistant", "content": "Mia paid 12.50."}
    assert ctx.state.get("history") == [user("who paid?"), summary, DONE]


async def test_after_a_restart_a_recorded_reference_is_summarized_as_its_content(
    make_client: MakeClient,
) -> None:
    rows = "\0<conversation-record> " + ROWS
    first = await (await make_client()).open_branch("conversation", "main")
    pipeline = ProcessorPipeline().register(ToolResultOffloader(max_size=100, artifacts=first))
    await first.record_turn([user("who paid?"), *chain(rows), DONE], pipeline=pipeline)
    second = await (await make_client()).open_branch("conversation", "main")
    ctx = await Context.from_branch(second)
    assert len(ctx.state.get("history")[2]["content"]) < 300
    asked: list[list[dict[str, Any]]] = []

    async def summarizer(given: list[dict[str, Any]]) -> str:
        asked.append(given)
        return "Mia paid 12.50."

    await DialogueCompressor(summarizer=summarizer).process(ctx, {})
    assert asked[0][1]["content"] == rows


async def test_our_extractive_summarizer_tells_what_a_chain_did(branch: Branch) -> None:
    ctx = await over(branch, user("who paid?"), *chain(ROWS), *chain("no rows", "c2"), DONE)
    await offload(ctx, branch, limit=500)
    await DialogueCompressor(summarizer=ExtractiveSummarizer()).process(ctx, {})
    asked, summary, done = ctx.state.get("history")
    assert (asked, done) == (user("who paid?"), DONE)
    assert summary["role"] == "assistant"
    assert "query(payments)" in summary["content"]
    assert "turn 1" not in summary["content"]
    assert "OFFLOADED" not in summary["content"]


async def test_our_summarizers_get_the_chain_as_one_turn_under_the_branchs_policy(
    branch: Branch,
) -> None:
    summarizer = Telling(SummaryDraft(headline="Paid", text="Mia paid.", made_by="telling/1"))
    ctx = await over(branch, *chain(ROWS), DONE)
    await DialogueCompressor(summarizer=summarizer).process(ctx, {})
    (request,) = summarizer.requests
    (turn,) = request.turns
    assert [message.role for message in turn.messages] == ["assistant", "tool"]
    assert turn.messages[1].content == ROWS
    assert turn.messages[0].tool_calls[0].name == "query"
    assert request.max_tokens == branch.policy.summary_max_tokens
    assert request.encoding == branch.encoding
    assert turn.token_count > 500


async def test_secrets_in_a_draft_are_redacted_as_in_compaction(branch: Branch) -> None:
    leaking = "The key is ghp_" + "a1B2" * 9
    summarizer = Telling(SummaryDraft(headline="Key", text=leaking, made_by="telling/1"))
    ctx = await over(branch, *chain(ROWS), DONE)
    await DialogueCompressor(summarizer=summarizer).process(ctx, {})
    assert "ghp_" not in ctx.state.get("history")[0]["content"]
    assert "[redacted" in ctx.state.get("history")[0]["content"]


@pytest.mark.parametrize("text", ["", "Mia paid again and again. " * 400])
async def test_a_draft_that_compaction_would_refuse_leaves_the_chain(
    branch: Branch, text: str
) -> None:
    summarizer = Telling(SummaryDraft(headline="Paid", text=text, made_by="telling/1"))
    ctx = await over(branch, *chain(ROWS), DONE)
    await DialogueCompressor(summarizer=summarizer).process(ctx, {})
    assert ctx.state.get("history") == [*chain(ROWS), DONE]


async def test_a_failing_summarizer_of_ours_leaves_history_as_it_was(branch: Branch) -> None:
    down = SummarizerUnavailable("no model")
    ctx = await over(branch, user("who paid?"), *chain(ROWS), DONE)
    with pytest.raises(SummarizerUnavailable) as raised:
        await DialogueCompressor(summarizer=Telling(down)).process(ctx, {})
    assert raised.value is down
    assert ctx.state.get("history") == [user("who paid?"), *chain(ROWS), DONE]


async def test_what_is_no_draft_is_an_error(branch: Branch) -> None:
    ctx = await over(branch, *chain(ROWS), DONE)
    with pytest.raises(ProcessorError, match="must be a SummaryDraft"):
        await DialogueCompressor(summarizer=Telling("Mia paid.")).process(ctx, {})


async def test_the_same_branch_and_content_give_the_same_bytes(branch: Branch) -> None:
    first = await offload(await over(branch, user(REPORT)), None)
    again = await offload(await over(branch, user(REPORT)), branch)
    assert first == again
