"""The parts of a prompt under assembly: each knows its tokens now, and how to become messages."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any

from durable_context.models import Message
from durable_context.policy import CompactionPolicy
from durable_context.prompts.excerpts import RetrievedBlock
from durable_context.prompts.ledger_tail import (
    FactLine,
    Key,
    Shortened,
    digested_facts,
    first_turn_with_facts,
    newest_facts,
)
from durable_context.prompts.rendering import DIGEST_HEAD, FOOT, LEDGER_TAIL_HEAD, turns_label
from durable_context.prompts.state import Fact, StoredCheckpoint, TailTurn, View
from durable_context.text import message_text
from durable_context.tokens import TokenCounter, token_counter
from durable_context.turns.messages import call_text


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
        self.lines = self.ledger_lines

    def whole_nodes(self) -> set[str]:
        """Ids of the nodes whose text stands here, not just their headline."""
        return {n["id"] for n in self.nodes[self.short :] if n["tokens"] > n["short_tokens"]}

    @property
    def tokens(self) -> int:
        total = self.overhead + self.stored.token_count
        total -= sum(node["tokens"] - node["short_tokens"] for node in self.nodes[: self.short])
        return total - self.ledger_tokens(self.ledger_lines) + self.ledger_tokens(self.lines)

    @property
    def ledger_lines(self) -> int:
        return len(self.ledger["line_tokens"]) if self.ledger else 0

    def ledger_tokens(self, lines: int) -> int:
        """Tokens of the ledger with its newest `lines`."""
        if self.ledger is None or lines == 0:
            return 0
        return self.ledger["heading_tokens"] + sum(self.ledger["line_tokens"][:lines])

    def show_ledger(self, max_tokens: int) -> None:
        """As many of the newest lines, which come first, as fit."""
        lines = 0
        while lines < self.ledger_lines and self.ledger_tokens(lines + 1) <= max_tokens:
            lines += 1
        self.lines = lines

    def pieces(self) -> list[str]:
        """The text, cut where the next compaction may change what follows."""
        whole = self.stored.text
        pieces = [whole[: self.nodes[0]["start"]]]
        for position, node in enumerate(self.nodes):
            short = position < self.short
            pieces.append(node["short"] if short else whole[node["start"] : node["end"]])
        return [*pieces, self._shown_ledger() + FOOT]

    def _shown_ledger(self) -> str:
        if self.ledger is None or self.lines == 0:
            return ""
        start = self.ledger["start"]
        heading = self.stored.text.index("\n", start) + 1
        return self.stored.text[start : heading + sum(self.ledger["line_lengths"][: self.lines])]


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


@dataclass(slots=True)
class Exchange:
    """Messages shown raw: a turn, or exchanges that are not recorded yet (`turn` is None)."""

    turn: TailTurn | None
    messages: tuple[Message, ...]
    message_tokens: tuple[int, ...]
    views: dict[int, View]
    facts: tuple[Fact, ...]
    skip: int = 0
    viewed: set[int] = field(default_factory=set[int])

    @property
    def turn_no(self) -> int | None:
        return self.turn.turn_no if self.turn else None

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

    def shortened(self) -> Shortened:
        texts = [message_text(message) for message in self.shown()]
        texts += [call_text(call) for message in self.shown() for call in message.tool_calls]
        return Shortened(self.turn_no, self.facts, "\n".join(texts))


@dataclass(slots=True)
class Parts:
    """A prompt under assembly, in the order of its blocks.

    `digested` are the turns behind `lines`, `facts` what stands under the lines, `viewed_facts`
    what views cut out of the raw turns.
    """

    encoding: str
    policy: CompactionPolicy
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
    viewed_facts: list[FactLine] = field(default_factory=list[FactLine])

    def find_facts(self) -> None:
        """The ledger's facts anew, for the lines and views as they are now."""
        self.facts = self._facts_from(first_turn_with_facts(self.digested, self.policy))
        most = self.policy.ledger_max_tokens // 2
        self.viewed_facts = newest_facts(self._viewed(), most, self.encoding)

    def fill_facts(self, max_tokens: int) -> None:
        """As many facts as fit, the newest first, whatever stood there before."""
        known: set[Key] = set()
        room = max_tokens - frame_tokens(self.encoding, LEDGER_TAIL_HEAD)
        self.viewed_facts = newest_facts(self._viewed(), room, self.encoding, known)
        if self.lines:
            room = max_tokens - self.viewed_fact_tokens
            self.facts = newest_facts(self._digested(), room, self.encoding, known)

    def _viewed(self) -> Iterator[Shortened]:
        """Newest first."""
        newest = [self.pending, *reversed(self.raw)] if self.pending else [*reversed(self.raw)]
        return (exchange.shortened() for exchange in newest if exchange.viewed)

    def _digested(self) -> Iterator[Shortened]:
        """Newest first."""
        turns = reversed(self.digested)
        for line in reversed(self.lines):
            for turn in islice(turns, line.to_turn - line.from_turn + 1):
                yield Shortened(turn.turn_no, turn.facts, line.text)

    def _facts_from(self, first: int) -> list[FactLine]:
        """Facts of the digested turns from `first` on."""
        before = first - self.digested[0].turn_no if self.digested else 0
        turns = self.digested[max(before, 0) :]
        return digested_facts(turns, self._said_from(first), self.policy, self.encoding)

    def _said_from(self, first: int) -> dict[int, str]:
        """What is said of each turn by the line it stands in."""
        said: dict[int, str] = {}
        for line in reversed(self.lines):
            if line.to_turn < first:
                break
            said |= dict.fromkeys(range(max(line.from_turn, first), line.to_turn + 1), line.text)
        return said

    def record(self) -> list[str]:
        """The lines, each with the facts under it, between their head and foot."""
        facts = deque(self.facts)
        pieces = [DIGEST_HEAD]
        for line in self.lines:
            pieces[-1] += line.text
            while facts and (facts[0].turn_no or 0) <= line.to_turn:
                pieces[-1] += facts.popleft().text
            pieces.append("")
        pieces[-1] = FOOT
        return pieces

    @property
    def raw_before_run(self) -> list[Exchange]:
        """Raw turns that stand before the task of an open run: all of them if none is open."""
        return [e for e in self.raw if not self._in_run(e)]

    @property
    def raw_of_run(self) -> list[Exchange]:
        return [e for e in self.raw if self._in_run(e)]

    @property
    def all_raw(self) -> bool:
        """Whether each turn stands as it was recorded."""
        return self.checkpoint is None and not self.lines

    @property
    def older_steps(self) -> list[Exchange]:
        """Raw turns of an open run before its newest steps."""
        return self.raw_of_run if self.pending else self.raw_of_run[:-1]

    @property
    def newest_steps(self) -> list[Exchange]:
        """What is pending, else the newest raw turn of an open run."""
        return [self.pending] if self.pending else self.raw_of_run[-1:]

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
        return sum(fact.tokens for fact in self.facts) + self.viewed_fact_tokens

    @property
    def viewed_fact_tokens(self) -> int:
        if not self.viewed_facts:
            return 0
        facts = sum(fact.tokens for fact in self.viewed_facts)
        return frame_tokens(self.encoding, LEDGER_TAIL_HEAD) + facts

    @property
    def retrieved_tokens(self) -> int:
        overhead = message_overhead(self.encoding)
        return sum(overhead + block.tokens for block in self.retrieved)


@lru_cache(maxsize=8)
def message_overhead(encoding: str) -> int:
    """Tokens of an empty user message."""
    return token_counter(encoding).count_message(Message(role="user", content=""))
