"""The checkpoint in a prompt: as it is stored, or with nodes as headlines and its ledger cut."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, cast

from durable_context import stored_json
from durable_context.models import LedgerKind
from durable_context.prompts.block_tokens import label_tokens, message_overhead
from durable_context.prompts.ledger_choice import Candidate
from durable_context.prompts.rendering import FOOT, turns_label
from durable_context.prompts.state import StoredCheckpoint
from durable_context.tokens import token_counter
from durable_context.turns.ledger import ledger_line

_OLDER_LINE: Final = re.compile(r"- \[turn (\d+)\] ([a-z ]+): (.*)")


@dataclass(slots=True)
class Checkpointed:
    """The checkpoint. `short` counts the nodes that stand as headlines, `in_words` those of them
    that stand as the first words of theirs, and `joined` the oldest that share one line; `cut`:
    without its ledger.
    """

    stored: StoredCheckpoint
    encoding: str
    short: int = 0
    in_words: int = 0
    joined: int = 0
    joined_line: str = ""
    cut: bool = False
    nodes: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    ledger: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        self.nodes = [part for part in self.stored.sections if part["kind"] == "node"]
        rest = [part for part in self.stored.sections if part["kind"] == "ledger"]
        self.ledger = rest[0] if rest else None

    def whole_nodes(self) -> set[str]:
        """Ids of the nodes whose text stands here, not just their headline."""
        return {n["id"] for n in self.nodes[self.short :] if n["tokens"] > n["short_tokens"]}

    @property
    def tokens(self) -> int:
        total = message_overhead(self.encoding) + self.stored.token_count
        total -= sum(node["tokens"] - node["short_tokens"] for node in self.nodes[: self.short])
        total -= sum(self._saved_in_words(node) for node in self.nodes[: self.in_words])
        if self.joined:
            total -= sum(self._shown_tokens(n) for n in range(self.joined))
            total += label_tokens(self.encoding, self.joined_line)
        whole = self.ledger["tokens"] if self.ledger else 0
        return total - whole + self.ledger_tokens

    def join(self, count: int) -> None:
        """The oldest `count` nodes in one line: the first words of the first and the last."""
        first, last = self.nodes[0], self.nodes[count - 1]
        label = turns_label(first["from_turn"], last["to_turn"])
        words = (_words(node) for node in (first, last))
        self.joined, self.joined_line = count, f"{label} {' '.join(words)}\n"

    def _shown_tokens(self, position: int) -> int:
        node = self.nodes[position]
        if position >= self.short:
            return node["tokens"]
        saved = self._saved_in_words(node) if position < self.in_words else 0
        return node["short_tokens"] - saved

    @staticmethod
    def _saved_in_words(node: dict[str, Any]) -> int:
        """Nothing in a checkpoint of an older version, or if the headline is that short."""
        return max(node["short_tokens"] - node.get("words_tokens", node["short_tokens"]), 0)

    @property
    def ledger_tokens(self) -> int:
        return self.ledger["tokens"] if self.ledger and not self.cut else 0

    def facts(self) -> Iterator[Candidate]:
        """What is at hand for a ledger that is cut: more than it shows whole."""
        if self.ledger is None:
            return
        if "facts" in self.ledger:
            for turn_no, *fact in stored_json.loads(self.ledger["facts"]):
                yield Candidate(turn_no, *fact)
            return
        counter = token_counter(self.encoding)  # a checkpoint of an older version
        for line in self.stored.text[self.ledger["start"] : self.ledger["end"]].splitlines():
            if found := _OLDER_LINE.fullmatch(line):
                kind, value = cast(LedgerKind, found[2]), found[3]
                tokens = counter.count(ledger_line(kind, value))
                yield Candidate(int(found[1]), kind, value, tokens, 1)

    def node_texts(self) -> Iterator[str]:
        if self.joined:
            yield self.joined_line
        for position, node in list(enumerate(self.nodes))[self.joined :]:
            if position < self.in_words and self._saved_in_words(node):
                yield node["words"]
            elif position < self.short:
                yield node["short"]
            else:
                yield self.stored.text[node["start"] : node["end"]]

    def pieces(self) -> list[str]:
        """The text, cut where the next compaction may change what follows."""
        head = self.stored.text[: self.nodes[0]["start"]]
        return [head, *self.node_texts(), self._ledger_text() + FOOT]

    def _ledger_text(self) -> str:
        if self.ledger is None or self.cut:
            return ""
        return self.stored.text[self.ledger["start"] : self.ledger["end"]]


def _words(node: dict[str, Any]) -> str:
    line: str = node.get("words", node["short"])
    return line.partition("] ")[2].rstrip("\n")
