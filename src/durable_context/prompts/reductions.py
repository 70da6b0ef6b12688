"""What gives way when a prompt is over budget, in a fixed order.

Each stage is a sequence of states. The first state that fits ends everything; if none does, the
stage is left in its smallest one and the next begins. So a prompt is refused only if the last
state of all is over budget, and a budget of exactly that size is met.
"""

from collections.abc import Iterator

from durable_context.policy import CompactionPolicy
from durable_context.prompts.block_tokens import frame_tokens
from durable_context.prompts.blocks import (
    Exchange,
    Line,
    Parts,
    digest_line,
    joined,
)
from durable_context.prompts.ledger_parts import cut_ledger, fill_ledger, show_ledger
from durable_context.prompts.prepared import Reduction, ReductionKind
from durable_context.prompts.rendering import DIGEST_HEAD
from durable_context.prompts.state import TailTurn
from durable_context.tokens import TokenCounter

LEDGER_SHARE = 0.4
"""Of the limit: until so much is free for the ledger, older headlines give way to it."""


def reduce_to(
    parts: Parts, limit: int, policy: CompactionPolicy, counter: TokenCounter
) -> list[Reduction]:
    """Shorten `parts` in place until its tokens are within `limit`, or nothing is left to
    shorten.
    """
    reducer = _Reducer(parts, limit, policy, counter)
    for stage in (
        reducer.show_views,
        reducer.digest_older_turns,
        reducer.drop_retrieved,
        reducer.join_digests,
        reducer.shorten_nodes,
        reducer.cut_ledger,
        reducer.digest_newest_turn,
        reducer.join_digests,
    ):
        if reducer.fits:
            break
        stage()
    reducer.fill_ledger()
    return reducer.done


