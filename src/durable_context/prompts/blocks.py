"""The parts of a prompt under assembly: each knows its tokens now, and how to become messages."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from durable_context.models import Message
from durable_context.policy import CompactionPolicy
from durable_context.prompts.block_tokens import frame_tokens, label_tokens
from durable_context.prompts.checkpoint_block import Checkpointed
from durable_context.prompts.ledger_lines import (
    FactLine,
    Shortened,
    found_facts,
)
from durable_context.prompts.rendering import (
    DIGEST_HEAD,
    FOOT,
    LEDGER_TAIL_HEAD,
    PINNED_HEAD,
    RETRIEVED_HEAD,
    turns_label,
)
from durable_context.prompts.retrieved_blocks import RetrievedBlock
from durable_context.prompts.state import Fact, TailTurn, View
from durable_context.text import message_text
from durable_context.tokens import TokenCounter, token_counter
from durable_context.turns.messages import call_text


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
    encoding: str = ""
    skip: int = 0
    viewed: set[int] = field(default_factory=set[int])
    differs: Callable[[Message, int], int] | None = None
    pending_facts: tuple[Fact, ...] | None = None
    pinned: bool = False
    """It stays whole: nothing but a digest takes its place, and then it stands beside that."""

    def counted(self, message: Message, position: int, counter: TokenCounter) -> int:
        """Tokens of a message in that place, as the budget's model counts them."""
        extra = self.differs(message, position) if self.differs else 0
        return counter.count_message(message) + extra

    @property
    def facts(self) -> tuple[Fact, ...]:
        """Of what is pending, what recording will find, looked for where it matters."""
        if self.turn is not None:
            return self.turn.facts
        if self.pending_facts is None:
            self.pending_facts = found_facts(self.messages, token_counter(self.encoding))
        return self.pending_facts

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


class PinnedSection(NamedTuple):
    """A pinned turn or fact, as the pinned block shows it: where the turn stands raw only if
    `beside_raw`, else only if `beside_digest`.
    """

    turn_no: int
    text: str
    tokens: int
    beside_raw: bool
    beside_digest: bool

    def is_shown(self, first_raw: int) -> bool:
        return self.beside_raw if self.turn_no >= first_raw else self.beside_digest


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
    newest_turn: int
    viewed_facts: list[FactLine] = field(default_factory=list[FactLine])
    pinned: list[PinnedSection] = field(default_factory=list[PinnedSection])

    @property
    def raw_and_pending(self) -> list[Exchange]:
        return [*self.raw, self.pending] if self.pending else self.raw

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
            + self.pinned_tokens(self.first_raw)
            + self.digest_tokens
            + self.ledger_tokens
            + sum(exchange.tokens for exchange in self.raw)
            + self.retrieved_tokens
            + sum(tokens for _, tokens in [*self.task, *self.user])
            + (self.pending.tokens if self.pending else 0)
        )

    @property
    def first_raw(self) -> int:
        """The first turn that stands raw; if there is none, that of the prompt itself."""
        return (self.raw[0].turn_no if self.raw else None) or self.newest_turn

    def pinned_from(self, first_raw: int) -> list[PinnedSection]:
        """What the pinned block shows where the turns from `first_raw` on stand raw."""
        return [section for section in self.pinned if section.is_shown(first_raw)]

    def pinned_tokens(self, first_raw: int) -> int:
        shown = self.pinned_from(first_raw)
        if not shown:
            return 0
        return frame_tokens(self.encoding, PINNED_HEAD) + sum(section.tokens for section in shown)

    def pinned_beside(self, exchanges: Sequence[Exchange]) -> int:
        """Tokens that the pinned block has more if these raw turns, and all before, are digests."""
        first, last = exchanges[0].turn_no or 0, exchanges[-1].turn_no or 0
        return self.pinned_tokens(last + 1) - self.pinned_tokens(first) if self.pinned else 0

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
        if not self.retrieved:
            return 0
        blocks = sum(block.tokens for block in self.retrieved)
        return frame_tokens(self.encoding, RETRIEVED_HEAD) + blocks
