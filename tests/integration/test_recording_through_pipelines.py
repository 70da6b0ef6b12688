"""record_turn(pipeline=...): tools' results are recorded as `post_tool_call` leaves them."""

from collections.abc import Callable
from typing import Any

import pytest

from durable_context import ContextClient, get_context_tools, run_tool_call
from durable_context.artifacts.media import is_stored_part
from durable_context.database import Pool
from durable_context.errors import (
    ArtifactNotFound,
    ContextError,
    HeadConflict,
    ProcessorError,
    TurnKeyConflict,
)
from durable_context.processors import offloaded
from durable_context.processors.context import Context
from durable_context.processors.offloaded import reload_offloaded
from durable_context.processors.pipeline import ContextProcessor, ProcessorPipeline
from durable_context.processors.tool_result_offloader import ToolResultOffloader
from tests.compacting import compact_all
from tests.provider_turns import PNG
from tests.turns import call, calling, chat, exchange, result

LOG = "\n".join(f"{n:04d} shipment SHP-{n:04d} left Rotterdam" for n in range(200))


class Noting(ContextProcessor):
    """Keeps the payloads it gets, and may replace results."""

    def __init__(self, replace: Callable[[Any], Any] = lambda result: result) -> None:
        super().__init__("post_tool_call", name="noting")
        self.payloads: list[dict[str, Any]] = []
        self.histories: list[Any] = []
        self._replace = replace

    async def process(self, ctx: Context, payload: dict[str, Any]) -> None:
        self.payloads.append(dict(payload))
        self.histories.append(ctx.state["history"])
        payload["tool_result"] = self._replace(payload["tool_result"])


def asked(*exchanges: Any) -> list[Any]:
    return [chat("Look", "")[0], *exchanges, {"role": "assistant", "content": "Done."}]


async def test_each_result_is_fired_once_with_its_tools_name(client: ContextClient):
    branch = await client.open_branch("c")
    noting = Noting()
    messages = [
        {"role": "user", "content": "Look"},
        calling(call("a", "search"), call("b", "read")),
        result("a", "one"),
        result("b", "two"),
        {"role": "assistant", "content": "Done."},
    ]
    await branch.record_turn(messages, pipeline=ProcessorPipeline().register(noting))
    assert noting.payloads == [
        {"tool_result": "one", "tool_name": "search", "tool_call_id": "a"},
        {"tool_result": "two", "tool_name": "read", "tool_call_id": "b"},
    ]
    assert [message["role"] for message in noting.histories[0]] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
    ]


async def test_what_a_processor_makes_of_a_result_is_recorded(client: ContextClient):
    branch = await client.open_branch("c")
    pipeline = ProcessorPipeline().register(Noting(lambda said: said.replace("4711", "****")))
    turn = await branch.record_turn(asked(*exchange("a", "card 4711")), pipeline=pipeline)
    assert turn.messages[2].content == "card ****"
    assert (await branch.turns())[0].messages[2].content == "card ****"
    assert not await branch.search("4711")


async def test_json_of_a_processor_is_recorded_as_text_and_other_objects_are_refused(
    client: ContextClient,
):
    branch = await client.open_branch("c")
    pipeline = ProcessorPipeline().register(Noting(lambda said: {"found": [said]}))
    turn = await branch.record_turn(asked(*exchange("a", "ü")), pipeline=pipeline)
    assert turn.messages[2].content == '{"found":["ü"]}'
    wrong = ProcessorPipeline().register(Noting(lambda said: object()))
    with pytest.raises(ProcessorError, match="text or JSON"):
        await branch.record_turn(asked(*exchange("b", "x")), pipeline=wrong)
    assert len(await branch.turns()) == 1


@pytest.mark.parametrize("durable", [True, False])
async def test_an_offloaded_result_is_found_by_its_handle_after_a_restart(
    client: ContextClient, make_client: Any, durable: bool
):
    branch = await client.open_branch("c")
    offloader = ToolResultOffloader(max_size=1_000, artifacts=branch if durable else None)
    pipeline = ProcessorPipeline().register(offloader)
    turn = await branch.record_turn(asked(*exchange("a", LOG)), pipeline=pipeline)
    content = str(turn.messages[2].content)
    assert content.startswith(LOG[:500]) and len(content) < 700
    handle = handle_in(content)
    other = await (await make_client()).open_branch("c")
    assert await reload_offloaded(await Context.from_branch(other), handle) == LOG
    child = await other.fork("child")
    assert await reload_offloaded(await Context.from_branch(child), handle) == LOG


