"""Messages that are offloaded, and the handles in their markers."""

import re
from typing import Any

from durable_context.processors.context import Context
from durable_context.processors.message_offloader import MessageOffloader

MARKER = re.compile(r"\[\[OFFLOADED: handle=(off_[0-9a-f]{12})\]\]")


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def handle_in(text: str) -> str:
    found = MARKER.fullmatch(text)
    assert found, text
    return found[1]


async def offload(ctx: Context, limit: int = 20) -> list[Any]:
    await MessageOffloader(max_message_size=limit).process(ctx, {})
    history: list[Any] = ctx.state.get("history")
    return history
