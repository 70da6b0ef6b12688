"""`python -m examples.seed_pipeline`: the example of the processors' reference, as it is printed
there, with the import changed.
"""
# ruff: noqa: T201

import asyncio

from durable_context.processors import (
    Context,
    ContextConfig,
    ProcessorPipeline,
    SummarizeProcessor,
    ToolResultOffloader,
)


async def main():
    ctx = Context("task-1", config=ContextConfig(summary_threshold=3))
    # Set up history
    ctx.state.set(
        "history",
        [
            {"role": "user", "content": "msg1"},
            {"role": "assistant", "content": "reply1"},
            {"role": "user", "content": "msg2"},
            {"role": "assistant", "content": "reply2"},
        ],
    )
    # Build pipeline
    pipeline = ProcessorPipeline()
    pipeline.register(SummarizeProcessor())
    pipeline.register(ToolResultOffloader(max_size=100))
    # Fire pre_llm_call
    await pipeline.fire("pre_llm_call", ctx)
    print(ctx.state.get("needs_summary"))  # True
    print(len(ctx.state.get("summary_candidates")))  # 1 (excess messages)
    # Fire post_tool_call with a large result
    payload = {
        "tool_result": "x" * 200,
        "tool_name": "search",
        "tool_call_id": "tc-1",
    }
    await pipeline.fire("post_tool_call", ctx, payload)
    print(len(payload["tool_result"]))  # truncated


asyncio.run(main())
