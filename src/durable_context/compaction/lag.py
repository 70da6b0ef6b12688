"""How far compaction is behind, and whether a segment is due."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, Protocol

from durable_context.compaction.segments import TurnSize, compactable_turn, due_segment
from durable_context.compaction.store import BranchHead, CompactionStore
from durable_context.models import Lag
from durable_context.policy import CompactionPolicy
from durable_context.store import Recorded

TAIL_COLUMNS: Final = """
    b.head_tokens - b.checkpoint_tokens as tail_tokens,
    greatest(b.head_turn - b.checkpoint_turn - {keep_raw_turns}::integer, 0) as tail_turns,
    b.head_tokens - b.checkpoint_tokens
        - case when b.open_run_turn is null then 0 else {run_raw_tokens}::integer end as free_tokens
"""
LAG_TOKENS: Final = """
greatest(0, least(t.free_tokens,
    t.tail_tokens * t.tail_turns / (t.head_turn - t.checkpoint_turn)))
"""
"""An estimate in SQL that reads no turns, of a tail t with `TAIL_COLUMNS` of a branch b: the lag's
share of the tail is taken for its share of its tokens; of an open run as many stay raw as policy
says.
"""


async def next_segment(
    store: CompactionStore, head: BranchHead, policy: CompactionPolicy
) -> list[TurnSize]:
    """The turns of the next segment, if it is due. Reads no content."""
    if head.head_turn - policy.keep_raw_turns <= head.checkpoint_turn:
        return []
    run = await store.newest_of_run(head, policy.run_raw_tokens)
    turns = await store.sizes(head.checkpoint_turn, policy.segment_turns)
    end = due_segment(turns, compactable_turn(head.head_turn, run, policy), policy)
    return [turn for turn in turns if end is not None and turn.turn_no <= end]


def worth_a_hint(recorded: Recorded, continues: bool, policy: CompactionPolicy) -> bool:
    """Whether a segment may be due, from what recording returned: errs on the side of asking."""
    if recorded.is_paused:
        return False
    turns = recorded.head_turn - recorded.checkpoint_turn - policy.keep_raw_turns
    if continues and recorded.uncompacted_tokens <= policy.run_raw_tokens:
        # Shown raw, they may be many more tokens than stored: asked of as often as segments fill.
        return turns > 0 and turns % policy.segment_turns == 0
    return turns >= policy.segment_turns or (
        turns > 0 and recorded.uncompacted_tokens >= policy.segment_tokens
    )


class Waiting(Protocol):
    """A turn behind the checkpoint."""

    @property
    def turn_no(self) -> int: ...

    @property
    def token_count(self) -> int: ...

    @property
    def recorded_at(self) -> datetime: ...


def lag_of(
    tail: Sequence[Waiting],
    open_run_turn: int | None,
    policy: CompactionPolicy,
    sizes: Sequence[TurnSize] | None = None,
) -> Lag:
    """The part of the tail, oldest first, that need not stay raw.

    `sizes` are those of the tail (`CompactionStore.sizes`), which differ from what the turns count
    where something was offloaded.
    """
    if not tail:
        return Lag(turns=0, tokens=0, seconds=0.0)
    if sizes is None:
        sizes = [TurnSize(turn.turn_no, turn.token_count, turn.token_count) for turn in tail]
    last = _compactable(sizes, open_run_turn, policy)
    behind = [turn for turn in tail if turn.turn_no <= last]
    age = (datetime.now(UTC) - behind[0].recorded_at).total_seconds() if behind else 0.0
    tokens = sum(size.token_count for size in sizes if size.turn_no <= last)
    return Lag(turns=len(behind), tokens=tokens, seconds=max(age, 0.0))


def is_due(sizes: Sequence[TurnSize], open_run_turn: int | None, policy: CompactionPolicy) -> bool:
    """Whether a segment of a branch with this tail is."""
    if not sizes:
        return False
    return due_segment(sizes, _compactable(sizes, open_run_turn, policy), policy) is not None


def _compactable(
    sizes: Sequence[TurnSize], open_run_turn: int | None, policy: CompactionPolicy
) -> int:
    head = sizes[-1].turn_no
    begins = open_run_turn or head + 1
    run = [size for size in reversed(sizes) if size.turn_no >= begins]
    return compactable_turn(head, run, policy)
