"""The parts of a prompt under assembly: each knows its tokens now, and how to become messages."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from durable_context.models import Message
from durable_context.prompts.excerpts import RetrievedBlock
from durable_context.prompts.rendering import DIGEST_HEAD, FOOT, LEDGER_TAIL_HEAD, turns_label
from durable_context.prompts.state import Fact, StoredCheckpoint, TailTurn, View
from durable_context.tokens import TokenCounter, token_counter


@lru_cache(maxsize=64)
def frame_tokens(encoding: str, head: str) -> int:
    """Tokens of a block's message around its lines."""
    counter = token_counter(encoding)
    overhead = counter.count_message(Message(role="user", content=""))
    return overhead + counter.count(head) + counter.count(FOOT)


@lru_cache(maxsize=4096)
def label_tokens(encoding: str, label: str) -> int:
    return token_counter(encoding).count(label)


@dataclass(slots=True)
class Checkpointed:
    """The checkpoint. `short` counts nodes that stand as headlines, `lines` the ledger lines
    kept.
    """

    stored: StoredCheckpoint
    overhead: int
    short: int = 0
    lines: int = 0
    nodes: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    ledger: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        self.nodes = [part for part in self.stored.sections if part["kind"] == "node"]
        rest = [part for part in self.stored.sections if part["kind"] == "ledger"]
        self.ledger = rest[0] if rest else None
        self.lines = len(self.ledger["line_tokens"]) if self.ledger else 0

    def whole_nodes(self) -> set[str]:
        """Ids of the nodes whose text stands here, not just their headline."""
        return {n["id"] for n in self.nodes[self.short :] if n["tokens"] > n["short_tokens"]}

    @property
    def tokens(self) -> int:
        total = self.overhead + self.stored.token_count
        total -= sum(node["tokens"] - node["short_tokens"] for node in self.nodes[: self.short])
        return total - self.ledger_cut(self.lines)

    def ledger_cut(self, lines: int) -> int:
        """Tokens saved by keeping only the newest `lines` ledger lines."""
        if self.ledger is None:
            return 0
        cut = sum(self.ledger["line_tokens"][lines:])
        return cut + (self.ledger["heading_tokens"] if lines == 0 else 0)

    @property
    def text(self) -> str:
        whole = self.stored.text
        parts = [whole[: self.nodes[0]["start"]]]
        for position, node in enumerate(self.nodes):
            short = position < self.short
            parts.append(node["short"] if short else whole[node["start"] : node["end"]])
        if self.ledger is not None and self.lines:
            heading = whole.index("\n", self.ledger["start"]) + 1
            length = sum(self.ledger["line_lengths"][: self.lines])
            parts.append(whole[self.ledger["start"] : heading + length])
        return "".join(parts) + FOOT


@dataclass(frozen=True, slots=True)
class Line:
    """A digest, or several joined. `tokens` counts the whole line; `opening` and `closing` are the
    first and the last digest in it.
    """

    from_turn: int
    to_turn: int
    text: str
    tokens: int
    opening: str
    closing: str


def digest_line(turn: TailTurn, encoding: str) -> Line:
    label = turns_label(turn.turn_no, turn.turn_no)
    tokens = label_tokens(encoding, label) + turn.digest_tokens
    said = turn.digest.strip()
    return Line(turn.turn_no, turn.turn_no, label + turn.digest, tokens, said, said)


