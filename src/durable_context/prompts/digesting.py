"""What it saves to show raw turns as digests, and several digests as one line."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from durable_context.policy import CompactionPolicy
from durable_context.prompts.block_tokens import frame_tokens
from durable_context.prompts.blocks import Line, Parts, digest_line, joined
from durable_context.prompts.rendering import DIGEST_HEAD
from durable_context.tokens import TokenCounter


def totals_without_facts(parts: Parts, keep: int) -> list[int]:
    """Tokens of the prompt with the first 0, 1, 2 ... raw turns as digests, all but the last
    `keep`.
    """
    frame = 0 if parts.lines else frame_tokens(parts.encoding, DIGEST_HEAD)
    total = parts.tokens - parts.ledger_tokens
    totals = [total]
    for exchange in parts.raw[: len(parts.raw) - keep]:
        assert exchange.turn is not None
        line = digest_line(exchange.turn, parts.encoding)
        total += line.tokens - exchange.tokens + frame
        total += parts.pinned_beside([exchange])
        frame = 0
        totals.append(total)
    return totals


class JoinedState(NamedTuple):
    """The first `made` of `done`, then the lines from `start` on, and the tokens that saves."""

    done: Sequence[Line]
    made: int
    rest: Sequence[Line]
    start: int
    saved: int

    def lines(self) -> list[Line]:
        """Made when asked for: most states are only passed by, and each would copy all lines."""
        return [*self.done[: self.made], *self.rest[self.start :]]


def joined_states(
    lines: Sequence[Line], policy: CompactionPolicy, counter: TokenCounter
) -> Iterator[JoinedState]:
    """The lines with ever more of them joined: the oldest first, to one line a segment; then
    segments to one line, and so on.
    """
    size = policy.segment_turns
    saved = 0
    while len(lines) > 1:
        done: list[Line] = []
        start = 0
        while start < len(lines):
            group = _group(lines, start, size)
            line = joined(group, policy.digest_tokens, counter)
            saved += sum(member.tokens for member in group) - line.tokens
            done.append(line)
            start += len(group)
            yield JoinedState(done, len(done), lines, start, saved)
        lines = done
        size *= policy.fan_out


def _group(lines: Sequence[Line], start: int, size: int) -> Sequence[Line]:
    """Lines from `start` on that cover at most `size` turns; at least one."""
    limit = lines[start].from_turn + size
    end = start + 1
    while end < len(lines) and lines[end].to_turn < limit:
        end += 1
    return lines[start:end]
