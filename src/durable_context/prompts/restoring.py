"""Raw turns that became digests before all else was shortened, and fit again after it."""

from collections.abc import Sequence

from durable_context.prompts.block_tokens import frame_tokens
from durable_context.prompts.blocks import Exchange, Line, Parts, digest_line, joined
from durable_context.prompts.rendering import DIGEST_HEAD
from durable_context.tokens import TokenCounter


def restore_raw(
    parts: Parts, digested: Sequence[Exchange], max_tokens: int, counter: TokenCounter
) -> int:
    """Show the newest of these turns, which follow each other, raw again, as far as it costs at
    most `max_tokens`. Returns how many.
    """
    restored = 0
    for exchange in reversed(digested):
        line = _without_newest(parts, counter)
        cost = exchange.tokens - parts.lines[-1].tokens + (line.tokens if line else 0)
        cost -= parts.pinned_beside([exchange])
        if line is None and len(parts.lines) == 1:
            cost -= frame_tokens(parts.encoding, DIGEST_HEAD)
        if cost > max_tokens:
            break
        max_tokens -= cost
        parts.lines = [*parts.lines[:-1], *([line] if line else [])]
        parts.digested = parts.digested[:-1]
        parts.raw = [exchange, *parts.raw]
        restored += 1
    return restored


def _without_newest(parts: Parts, counter: TokenCounter) -> Line | None:
    """The newest line without the newest turn in it; None if it is the only one."""
    last = parts.lines[-1]
    if last.from_turn == last.to_turn:
        return None
    closing = digest_line(parts.digested[-2], parts.encoding)
    if closing.to_turn == last.from_turn:
        return closing
    opening = Line(last.from_turn, last.from_turn, "", 0, last.opening, last.opening)
    return joined([opening, closing], parts.policy.digest_tokens, counter)
