"""A conversation about payments over a durable branch, with large tool results."""

from typing import Any

from durable_context import Branch
from durable_context.processors.context import Context

ROWS = "row 17: mia@example.org paid 12.50 EUR\n" * 60
DONE = {"role": "assistant", "content": "Mia paid."}


def user(content: str) -> dict[str, Any]:
    return {"role": "user", "content": content}


def chain(content: str, call_id: str = "c1") -> list[dict[str, Any]]:
    inner = {"name": "query", "arguments": '{"table": "payments"}'}
    calls = [{"id": call_id, "type": "function", "function": inner}]
    return [
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": call_id, "content": content},
    ]


async def over(branch: Branch, *history: Any) -> Context:
    ctx = await Context.from_branch(branch)
    ctx.state.set("history", list(history))
    return ctx
