"""What of a pipeline prepare() refuses, and prompts that do not fit after one."""

from typing import Any

import pytest

from durable_context import BudgetExceeded, ContextClient
from durable_context.database import Pool
from durable_context.errors import ProcessorError
from durable_context.processors.config import ContextConfig
from durable_context.processors.context import Context
from durable_context.processors.dialogue_compressor import DialogueCompressor
from durable_context.processors.history import Record
from durable_context.processors.message_offloader import MessageOffloader
from durable_context.processors.pipeline import ContextProcessor, ProcessorPipeline
from durable_context.processors.round_window import RoundWindowProcessor
from durable_context.processors.token_budget import TokenBudgetProcessor
from tests.compacting import compact_all
from tests.pipelines import WIDE, Changing, changing, recorded
from tests.prompts import check_tokens, kinds, raw_turns
from tests.turns import chat, exchange


class Calling(ContextProcessor):
    """One that does not declare itself pure."""

    def __init__(self) -> None:
        super().__init__("pre_llm_call", name="calls a model")

    async def process(self, ctx: Context, payload: dict[str, Any]) -> None:
        raise AssertionError("it must not be called")


async def test_an_impure_processor_is_refused_by_its_name(client: ContextClient):
    branch = await recorded(client, 1)
    pipeline = ProcessorPipeline().register(Calling())
    with pytest.raises(ProcessorError, match="calls a model"):
        await branch.prepare("hello", budget=WIDE, pipeline=pipeline)
    with pytest.raises(ProcessorError, match="message_offloader"):
        await branch.prepare(
            "hello",
            budget=WIDE,
            pipeline=ProcessorPipeline().register(MessageOffloader(artifacts=branch)),
        )


async def test_what_is_no_pipeline_is_refused(client: ContextClient):
    branch = await recorded(client, 1)
    with pytest.raises(ProcessorError, match="pipeline='all'"):
        await branch.prepare("hello", budget=WIDE, pipeline="all")  # type: ignore[arg-type]


async def test_a_processor_that_adds_too_much_exceeds_the_budget(client: ContextClient):
    branch = await recorded(client, 3)
    budget = WIDE.model_copy(update={"max_tokens": 400})
    pipeline = changing(lambda history: [*history, {"role": "user", "content": "more " * 1_000}])
    exceeded = await branch.prepare("hello", budget=budget, pipeline=pipeline)
    assert isinstance(exceeded, BudgetExceeded)
    assert exceeded.limit == 400 < exceeded.smallest <= exceeded.required
    enough = budget.model_copy(update={"max_tokens": exceeded.smallest})
    assert await branch.prepare("hello", budget=enough, pipeline=pipeline)


async def test_a_processor_that_tears_an_exchange_apart_is_told_so(client: ContextClient):
    branch = await client.open_branch("c")
    await branch.record_turn([*chat("Look", "Yes")[:1], *exchange("c1", "found it")])
    for change in (
        lambda history: [m for m in history if m["role"] != "tool"],
        lambda history: [m for m in history if not m.get("tool_calls")],
        lambda history: [],
        lambda history: [*history, {"role": "robot", "content": "beep"}],
    ):
        with pytest.raises(ProcessorError, match="cannot be sent"):
            await branch.prepare("hello", budget=WIDE, pipeline=changing(change))


async def test_a_processor_cannot_change_or_leave_out_what_stands_for_earlier_turns(
    client: ContextClient, pool: Pool
):
    branch = await recorded(client, 20)
    await compact_all(pool, branch.branch_uuid)
    for change in (
        lambda history: [m for m in history if not isinstance(m, Record)],
        lambda history: [
            {**m, "content": "Nothing happened."} if isinstance(m, Record) else m for m in history
        ],
    ):
        with pytest.raises(ProcessorError, match="must stay as they are"):
            await branch.prepare("hello", budget=WIDE, pipeline=changing(change))


async def test_the_error_of_a_processor_is_raised_as_it_is(client: ContextClient):
    branch = await recorded(client, 1)

    def fail(history: list[Any]) -> list[Any]:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await branch.prepare("hello", budget=WIDE, pipeline=changing(fail))


async def test_moving_a_result_before_its_call_is_refused(client: ContextClient):
    branch = await client.open_branch("c")
    await branch.record_turn([*chat("Look", "Yes")[:1], *exchange("c1", "found it")])
    with pytest.raises(ProcessorError, match="changing the prompt cannot be sent"):
        await branch.prepare("hello", budget=WIDE, pipeline=changing(lambda h: h[::-1]))