async def test_a_retry_records_once_and_keeps_one_artifact(client: ContextClient):
    branch = await client.open_branch("c")
    for _ in range(2):
        pipeline = ProcessorPipeline().register(ToolResultOffloader(max_size=1_000))
        turn = await branch.record_turn(
            asked(*exchange("a", LOG)), turn_key="one", pipeline=pipeline
        )
    assert turn.repeated
    assert len(await branch.turns()) == 1
    (artifact,) = await branch.artifacts()
    assert (artifact.source, artifact.turn_no) == ("offloaded", 1)
    with pytest.raises(TurnKeyConflict):
        await branch.record_turn(asked(*exchange("a", LOG)), turn_key="one")


async def test_images_stay_beside_the_text_that_was_offloaded(client: ContextClient):
    branch = await client.open_branch("c")
    parts = [
        {"type": "text", "text": LOG},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
    ]
    pipeline = ProcessorPipeline().register(ToolResultOffloader(max_size=1_000))
    turn = await branch.record_turn(
        asked(calling(call("a", "look")), {"role": "tool", "tool_call_id": "a", "content": parts}),
        pipeline=pipeline,
    )
    text, image = turn.messages[2].content or ()
    assert isinstance(text, dict) and "[[OFFLOADED: handle=off_" in text["text"]
    assert isinstance(image, dict) and is_stored_part(image)


async def test_results_that_never_came_are_not_fired(client: ContextClient):
    branch = await client.open_branch("c")
    noting = Noting()
    turn = await branch.record_turn(
        [chat("Look", "")[0], calling(call("a", "search"))],
        outcome="interrupted",
        pipeline=ProcessorPipeline().register(noting),
    )
    assert turn.messages[2].synthetic
    assert noting.payloads == []


async def test_a_processor_that_fails_records_nothing(client: ContextClient):
    branch = await client.open_branch("c")

    def fail(said: Any) -> Any:
        raise RuntimeError("no disk")

    with pytest.raises(RuntimeError, match="no disk"):
        await branch.record_turn(
            asked(*exchange("a", "x")), pipeline=ProcessorPipeline().register(Noting(fail))
        )
    assert await branch.turns() == ()


async def test_what_is_no_pipeline_is_refused_before_anything_is_recorded(client: ContextClient):
    branch = await client.open_branch("c")
    with pytest.raises(ProcessorError, match="must be a ProcessorPipeline"):
        await branch.record_turn(chat("a", "b"), pipeline=[])  # type: ignore[arg-type]
    assert await branch.turns() == ()


def handle_in(content: object) -> str:
    return str(content).rpartition("[[OFFLOADED: handle=")[2].removesuffix("]]")


@pytest.mark.parametrize("durable", [True, False])
async def test_an_original_belongs_to_its_turn_and_no_earlier_fork_sees_it(
    client: ContextClient, pool: Pool, durable: bool
):
    branch = await client.open_branch("c")
    offloader = ToolResultOffloader(max_size=1_000, artifacts=branch if durable else None)
    pipeline = ProcessorPipeline().register(offloader)
    handles: list[str] = []
    for n in range(1, 10):
        turn = await branch.record_turn(asked(*exchange("a", f"{LOG} {n}")), pipeline=pipeline)
        handles.append(handle_in(turn.messages[2].content))
    assert [artifact.turn_no for artifact in await branch.artifacts()] == list(range(1, 10))
    child = await branch.fork("child", at_turn=3)
    seen = [artifact.name for artifact in await child.artifacts()]
    assert seen == handles[:3]
    context = await Context.from_branch(child)
    assert await reload_offloaded(context, handles[2]) == f"{LOG} 3"
    with pytest.raises(ContextError):
        await reload_offloaded(context, handles[3])
    await compact_all(pool, branch.branch_uuid)
    assert (await branch.search("SHP-0150"))[0].kind == "artifact"


async def test_an_offloader_of_another_branch_keeps_the_original_here(client: ContextClient):
    branch = await client.open_branch("c")
    other = await client.open_branch("d")
    pipeline = ProcessorPipeline().register(ToolResultOffloader(max_size=1_000, artifacts=other))
    turn = await branch.record_turn(asked(*exchange("a", LOG)), pipeline=pipeline)
    context = await Context.from_branch(branch)
    assert await reload_offloaded(context, handle_in(turn.messages[2].content)) == LOG
    assert await other.artifacts() == ()


async def test_a_turn_that_is_refused_leaves_no_artifact(client: ContextClient):
    branch = await client.open_branch("c")
    await branch.record_turn(chat("a", "b"))
    pipeline = ProcessorPipeline().register(ToolResultOffloader(max_size=1_000, artifacts=branch))
    with pytest.raises(HeadConflict):
        await branch.record_turn(asked(*exchange("a", LOG)), expected_head=0, pipeline=pipeline)
    assert await branch.artifacts() == ()


