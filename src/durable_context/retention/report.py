"""What retention took, or would take."""

from collections.abc import Iterable
from typing import Literal, get_args

from durable_context.models import Value

Kind = Literal[
    "conversations",
    "checkpoints",
    "summaries",
    "drafts",
    "summary_parts",
    "compactions",
    "contents",
    "prompt_parts",
    "objects",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
NAMED = 100
"""Names of conversations that a report holds at most."""


class Taken(Value):
    """How many of a kind, and bytes of their text or data as they were stored."""

    kind: Kind
    count: int
    bytes: int


class RetentionReport(Value):
    """`taken` has each kind of which something goes, once. `conversation_ids` names the first 100
    conversations. `examined` counts rows that were looked at.
    """

    dry_run: bool = False
    taken: tuple[Taken, ...] = ()
    examined: int = 0
    conversation_ids: tuple[str, ...] = ()

    def count(self, kind: Kind) -> int:
        return sum(taken.count for taken in self.taken if taken.kind == kind)

    @property
    def total(self) -> int:
        return sum(taken.count for taken in self.taken)

    @property
    def bytes(self) -> int:
        return sum(taken.bytes for taken in self.taken)

    def __add__(self, other: "RetentionReport") -> "RetentionReport":
        return RetentionReport(
            dry_run=self.dry_run or other.dry_run,
            taken=summed((*self.taken, *other.taken)),
            examined=self.examined + other.examined,
            conversation_ids=(*self.conversation_ids, *other.conversation_ids)[:NAMED],
        )


class RetentionPage(Value):
    """One batch. `cursor` is where the next one begins; None when there is none. It holds ids and
    moments, never content. `failed`: rows that could not be taken, or 1 for a kind of rows that
    could not be read.
    """

    report: RetentionReport
    failed: int = 0
    cursor: str | None = None


def summed(all_taken: Iterable[Taken]) -> tuple[Taken, ...]:
    totals: dict[Kind, tuple[int, int]] = {}
    for taken in all_taken:
        count, size = totals.get(taken.kind, (0, 0))
        totals[taken.kind] = (count + taken.count, size + taken.bytes)
    return tuple(
        Taken(kind=kind, count=totals[kind][0], bytes=totals[kind][1])
        for kind in KINDS
        if kind in totals and totals[kind][0]
    )
