"""What a summary node is made from, and the hash of it that its draft is kept under."""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from durable_context.artifacts.mentions import TurnMentions
from durable_context.artifacts.summaries import ArtifactSummaries
from durable_context.compaction.draft_store import DraftStore, TurnSource
from durable_context.contracts import NodeRange, SummarizeRequest, TurnRange
from durable_context.database import Pool
from durable_context.errors import StalePlan
from durable_context.models import LedgerEntry, Summary, Turn
from durable_context.store import Store
from durable_context.turns.ledger import merge_ledgers

NODES_HASH = """sha256(int8send(5) || 'nodes'::bytea || string_agg(
        int8send(octet_length(c.headline)) || convert_to(c.headline, 'UTF8')
            || int8send(octet_length(c.text)) || convert_to(c.text, 'UTF8'),
        ''::bytea order by c.from_turn))"""
"""In SQL: the hash of merging nodes `c`."""


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


async def load_source(pool: Pool, request: SummarizeRequest, recipe: str) -> SummarySource:
    """Artifacts of the turns are told by their summaries of this recipe, so far as there are any.

    Raises StalePlan when the planned range is not there as planned."""
    drafts = DraftStore(pool, request.tenant, request.branch_uuid)
    if request.node.level:
        nodes = await drafts.children(request.node, request.drafts)
        return _of_nodes(request.node, nodes)
    store, node = Store(pool, request.tenant), request.node
    turns = await store.turns(request.branch_uuid, node.from_turn, node.to_turn)
    sources = await drafts.sources(node.from_turn, node.to_turn)
    artifacts = ArtifactSummaries(pool, request.tenant, request.branch_uuid)
    brought = TurnRange(from_turn=node.from_turn, to_turn=node.to_turn)
    mentions = TurnMentions(await artifacts.of_turns(brought, recipe))
    return _of_turns(node, turns, sources, mentions)


def _of_turns(
    node: NodeRange,
    turns: Sequence[Turn],
    sources: Sequence[TurnSource],
    mentions: TurnMentions,
) -> SummarySource:
    if len(turns) != node.to_turn - node.from_turn + 1 or len(sources) != len(turns):
        raise StalePlan(f"turns {node.from_turn}-{node.to_turn} are not all there")
    ledger: tuple[LedgerEntry, ...] = ()
    read: list[Turn] = []
    for turn, source in zip(turns, sources, strict=True):
        ledger = merge_ledgers(ledger, turn.ledger)
        read.append(mentions.told(turn.model_copy(update={"token_count": source.tokens})))
    hashes = [b"turns", *(source.content_hash for source in sources)]
    return SummarySource(
        turns=tuple(read),
        nodes=(),
        ledger=ledger,
        input_hash=_hash(hashes + [text.encode() for text in mentions.texts]),
        input_tokens=sum(turn.token_count for turn in read),
        covered_tokens=sum(source.tokens for source in sources),
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
