"""When Temporal is told of a turn."""

from datetime import UTC, datetime

from durable_context import CompactionPolicy
from durable_context.compaction.lag import worth_a_hint
from durable_context.store import Recorded

POLICY = CompactionPolicy()


def told(turns: int, tokens: int, continues: bool) -> bool:
    """Of a branch with so many turns beyond those that stay raw."""
    head = turns + POLICY.keep_raw_turns
    recorded = Recorded(head, head, datetime.now(UTC), False, 0, tokens)
    return worth_a_hint(recorded, continues, POLICY)


def test_a_full_segment_is_told_of_and_a_small_one_is_not() -> None:
    assert told(6, 600, continues=False)
    assert told(2, 6_000, continues=False)
    assert not told(5, 5_999, continues=False)
    assert not told(0, 9_000, continues=False)


def test_small_stretches_of_an_open_run_are_told_of_once_a_segment() -> None:
    """Stored as views they are few tokens; raw they may be more than a run keeps."""
    assert [n for n in range(20) if told(n, 150 * n, continues=True)] == [6, 12, 18]
    assert told(7, POLICY.run_raw_tokens + 1, continues=True)