class _Reducer:
    def __init__(
        self, parts: Parts, limit: int, policy: CompactionPolicy, counter: TokenCounter
    ) -> None:
        self.parts = parts
        self.limit = limit
        self.policy = policy
        self.counter = counter
        self.done: list[Reduction] = []
        self.cut_at: int | None = None
        self.ledger_tokens = 0

    @property
    def fits(self) -> bool:
        return self.parts.tokens <= self.limit

    def show_views(self) -> None:
        """Views of large messages, largest first."""
        over = self.parts.tokens - self.limit
        for exchange, position in sorted(self._viewable(), key=_size, reverse=True):
            if over <= 0:
                break
            saved = exchange.message_tokens[position] - exchange.views[position].tokens
            exchange.viewed.add(position)
            over -= saved
            turn_no = exchange.turn.turn_no if exchange.turn else None
            self._note("view", turn_no, turn_no, saved)
        self._show_ledger()

    def _viewable(self) -> Iterator[tuple[Exchange, int]]:
        pending = [self.parts.pending] if self.parts.pending else []
        for exchange in [*self.parts.raw, *pending]:
            for position in exchange.views:
                if position >= exchange.skip and position not in exchange.viewed:
                    yield exchange, position

    def digest_older_turns(self) -> None:
        self._digest_turns(keep=0 if self.parts.pending else 1)

    def digest_newest_turn(self) -> None:
        """The newest turn too, and what was left of the others; their facts are cut already."""
        self._digest_turns(keep=0)

    def _digest_turns(self, keep: int) -> None:
        """Raw turns to digests, oldest first, as few as will do.

        The ledger tail grows with them. It gives way later, so the smallest state is the one that
        is smallest without it.
        """
        before, raw = self.parts.tokens, self.parts.raw
        digested, lines = self.parts.digested, self.parts.lines
        totals = self._totals_without_facts(raw, keep)
        for count, total in enumerate(totals):
            if total <= self.limit:
                self._digest_first(count, raw, digested, lines)
                if self.fits:
                    break
        else:
            smallest = min(range(len(totals)), key=totals.__getitem__)
            self._digest_first(smallest, raw, digested, lines)
        gone = raw[: len(raw) - len(self.parts.raw)]
        if gone:
            first, last = gone[0].turn, gone[-1].turn
            assert first is not None and last is not None
            self._note("raw_to_digest", first.turn_no, last.turn_no, before - self.parts.tokens)

    def _totals_without_facts(self, raw: list[Exchange], keep: int) -> list[int]:
        """Tokens of the prompt with the first 0, 1, 2 ... raw turns as digests."""
        frame = 0 if self.parts.lines else frame_tokens(self.parts.encoding, DIGEST_HEAD)
        total = self.parts.tokens - self.parts.ledger_tokens
        totals = [total]
        for exchange in raw[: len(raw) - keep]:
            assert exchange.turn is not None
            line = digest_line(exchange.turn, self.parts.encoding)
            total += line.tokens - exchange.tokens + frame
            frame = 0
            totals.append(total)
        return totals

    def _digest_first(
        self, count: int, raw: list[Exchange], digested: list[TailTurn], lines: list[Line]
    ) -> None:
        encoding = self.parts.encoding
        turns = [exchange.turn for exchange in raw[:count] if exchange.turn is not None]
        self.parts.raw = raw[count:]
        self.parts.digested = [*digested, *turns]
        self.parts.lines = [*lines, *(digest_line(turn, encoding) for turn in turns)]
        self._show_ledger()

    def _show_ledger(self) -> None:
        if self.cut_at is None:
            show_ledger(self.parts)

    def drop_retrieved(self) -> None:
        """Retrieved blocks, from the last rank up."""
        while self.parts.retrieved and not self.fits:
            before = self.parts.tokens
            block = self.parts.retrieved.pop()
            saved = before - self.parts.tokens
            self._note("retrieved_dropped", block.from_turn, block.to_turn, saved)

    def join_digests(self) -> None:
        """Oldest digests to one line a segment; then segments to one line, and so on.

        Facts that only a digest said return to the ledger.
        """
        if len(self.parts.lines) < 2:
            return
        before = self.parts.tokens
        without_facts = smallest = before - self.parts.ledger_tokens
        best = self.parts.lines
        for state, saved in self._joined_states(self.parts.lines):
            if without_facts - saved < smallest:
                smallest, best = without_facts - saved, state
            if smallest <= self.limit and self._fits_with(best):
                break
        self._set_lines(best)
        self._note(
            "digests_joined", best[0].from_turn, best[-1].to_turn, before - self.parts.tokens
        )

    def _fits_with(self, lines: list[Line]) -> bool:
        self._set_lines(lines)
        return self.fits

    def _set_lines(self, lines: list[Line]) -> None:
        self.parts.lines = lines
        self._show_ledger()

    def _joined_states(self, lines: list[Line]) -> Iterator[tuple[list[Line], int]]:
        size = self.policy.segment_turns
        saved = 0
        while len(lines) > 1:
            done: list[Line] = []
            start = 0
            while start < len(lines):
                group = _group(lines, start, size)
                line = joined(group, self.policy.digest_tokens, self.counter)
                saved += sum(member.tokens for member in group) - line.tokens
                done.append(line)
                start += len(group)
                yield [*done, *lines[start:]], saved
            lines = done
            size *= self.policy.fan_out

    def shorten_nodes(self) -> None:
        """Summary nodes to their headlines, oldest first."""
        checkpoint = self.parts.checkpoint
        while checkpoint is not None and checkpoint.short < len(checkpoint.nodes) and not self.fits:
            before = self.parts.tokens
            node = checkpoint.nodes[checkpoint.short]
            checkpoint.short += 1
            saved = before - self.parts.tokens
            self._note("node_to_headline", node["from_turn"], node["to_turn"], saved)

    def cut_ledger(self) -> None:
        """All of the ledger: in the end its newest part takes the room that is left."""
        self.ledger_tokens = self._ledger_tokens()
        self.cut_at = len(self.done)
        cut_ledger(self.parts)
        self._shorten_headlines()

    def _shorten_headlines(self) -> None:
        """Headlines to their first words, oldest first, until the ledger has its share of room."""
        checkpoint, wanted = self.parts.checkpoint, self.limit * LEDGER_SHARE
        while checkpoint is not None and checkpoint.in_words < checkpoint.short:
            before = self.parts.tokens
            if before <= self.limit - wanted:
                return
            node = checkpoint.nodes[checkpoint.in_words]
            checkpoint.in_words += 1
            saved = before - self.parts.tokens
            self._note("headline_to_words", node["from_turn"], node["to_turn"], saved)

    def fill_ledger(self) -> None:
        """As much of a ledger that was cut as there is room for, the best facts first.

        Headlines do not say what their nodes' texts did, so with them the ledger is chosen anew.
        """
        checkpoint = self.parts.checkpoint
        if self.cut_at is None and checkpoint is not None and checkpoint.short:
            self.ledger_tokens, self.cut_at = self._ledger_tokens(), len(self.done)
            cut_ledger(self.parts)
        if self.cut_at is None or not self.fits:
            return
        fill_ledger(self.parts, self.limit - self.parts.tokens)
        self._note(
            "ledger_cut", None, None, self.ledger_tokens - self._ledger_tokens(), self.cut_at
        )

    def _ledger_tokens(self) -> int:
        checkpoint = self.parts.checkpoint
        return self.parts.ledger_tokens + (checkpoint.ledger_tokens if checkpoint else 0)

    def _note(
        self,
        kind: ReductionKind,
        from_turn: int | None,
        to_turn: int | None,
        saved: int,
        position: int | None = None,
    ) -> None:
        if saved > 0:
            done = Reduction(kind=kind, from_turn=from_turn, to_turn=to_turn, tokens_saved=saved)
            self.done.insert(len(self.done) if position is None else position, done)


def _size(candidate: tuple[Exchange, int]) -> int:
    exchange, position = candidate
    return exchange.message_tokens[position]


def _group(lines: list[Line], start: int, size: int) -> list[Line]:
    """Lines from `start` on that cover at most `size` turns; at least one."""
    limit = lines[start].from_turn + size
    end = start + 1
    while end < len(lines) and lines[end].to_turn < limit:
        end += 1
    return lines[start:end]