async def test_records_cannot_be_moved_among_themselves(client: ContextClient, pool: Pool):
    branch = await recorded(client, 12)
    await compact_all(pool, branch.branch_uuid)
    plain = await branch.prepare("Where is SHP-0001?", budget=WIDE)
    assert plain and kinds(plain).count("checkpoint") and kinds(plain).count("digest")
    with pytest.raises(ProcessorError, match="moved"):
        await branch.prepare(
            "Where is SHP-0001?",
            budget=WIDE,
            pipeline=changing(lambda h: [h[0], h[2], h[1], *h[3:]]),
        )


async def test_a_budget_of_the_smallest_size_would_do(client: ContextClient, pool: Pool):
    branch = await recorded(client, 20)
    await compact_all(pool, branch.branch_uuid)
    reminder = {"role": "system", "content": "Answer in one line. " * 20}
    for model in (None, "claude-sonnet-4-5"):
        for pipeline in (
            changing(lambda history: [*history, reminder]),
            ProcessorPipeline().register(MessageOffloader(max_message_size=1)),
        ):
            budget = WIDE.model_copy(update={"max_tokens": 1, "model": model})
            exceeded = await branch.prepare("hello", budget=budget, pipeline=pipeline)
            assert isinstance(exceeded, BudgetExceeded)
            enough = budget.model_copy(update={"max_tokens": exceeded.smallest})
            prepared = await branch.prepare("hello", budget=enough, pipeline=pipeline)
            assert prepared
            check_tokens(prepared)


@pytest.mark.parametrize(
    "content", [[{"type": "image_url", "image_url": {}}], [{"type": "text"}], ["a"], [], None, 5]
)
async def test_a_system_message_must_be_text(client: ContextClient, content: object):
    branch = await recorded(client, 1)
    added = {"role": "system", "content": content}
    with pytest.raises(ProcessorError, match="message 4 is of the system"):
        await branch.prepare("hello", budget=WIDE, pipeline=changing(lambda h: [*h, added]))


async def test_errors_name_the_message_and_the_processor(client: ContextClient):
    branch = await recorded(client, 1)
    for wrong, said in (
        ({"role": "narrator", "content": "x"}, "message 4 has role 'narrator'; allowed are system"),
        ({"role": "user", "content": {"deep": 1}}, "message 4"),
        ({"role": "assistant", "tool_calls": 5}, "message 4"),
    ):
        with pytest.raises(ProcessorError, match=f"changing the prompt cannot be sent: {said}"):
            await branch.prepare(
                "hello", budget=WIDE, pipeline=changing(lambda h, wrong=wrong: [*h, wrong])
            )


async def test_an_impure_processor_cannot_be_registered_meanwhile(client: ContextClient):
    branch = await recorded(client, 1)
    pipeline = ProcessorPipeline()

    def register(history: list[Any]) -> list[Any]:
        pipeline.register(DialogueCompressor(summarizer=lambda chain: chain))  # type: ignore[arg-type]
        return history

    pipeline.register(Changing(register))
    with pytest.raises(ProcessorError, match="dialogue_compressor"):
        await branch.prepare("hello", budget=WIDE, pipeline=pipeline)


async def test_a_record_cannot_be_moved_or_repeated(client: ContextClient, pool: Pool):
    branch = await recorded(client, 20)
    await compact_all(pool, branch.branch_uuid)
    for change in (
        lambda history: (
            [h for h in history if not isinstance(h, Record)]
            + [h for h in history if isinstance(h, Record)]
        ),
        lambda history: [*history, next(h for h in history if isinstance(h, Record))],
    ):
        with pytest.raises(ProcessorError, match=r"moved|second time"):
            await branch.prepare("hello", budget=WIDE, pipeline=changing(change))


async def test_processors_read_the_config_that_is_given(client: ContextClient):
    branch = await recorded(client, 6)
    pipeline = ProcessorPipeline().register(RoundWindowProcessor()).register(TokenBudgetProcessor())
    config = ContextConfig(history_rounds=2, extra={"token_budget": 77})
    prepared = await branch.prepare("hello", budget=WIDE, pipeline=pipeline, config=config)
    assert prepared and prepared.context
    assert raw_turns(prepared) == [6]
    assert prepared.context.state["token_budget_trimmed"]["limit"] == 77
    with pytest.raises(ProcessorError, match="config=20"):
        await branch.prepare("hello", budget=WIDE, pipeline=pipeline, config=20)  # type: ignore[arg-type]
