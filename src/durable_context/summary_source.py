"""What a summary node is made from, and the hash of it that its draft is kept under."""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from durable_context.contracts import NodeRange, SummarizeRequest
from durable_context.database import Pool
from durable_context.draft_store import DraftStore, TurnSource
from durable_context.errors import StalePlan
from durable_context.ledger import merge_ledgers
from durable_context.models import LedgerEntry, Summary, Turn
from durable_context.store import Store


class SummarySource(NamedTuple):
    """Turns of a leaf, or nodes to merge. `input_tokens` is what a summarizer reads of them,
    `covered_tokens` the size of the turns as they are stored.
    """

    turns: tuple[Turn, ...]
    nodes: tuple[Summary, ...]
    ledger: tuple[LedgerEntry, ...]
    input_hash: bytes
    input_tokens: int
    covered_tokens: int


async def load_source(pool: Pool, request: SummarizeRequest) -> SummarySource:
    """Raises StalePlan when the planned range is not there as planned."""
    drafts = DraftStore(pool, request.tenant, request.branch_uuid)
    if request.node.level:
        nodes = await drafts.children(request.node, request.drafts)
        return _of_nodes(request.node, nodes)
    store = Store(pool, request.tenant)
    turns = await store.turns(request.branch_uuid, request.node.from_turn, request.node.to_turn)
    sources = await drafts.sources(request.node.from_turn, request.node.to_turn)
    return _of_turns(request.node, turns, sources)


def _of_turns(
    node: NodeRange, turns: Sequence[Turn], sources: Sequence[TurnSource]
) -> SummarySource:
    if len(turns) != node.to_turn - node.from_turn + 1 or len(sources) != len(turns):
        raise StalePlan(f"turns {node.from_turn}-{node.to_turn} are not all there")
    tokens = sum(source.tokens for source in sources)
    ledger: tuple[LedgerEntry, ...] = ()
    for turn in turns:
        ledger = merge_ledgers(ledger, turn.ledger)
    return SummarySource(
        turns=tuple(
            turn.model_copy(update={"token_count": source.tokens})
            for turn, source in zip(turns, sources, strict=True)
        ),
        nodes=(),
        ledger=ledger,
        input_hash=_hash([b"turns", *(source.content_hash for source in sources)]),
        input_tokens=tokens,
        covered_tokens=tokens,
    )


def _of_nodes(node: NodeRange, nodes: Sequence[Summary]) -> SummarySource:
    next_turn = node.from_turn
    for child in nodes:
        if child.from_turn != next_turn:
            break
        next_turn = child.to_turn + 1
    if next_turn != node.to_turn + 1:
        raise StalePlan(
            f"level {node.level - 1} nodes do not cover turns {node.from_turn}-{node.to_turn} once"
        )
    texts = [part for child in nodes for part in (child.headline.encode(), child.text.encode())]
    return SummarySource(
        turns=(),
        nodes=tuple(nodes),
        ledger=(),
        input_hash=_hash([b"nodes", *texts]),
        input_tokens=sum(child.token_count for child in nodes),
        covered_tokens=sum(child.covered_tokens for child in nodes),
    )


def _hash(parts: Sequence[bytes]) -> bytes:
    """Lengths first, so that no two inputs run together."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()
