"""The examples of the processors' reference and of their design work as they are printed there."""

import subprocess
import sys
from typing import Any

from durable_context.processors import (
    Context,
    ContextConfig,
    DialogueCompressor,
    MessageOffloader,
    ProcessorPipeline,
    RoundWindowProcessor,
    SummarizeProcessor,
    TokenBudgetProcessor,
    ToolResultOffloader,
    reload_offloaded,
)
from tests.turns import chat, exchange

SYSTEM = {"role": "system", "content": "You help customers."}


def test_the_example_runs_as_printed():
    command = [sys.executable, "-m", "examples.seed_pipeline"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    needs_summary, candidates, truncated = ran.stdout.splitlines()
    assert needs_summary == "True"
    assert candidates == "1"
    assert 50 <= int(truncated) < 200


async def test_all_processors_work_in_the_recommended_order():
    summarized: list[Any] = []

    async def my_summarizer(messages: list[dict[str, Any]]) -> str:
        summarized.extend(messages)
        return "Looked up SHP-0042: it is in Rotterdam."

    pipeline = ProcessorPipeline()
    pipeline.register(MessageOffloader(max_message_size=10_000))
    pipeline.register(DialogueCompressor(summarizer=my_summarizer))
    pipeline.register(RoundWindowProcessor())
    pipeline.register(SummarizeProcessor())
    pipeline.register(TokenBudgetProcessor(max_tokens=100_000))
    pipeline.register(ToolResultOffloader(max_size=5000))

    table = "SHP-0042 | Rotterdam\n" * 1000
    letter = "The customer wrote a long letter. " * 400
    asked = {"role": "user", "content": "Where is SHP-0042?"}
    answered = {"role": "assistant", "content": "In Rotterdam."}
    current = [{"role": "user", "content": "And SHP-0043?"}, *exchange("b", "In Antwerp.")]
    history = [SYSTEM, *chat("first", "reply")]
    history += [*chat(letter, "Thanks."), asked, *exchange("a", table), answered, *current]
    ctx = Context("task", config=ContextConfig(history_rounds=3, summary_threshold=6))
    ctx.state.set("history", history)

    await pipeline.fire("pre_llm_call", ctx)
    [handle] = [h for h, text in ctx.state["offloaded_messages"].items() if text == letter]
    summary = {"role": "assistant", "content": "Looked up SHP-0042: it is in Rotterdam."}
    stub = {"role": "user", "content": f"[[OFFLOADED: handle={handle}]]"}
    thanks = {"role": "assistant", "content": "Thanks."}
    assert history == [SYSTEM, stub, thanks, asked, summary, answered, *current]
    assert await reload_offloaded(ctx, handle) == letter
    assert [message["content"] for message in summarized] == [None, table]
    assert ctx.state["needs_summary"] is True
    assert ctx.state["summary_candidates"] == [stub, thanks, asked]
    assert ctx.state["token_budget_trimmed"]["fits"] is True

    payload = {"tool_result": table, "tool_name": "find", "tool_call_id": "c"}
    await pipeline.fire("post_tool_call", ctx, payload)
    assert len(payload["tool_result"]) < 5000
    assert ctx.state["offloaded_results"][0]["content"] == table
