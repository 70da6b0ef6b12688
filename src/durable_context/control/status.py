"""How the branches of a tenant stand, as operators see them."""

from datetime import datetime
from decimal import Decimal
from typing import Literal
from uuid import UUID

from durable_context.models import Compaction, Lag, Pause, Value

StatusFilter = Literal["behind", "failed", "running", "paused"]


class BranchStatus(Value):
    """`is_behind`: a segment is due. With more than about 100 turns after the checkpoint `lag` is
    estimated from what the branch counts. `failed` is its newest compaction, where that failed.
    `balance`: see `Compaction`; `price` is None where that of a call is not known.
    """

    conversation_id: str
    branch_id: str
    branch_uuid: UUID
    head_turn: int
    checkpoint_turn: int
    lag: Lag
    is_behind: bool
    last_turn_at: datetime | None
    pauses: tuple[Pause, ...]
    pins: int
    running: Compaction | None
    failed: Compaction | None
    balance: int
    price: Decimal | None


class StatusTotals(Value):
    """Of all branches, or those of one conversation. `behind`, `lag_turns` and `lag_tokens` are
    estimated from what branches count, as the order of pages and the filter `behind` are. `price`
    sums what is known; of `unpriced` compactions it is not.
    """

    branches: int
    turns: int
    behind: int
    running: int
    failed: int
    paused: int
    lag_turns: int
    lag_tokens: int
    balance: int
    price: Decimal
    unpriced: int


class StatusPage(Value):
    """`totals` come with the first page. `after` asks for the next one, None with the last."""

    branches: tuple[BranchStatus, ...]
    totals: StatusTotals | None
    after: str | None
