"""Whether prompts and checkpoints grow at their end only, as prefix caches want it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from benchmarks.baselines import tokens_of
from benchmarks.cache.prefixes import common_length
from durable_context import Checkpoint, PreparedContext
from durable_context.prompts.rendering import FOOT, LEDGER_HEADING
from durable_context.tokens import TokenCounter

Messages = Sequence[Mapping[str, Any]]

_PREFIX_REDUCTIONS = frozenset(
    {"raw_to_digest", "digests_joined", "node_to_headline", "ledger_cut"}
)


class StablePrefix(NamedTuple):
    """Whole messages, then the beginning of one more. `exact`: they have as many tokens as the
    manifest says.
    """

    messages: Messages
    beginning: str
    exact: bool

    def begins(self, messages: Messages) -> bool:
        count = len(self.messages)
        if messages[:count] != self.messages:
            return False
        after = messages[count : count + 1]
        return not self.beginning or bool(after and _text(after[0]).startswith(self.beginning))


@dataclass
class PrefixCheck:
    """Pairs of prompts of a branch, one after the other and with no compaction between them: the
    later must begin with the stable prefix of the earlier. In `broken_by_budget` of those that do
    not, the budget had shortened what is stable in one of the two. `inexact` counts prefixes that
    end neither with a message nor before its closing line.
    """

    pairs: int = 0
    broken: int = 0
    broken_by_budget: int = 0
    inexact: int = 0
    examples: list[tuple[PreparedContext, PreparedContext]] = field(
        default_factory=list[tuple[PreparedContext, PreparedContext]]
    )

    def add(self, before: PreparedContext, prompt: PreparedContext, counter: TokenCounter) -> None:
        self.pairs += 1
        prefix = stable_prefix(before, counter)
        self.inexact += not prefix.exact
        if prefix.begins(prompt.messages):
            return
        self.broken += 1
        if _reduced(before) or _reduced(prompt):
            self.broken_by_budget += 1
        elif len(self.examples) < 3:
            self.examples.append((before, prompt))

    @property
    def unforced(self) -> int:
        return self.broken - self.broken_by_budget


def stable_prefix(prompt: PreparedContext, counter: TokenCounter) -> StablePrefix:
    left = prompt.manifest.stable_prefix_tokens
    for count, message in enumerate(prompt.messages):
        whole, beginning = tokens_of(dict(message), counter), ""
        if left < whole:
            text = _text(message).removesuffix(FOOT)
            if left and left == tokens_of(dict(message) | {"content": text}, counter):
                left, beginning = 0, text
            return StablePrefix(prompt.messages[:count], beginning, left == 0)
        left -= whole
    return StablePrefix(prompt.messages, "", left == 0)


def _reduced(prompt: PreparedContext) -> bool:
    return any(each.kind in _PREFIX_REDUCTIONS for each in prompt.manifest.reductions)


@dataclass
class CheckpointCheck:
    """Checkpoints beside the one before: without a merge, the nodes of the earlier must stand at
    the beginning of the later, byte for byte. The shares say how much of the earlier's text does.
    """

    plain: int = 0
    broken: int = 0
    merges: int = 0
    plain_kept: float = 0.0
    merge_kept: float = 0.0

    def add(self, checkpoints: Iterable[Checkpoint]) -> None:
        for before, after in pairwise(checkpoints):
            kept = common_length(before.text, after.text) / len(before.text)
            if after.frontier[:-1] == before.frontier:
                self.plain += 1
                self.plain_kept += kept
                self.broken += not after.text.startswith(_nodes(before.text))
            else:
                self.merges += 1
                self.merge_kept += kept

    def shares(self) -> Mapping[str, float]:
        """Mean shares of a checkpoint's text that the next begins with."""
        return {
            "plain": self.plain_kept / self.plain if self.plain else 0.0,
            "merge": self.merge_kept / self.merges if self.merges else 0.0,
        }


def _nodes(text: str) -> str:
    """A checkpoint's text up to its ledger."""
    end = text.find(f"\n{LEDGER_HEADING}")
    return text[: end + 1] if end >= 0 else text.removesuffix(FOOT)


def example_lines(pairs: Sequence[tuple[PreparedContext, PreparedContext]]) -> list[str]:
    """Where the two prompts of each pair part."""
    lines: list[str] = []
    for before, prompt in pairs:
        at, one, other = next(
            (n, a, b)
            for n, (a, b) in enumerate(zip(before.messages, prompt.messages, strict=False))
            if a != b
        )
        common = common_length(_text(one), _text(other))
        start = max(0, common - 40)
        lines.append(
            f"head {before.manifest.head_turn} and {prompt.manifest.head_turn}, message {at}:"
            f" {_text(one)[start : common + 80]!r} became {_text(other)[start : common + 80]!r}"
        )
    return lines


def _text(message: Mapping[str, Any]) -> str:
    return str(message.get("content"))
