"""What gives way when a prompt is over budget, in a fixed order.

Each stage is a sequence of states. The first state that fits ends everything; if none does, the
stage is left in its smallest one and the next begins. So a prompt is refused only if the last
state of all is over budget, and a budget of exactly that size is met.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice

from durable_context.policy import CompactionPolicy
from durable_context.prompts.blocks import (
    Exchange,
    Line,
    Parts,
    digest_line,
)
from durable_context.prompts.digesting import (
    JoinedState,
    joined_states,
    totals_without_facts,
)
from durable_context.prompts.ledger_parts import cut_ledger, fill_ledger, show_ledger
from durable_context.prompts.manifest import Reduction, ReductionKind
from durable_context.prompts.pending import tightened
from durable_context.prompts.restoring import restore_raw
from durable_context.prompts.state import TailTurn
from durable_context.prompts.wider_views import widen_views
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
    if reducer.fits:
        return []
    for stage in (
        reducer.join_old_digests,
        reducer.show_views,
        reducer.digest_older_turns,
        reducer.drop_retrieved,
        reducer.join_digests,
        reducer.digest_turn_before_pending,
        reducer.shorten_nodes,
        reducer.show_pending_views,
        reducer.cut_ledger,
        reducer.digest_newest_turn,
        reducer.join_digests,
        reducer.join_headlines,
        reducer.tighten_pending,
    ):
        if reducer.fits:
            break
        stage()
        reducer.stage += 1
    reducer.use_room_left()
    return reducer.reductions()


class _Reducer:
    """`views` and `digested` are what gave way, each with the number of its stage."""

    def __init__(
        self, parts: Parts, limit: int, policy: CompactionPolicy, counter: TokenCounter
    ) -> None:
        self.parts = parts
        self.limit = limit
        self.policy = policy
        self.counter = counter
        self.stage = 0
        self.notes: list[tuple[int, Reduction]] = []
        self.views: list[tuple[int, Exchange, int]] = []
        self.digested: list[tuple[int, Exchange]] = []
        self.cut_at: int | None = None
        self.ledger_tokens = 0

    @property
    def fits(self) -> bool:
        return self.parts.tokens <= self.limit

    def show_views(self) -> None:
        """Views of large messages of raw turns, largest first."""
        self._show_views(self.parts.raw)

    def show_pending_views(self) -> None:
        """Views of what is pending, which the model has not read yet."""
        if self.parts.pending is not None:
            self._show_views([self.parts.pending])

    def tighten_pending(self) -> None:
        """Ever smaller views of what is pending, where many at once leave no room."""
        pending = self.parts.pending
        if pending is None:
            return
        for positions in tightened(pending, self.counter):
            self.views += [(self.stage, pending, position) for position in positions]
            if self.fits:
                return

    def _show_views(self, exchanges: Sequence[Exchange]) -> None:
        over = self.parts.tokens - self.limit
        for exchange, position in sorted(_viewable(exchanges), key=_size, reverse=True):
            if over <= 0:
                break
            exchange.viewed.add(position)
            self.views.append((self.stage, exchange, position))
            over -= exchange.message_tokens[position] - exchange.views[position].tokens
        self._show_ledger()

    def digest_older_turns(self) -> None:
        self._digest_turns(keep=1)

    def digest_turn_before_pending(self) -> None:
        """The newest turn, where exchanges are pending, which are newer."""
        if self.parts.pending is not None:
            self._digest_turns(keep=0)

    def digest_newest_turn(self) -> None:
        """The newest turn too, and what was left of the others; their facts are cut already."""
        self._digest_turns(keep=0)

    def _digest_turns(self, keep: int) -> None:
        """Raw turns to digests, oldest first, as few as will do.

        The ledger tail grows with them. It gives way later, so the smallest state is the one that
        is smallest without it.
        """
        raw = self.parts.raw
        digested, lines = self.parts.digested, self.parts.lines
        totals = totals_without_facts(self.parts, keep)
        for count, total in enumerate(totals):
            if total <= self.limit:
                self._digest_first(count, raw, digested, lines)
                if self.fits:
                    break
        else:
            smallest = min(range(len(totals)), key=totals.__getitem__)
            self._digest_first(smallest, raw, digested, lines)
        gone = raw[: len(raw) - len(self.parts.raw)]
        self.digested += [(self.stage, exchange) for exchange in gone]

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

    def join_old_digests(self) -> None:
        """Where digests, since compaction is behind, take more than half of the limit, the oldest
        of them to one line a segment: before newer turns give way to them.
        """
        lines = self.parts.lines
        enough = self.parts.digest_tokens - self.limit // 2
        if enough <= 0 or len(lines) <= 2 * self.policy.segment_turns:
            return
        states = joined_states(lines, self.policy, self.counter)
        self._join(islice(states, -(-len(lines) // self.policy.segment_turns)), enough)

    def join_digests(self) -> None:
        """Oldest digests to one line a segment; then segments to one line, and so on.

        Facts that only a digest said return to the ledger.
        """
        self._join(joined_states(self.parts.lines, self.policy, self.counter))

    def _join(self, states: Iterable[JoinedState], enough: float = float("inf")) -> None:
        """The first state that fits or saves `enough`, else the smallest."""
        before, most = self.parts.tokens, 0
        best: JoinedState | None = None
        wanted = before - self.parts.ledger_tokens - self.limit
        for state in states:
            if state.saved > most:
                best, most = state, state.saved
            if most >= enough:
                break
            if best is not None and most >= wanted:
                self._set_lines(best.lines())
                if self.fits:
                    break
                # Facts have come back with what was joined: by so much more has to go.
                wanted = most + self.parts.tokens - self.limit
        if best is not None:
            lines = best.lines()
            self._set_lines(lines)
            first, last = lines[0].from_turn, lines[-1].to_turn
            self._note("digests_joined", first, last, before - self.parts.tokens)

    def _set_lines(self, lines: list[Line]) -> None:
        self.parts.lines = lines
        self._show_ledger()

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
        """All of the ledger: in the end its best part takes the room that is left."""
        self.cut_at = self.stage
        self.ledger_tokens = self._ledger_tokens()
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

    def join_headlines(self) -> None:
        """Oldest nodes to one line, as digests are."""
        checkpoint = self.parts.checkpoint
        if checkpoint is None or len(checkpoint.nodes) < 2:
            return
        before = self.parts.tokens
        for count in range(2, len(checkpoint.nodes) + 1):
            checkpoint.join(count)
            if self.fits:
                break
        first, last = checkpoint.nodes[0], checkpoint.nodes[checkpoint.joined - 1]
        saved = before - self.parts.tokens
        self._note("headlines_joined", first["from_turn"], last["to_turn"], saved)

    def use_room_left(self) -> None:
        """For the newest turns raw, for more of what is shown as views, and for the best facts.

        Headlines do not say what their nodes' texts did, so with them the ledger is chosen anew; so
        it is where it may keep a turn from being raw.
        """
        if not self.fits:
            return
        checkpoint = self.parts.checkpoint
        shortened = bool(checkpoint and checkpoint.short) or bool(self.digested)
        if self.cut_at is None and shortened:
            self.cut_at, self.ledger_tokens = self.stage, self._ledger_tokens()
            cut_ledger(self.parts)
        if self.cut_at is not None:
            gone = [exchange for _, exchange in self.digested]
            restored = restore_raw(self.parts, gone, self._room_beside_ledger(), self.counter)
            del self.digested[len(gone) - restored :]
        if self.views:
            widen_views(self.parts, self._room_beside_ledger(), self.counter)
        if self.cut_at is not None:
            fill_ledger(self.parts, self.limit - self.parts.tokens)

    def _room_beside_ledger(self) -> int:
        share = min(self.ledger_tokens, int(self.limit * LEDGER_SHARE))
        return self.limit - self.parts.tokens - share

    def _ledger_tokens(self) -> int:
        checkpoint = self.parts.checkpoint
        return self.parts.ledger_tokens + (checkpoint.ledger_tokens if checkpoint else 0)

    def reductions(self) -> list[Reduction]:
        """In the order of the stages, as they ended: what fitted again is not among them."""
        notes = [*self.notes, *self._views_noted(), *self._digests_noted()]
        if self.cut_at is not None:
            saved = self.ledger_tokens - self._ledger_tokens()
            notes.append((self.cut_at, _reduction("ledger_cut", None, None, saved)))
        ordered = sorted(notes, key=lambda note: note[0])
        return [reduction for _, reduction in ordered if reduction.tokens_saved > 0]

    def _views_noted(self) -> Iterator[tuple[int, Reduction]]:
        for stage, exchange, position in self.views:
            if exchange in self.parts.raw_and_pending:
                saved = exchange.message_tokens[position] - exchange.shown_tokens(position)
                yield stage, _reduction("view", exchange.turn_no, exchange.turn_no, saved)

    def _digests_noted(self) -> Iterator[tuple[int, Reduction]]:
        for stage, group in groupby(self.digested, key=lambda gone: gone[0]):
            turns = [exchange for _, exchange in group]
            saved = sum(exchange.tokens for exchange in turns) - sum(
                digest_line(exchange.turn, self.parts.encoding).tokens
                for exchange in turns
                if exchange.turn is not None
            )
            saved -= self.parts.pinned_beside(turns)
            first, last = turns[0].turn_no, turns[-1].turn_no
            yield stage, _reduction("raw_to_digest", first, last, saved)

    def _note(
        self, kind: ReductionKind, from_turn: int | None, to_turn: int | None, saved: int
    ) -> None:
        self.notes.append((self.stage, _reduction(kind, from_turn, to_turn, saved)))


def _reduction(
    kind: ReductionKind, from_turn: int | None, to_turn: int | None, saved: int
) -> Reduction:
    return Reduction(kind=kind, from_turn=from_turn, to_turn=to_turn, tokens_saved=saved)


def _viewable(exchanges: Iterable[Exchange]) -> Iterator[tuple[Exchange, int]]:
    for exchange in exchanges:
        for position in exchange.views if not exchange.pinned else ():
            if position >= exchange.skip and position not in exchange.viewed:
                yield exchange, position


def _size(candidate: tuple[Exchange, int]) -> int:
    exchange, position = candidate
    return exchange.message_tokens[position]
