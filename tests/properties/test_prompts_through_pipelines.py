"""Invariants 3, 4, 5 and 10 for prompts that went through any pipeline of pure processors."""

from typing import Any
from uuid import uuid4

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from durable_context import Budget, BudgetExceeded, ContextClient, PreparedContext
from durable_context.database import Pool
from durable_context.errors import InvalidTurn
from durable_context.processors.context import Context
from durable_context.processors.dialogue_compressor import DialogueCompressor
from durable_context.processors.history import Record, read_history, stays, write_history
from durable_context.processors.message_offloader import MessageOffloader
from durable_context.processors.pipeline import ContextProcessor, ProcessorPipeline
from durable_context.processors.round_window import RoundWindowProcessor
from durable_context.processors.summarize import SummarizeProcessor
from durable_context.processors.token_budget import TokenBudgetProcessor
from tests.compacting import compact_once
from tests.prompts import check_pairing, check_tokens
from tests.properties.histories import budgets, contents, pending, texts, turns
from tests.properties.test_prompts import POLICY
from tests.provider_prompts import check_providers


class Adding(ContextProcessor):
    """Adds a message at one end, after the instructions, and copies all others."""

    pure = True

    def __init__(self, role: str, content: str, first: bool) -> None:
        super().__init__("pre_llm_call")
        self._message = {"role": role, "content": content}
        self._first = first

    async def process(self, ctx: Context, payload: dict[str, Any]) -> None:
        said = [m if isinstance(m, Record) else dict(m) for m in read_history(ctx)]
        added = [dict(self._message)]
        place = sum(map(stays, said[:1])) if self._first else len(said)
        write_history(ctx, [*said[:place], *added, *said[place:]])


processors = st.one_of(
    st.integers(20, 2_000).map(lambda size: MessageOffloader(max_message_size=size)),
    st.just(0).map(lambda _: DialogueCompressor()),
    st.integers(1, 4).map(lambda rounds: RoundWindowProcessor(max_rounds=rounds)),
    st.just(0).map(lambda _: SummarizeProcessor()),
    st.integers(1, 3_000).map(
        lambda tokens: TokenBudgetProcessor(max_tokens=tokens, encoding="o200k_base")
    ),
    st.builds(Adding, st.sampled_from(["user", "assistant"]), texts, st.booleans()),
)
pipelines = st.lists(processors, min_size=1, max_size=5)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    told=st.lists(turns, max_size=10),
    compactions=st.integers(0, 2),
    content=st.one_of(st.none(), contents.filter(bool)),
    budget=budgets(),
    waiting=pending,
    registered=pipelines,
)
async def test_a_prompt_through_a_pipeline_is_within_budget_and_valid(
    client: ContextClient,
    pool: Pool,
    told: list[Any],
    compactions: int,
    content: Any,
    budget: Budget,
    waiting: list[Any],
    registered: list[ContextProcessor],
):
    client._policy = POLICY
    branch = await client.open_branch(uuid4().hex)
    for turn in told:
        await branch.record_turn(turn.messages, continues=turn.continues, outcome=turn.outcome)
    for _ in range(compactions):
        await compact_once(pool, branch.branch_uuid, POLICY)
    message = None if content is None else {"role": "user", "content": content}

    async def prepare(within: Budget = budget) -> PreparedContext | BudgetExceeded:
        pipeline = ProcessorPipeline()
        for processor in registered:
            pipeline.register(processor)
        return await branch.prepare(message, budget=within, pending=waiting, pipeline=pipeline)

    try:
        prepared = await prepare()
    except InvalidTurn as refused:
        assert message is None and "there is nothing to" in str(refused)
        return
    assert await prepare() == prepared
    if isinstance(prepared, BudgetExceeded):
        assert prepared.limit < prepared.smallest <= prepared.required
        limit = prepared.smallest + budget.reserve_output
        prepared = await prepare(budget.model_copy(update={"max_tokens": limit}))
        assert isinstance(prepared, PreparedContext)
    assert prepared.manifest.processors == tuple(each.name for each in registered)
    check_tokens(prepared)
    check_pairing(prepared.messages)
    check_providers(prepared)
    (await prepared.load_parts()).to_anthropic()