async def test_an_agents_own_tool_reloads_by_the_handle_of_a_marker(client: ContextClient):
    branch = await client.open_branch("c")
    pipeline = ProcessorPipeline().register(ToolResultOffloader(max_size=1_000))
    turn = await branch.record_turn(asked(*exchange("a", LOG)), pipeline=pipeline)
    handle = handle_in(turn.messages[2].content)
    assert (await branch.load_artifact(handle)).content == LOG
    asked_for = call("r1", "reload_artifact", handle=handle, grep="SHP-0150")
    answer = await run_tool_call(get_context_tools(branch), asked_for)
    assert "0150 shipment SHP-0150 left Rotterdam" in answer["content"]
    with pytest.raises(ArtifactNotFound):
        await branch.load_artifact("off_0123456789ab")


async def test_what_is_put_under_a_handles_name_later_is_not_what_it_loads(client: ContextClient):
    branch = await client.open_branch("c")
    pipeline = ProcessorPipeline().register(ToolResultOffloader(max_size=1_000))
    turn = await branch.record_turn(asked(*exchange("a", LOG)), pipeline=pipeline)
    handle = handle_in(turn.messages[2].content)
    await branch.put_artifact("forged", name=handle)
    assert await reload_offloaded(await Context.from_branch(branch), handle) == LOG
    assert (await branch.load_artifact(handle)).content == LOG


async def test_contents_whose_handles_collide_have_different_ones(
    client: ContextClient, monkeypatch: pytest.MonkeyPatch
):
    def same(content: str, scope: str) -> str:
        return f"off_{scope[36:].count(chr(0)):03}{scope[36:][1:] or 0:>09}"

    monkeypatch.setattr(offloaded, "handle_of", same)
    branch = await client.open_branch("c")
    pipeline = ProcessorPipeline().register(ToolResultOffloader(max_size=1_000))
    turns = [
        await branch.record_turn(asked(*exchange("a", LOG + str(n))), pipeline=pipeline)
        for n in (1, 2, 1)
    ]
    handles = [handle_in(turn.messages[2].content) for turn in turns]
    context = await Context.from_branch(branch)
    contents = [await reload_offloaded(context, handle) for handle in handles]
    assert contents == [LOG + "1", LOG + "2", LOG + "1"]
    assert handles[0] == handles[2] != handles[1]


async def test_a_call_id_that_comes_again_has_the_name_of_its_own_call(client: ContextClient):
    branch = await client.open_branch("c")
    noting = Noting()
    messages = asked(*exchange("call_0", "one", "search"), *exchange("call_0", "two", "read"))
    await branch.record_turn(messages, pipeline=ProcessorPipeline().register(noting))
    assert [payload["tool_name"] for payload in noting.payloads] == ["search", "read"]


@pytest.mark.parametrize("wrong", [None, float("nan"), {1, 2}])
async def test_what_is_no_result_is_refused(client: ContextClient, wrong: object):
    branch = await client.open_branch("c")
    pipeline = ProcessorPipeline().register(Noting(lambda said: wrong))
    with pytest.raises(ProcessorError, match="text or JSON"):
        await branch.record_turn(asked(*exchange("a", "x")), pipeline=pipeline)
    assert await branch.turns() == ()


async def test_an_original_is_exported_and_imported(client: ContextClient):
    branch = await client.open_branch("c")
    pipeline = ProcessorPipeline().register(ToolResultOffloader(max_size=1_000))
    turn = await branch.record_turn(asked(*exchange("a", LOG)), pipeline=pipeline)
    lines = [line async for line in client.export_branch("c", "main")]
    copy = await client.import_branch(lines, conversation_id="copy")
    handle = handle_in(turn.messages[2].content)
    assert await reload_offloaded(await Context.from_branch(copy), handle) == LOG


async def test_a_reference_is_not_offloaded_again(client: ContextClient):
    branch = await client.open_branch("c")
    table = "\n".join(f"{n};{n * 7919};{n * 104729}" for n in range(800))
    pipeline = ProcessorPipeline().register(ToolResultOffloader(max_size=5_000))
    turn = await branch.record_turn(asked(*exchange("a", table)), pipeline=pipeline)
    assert str(turn.messages[2].content).startswith(table[:2_500])
    assert turn.messages[2].artifact is None
    (artifact,) = await branch.artifacts()
    assert artifact.source == "offloaded" and artifact.size == len(table)