def joined(lines: Sequence[Line], max_tokens: int, counter: TokenCounter) -> Line:
    """One line for several: the first digest and the last in their first words."""
    if len(lines) == 1:
        return lines[0]
    first, last = lines[0], lines[-1]
    label = turns_label(first.from_turn, last.to_turn)
    half = max(max_tokens // 2 - 12, 8)
    opening, closing = (counter.truncate(s, half) for s in (first.opening, last.closing))
    text = f"{label} From: {opening} … to: {closing}".rstrip() + "\n"
    tokens = counter.count(text)
    return Line(first.from_turn, last.to_turn, text, tokens, first.opening, last.closing)


@dataclass(frozen=True, slots=True)
class FactLine:
    turn_no: int
    text: str
    tokens: int


def fact_line(turn_no: int, fact: Fact, encoding: str) -> FactLine:
    mark = f"- [turn {turn_no}]"
    tokens = label_tokens(encoding, mark) + fact.tokens
    return FactLine(turn_no, f"{mark} {fact.kind}: {fact.value}\n", tokens)


def fact_lines(
    turns: Sequence[TailTurn], max_tokens: int, encoding: str, from_turn: int = 0
) -> list[FactLine]:
    """The ledger tail: facts of these turns that their digests do not name, the newest that fit.

    Facts of turns before `from_turn` are left out.
    """
    newest: list[FactLine] = []
    known: set[tuple[str, str]] = set()
    for turn in reversed(turns):
        if turn.turn_no < from_turn:
            break
        for fact in turn.facts:
            key = (fact.kind, fact.value)
            if key in known or fact.value in turn.digest:
                continue
            known.add(key)
            line = fact_line(turn.turn_no, fact, encoding)
            max_tokens -= line.tokens
            if max_tokens < 0:
                return newest[::-1]
            newest.append(line)
    return newest[::-1]


@dataclass(slots=True)
class Exchange:
    """Messages shown raw: a turn, or exchanges that are not recorded yet (`turn` is None)."""

    turn: TailTurn | None
    messages: tuple[Message, ...]
    message_tokens: tuple[int, ...]
    views: dict[int, View]
    skip: int = 0
    viewed: set[int] = field(default_factory=set[int])

    @property
    def tokens(self) -> int:
        return sum(self.shown_tokens(n) for n in range(self.skip, len(self.messages)))

    def shown_tokens(self, position: int) -> int:
        if position in self.viewed:
            return self.views[position].tokens
        return self.message_tokens[position]

    def shown(self) -> list[Message]:
        return [
            self.views[n].message if n in self.viewed else self.messages[n]
            for n in range(self.skip, len(self.messages))
        ]


@dataclass(slots=True)
class Parts:
    """A prompt under assembly, in the order of its blocks.

    `digested` are the turns behind `lines`. Facts of turns before `fact_floor` are cut.
    """

    encoding: str
    instructions: str | None
    instruction_tokens: int
    checkpoint: Checkpointed | None
    digested: list[TailTurn]
    lines: list[Line]
    facts: list[FactLine]
    raw: list[Exchange]
    retrieved: list[RetrievedBlock]
    task: list[tuple[Message, int]]
    pending: Exchange | None
    user: list[tuple[Message, int]]
    reply_tokens: int
    open_run_turn: int | None
    fact_floor: int = 0

    @property
    def raw_before_run(self) -> list[Exchange]:
        """Raw turns that stand before the task of an open run: all of them if none is open."""
        return [e for e in self.raw if not self._in_run(e)]

    @property
    def raw_of_run(self) -> list[Exchange]:
        return [e for e in self.raw if self._in_run(e)]

    def _in_run(self, exchange: Exchange) -> bool:
        first = self.open_run_turn
        return first is not None and exchange.turn is not None and exchange.turn.turn_no >= first

    @property
    def tokens(self) -> int:
        return (
            self.reply_tokens
            + self.instruction_tokens
            + (self.checkpoint.tokens if self.checkpoint else 0)
            + self.digest_tokens
            + self.ledger_tokens
            + sum(exchange.tokens for exchange in self.raw)
            + self.retrieved_tokens
            + sum(tokens for _, tokens in [*self.task, *self.user])
            + (self.pending.tokens if self.pending else 0)
        )

    @property
    def digest_tokens(self) -> int:
        if not self.lines:
            return 0
        lines = sum(line.tokens for line in self.lines)
        return frame_tokens(self.encoding, DIGEST_HEAD) + lines

    @property
    def ledger_tokens(self) -> int:
        if not self.facts:
            return 0
        facts = sum(fact.tokens for fact in self.facts)
        return frame_tokens(self.encoding, LEDGER_TAIL_HEAD) + facts

    @property
    def retrieved_tokens(self) -> int:
        overhead = message_overhead(self.encoding)
        return sum(overhead + block.tokens for block in self.retrieved)


@lru_cache(maxsize=8)
def message_overhead(encoding: str) -> int:
    """Tokens of an empty user message."""
    return token_counter(encoding).count_message(Message(role="user", content=""))
