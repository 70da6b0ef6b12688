"""A long branch stored in a few minutes: its turns, leaves and nodes go into the tables in bulk,
the product's own statement indexes them, and its own pipeline records and compacts the end.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple
from uuid import UUID, uuid4

from benchmarks.database import ENCODING, TENANT, Database, Report, compact, silence
from benchmarks.retrieval.lineage import Lineage
from durable_context import Branch, stored_json
from durable_context.compaction.node_index import add_nodes
from durable_context.compaction.segments import (
    TurnSize,
    completed_nodes,
    next_frontier,
    segment_ends,
)
from durable_context.contracts import NodeRange
from durable_context.database import Pool, acquired
from durable_context.models import Message
from durable_context.search_terms import message_search_text
from durable_context.tokens import token_counter
from durable_context.transcripts import TranscriptTurn

PIPELINE_TURNS = 60
"""The newest, which are recorded and compacted as any are: prompts show what is made of them."""
BATCH = 1_000
INDEXED_TURNS = 600
HEAD_WORDS = 12
"""Of each message the first so many stand in the leaf's summary."""
REPORT_EVERY = 20_000

_TURNS = """
insert into durable_context.turns (
    tenant, branch_uuid, turn_no, turn_key, content_hash, messages, message_tokens, token_count,
    stored_tokens, raw_tokens, outcome, continues, digest, digest_tokens, ledger, message_terms,
    speakers, occurred_at, recorded_at, head_tokens
)
select b.tenant, b.branch_uuid, r.turn_no, 'bulk ' || r.turn_no,
    sha256(convert_to(r.messages::text, 'utf8')), r.messages, r.tokens, r.total, r.total, r.total,
    'complete', false, r.digest, 40, '[]', array(
        select durable_context.search_terms(b.text_search, m.text, m.terms)
            || durable_context.day_terms(r.occurred_at)
        from unnest(r.texts, r.terms) with ordinality m (text, terms, message_no)
        order by m.message_no
    ), tsvector_to_array(to_tsvector(b.text_search, r.speakers)), r.occurred_at, now(), r.head
from durable_context.branches b
cross join json_to_recordset($3::text::json) r (
    turn_no integer, messages json, tokens integer[], total integer, head bigint, digest text,
    texts text[], terms text[], speakers text, occurred_at timestamptz
)
where b.tenant = $1 and b.branch_uuid = $2
"""

_NODES = """
insert into durable_context.summaries (
    summary_id, tenant, branch_uuid, level, from_turn, to_turn, recipe, input_hash, state,
    headline, text, token_count, input_tokens, covered_tokens, made_by, published_in
)
select r.summary_id, $1, $2, r.level, r.from_turn, r.to_turn, 'bulk', sha256(''), 'current',
    r.headline, r.text, 1 + length(r.text) / 4, 1, 1, 'bulk', 0
from json_to_recordset($3::text::json) r (
    summary_id uuid, level smallint, from_turn integer, to_turn integer, headline text, text text
)
"""

_CHECKPOINTS = """
insert into durable_context.checkpoints (
    tenant, branch_uuid, turn_no, frontier, leaf_count, sections, ledger, text, token_count,
    token_usage
)
select $1, $2, r.turn_no, r.frontier, r.leaf_count, '[]', '[]', 'bulk', 1, '{}'
from json_to_recordset($3::text::json) r (turn_no integer, frontier uuid[], leaf_count integer)
"""

_HEAD = """
update durable_context.branches b set head_turn = t.turn_no, head_tokens = t.head_tokens,
    checkpoint_turn = c.turn_no, checkpoint_tokens = c.head_tokens
from durable_context.turns t, durable_context.turns c
where b.tenant = $1 and b.branch_uuid = $2 and t.branch_uuid = $2 and c.branch_uuid = $2
    and t.turn_no = $3 and c.turn_no = $4
"""


class _Node(NamedTuple):
    summary_id: UUID
    level: int
    from_turn: int
    to_turn: int
    headline: str
    text: str


async def stored(database: Database, name: str, lineage: Lineage, report: Report) -> Branch:
    """The branch of that name, made if it is not there; half made it is made no further."""
    branch = await database.client(fast=True).open_branch(name)
    if await _head_turn(database.pool, branch) == lineage.length:
        return branch
    turns = lineage.turns()
    bulk = max(0, lineage.length - PIPELINE_TURNS)
    leaves = await store_turns(database.not_waiting, branch, islice(turns, bulk), report)
    if leaves:
        await store_tree(database.not_waiting, branch, leaves, bulk)
        await database.settle()  # the statement is planned for tables of this size
        for first in range(1, bulk + 1, INDEXED_TURNS):
            await index_turns(database.not_waiting, branch, first + INDEXED_TURNS - 1)
            _progress(report, "indexed", first + INDEXED_TURNS - 1)
    for turn in turns:
        await branch.record_turn(turn.messages, occurred_at=turn.occurred_at)
    await compact(database.not_waiting, branch, silence)
    return branch


async def _head_turn(pool: Pool, branch: Branch) -> int:
    async with acquired(pool) as connection:
        return await connection.fetchval(
            "select head_turn from durable_context.branches where tenant = $1 and branch_uuid = $2",
            TENANT,
            branch.branch_uuid,
        )


def _progress(report: Report, done: str, turns: int) -> None:
    if turns % REPORT_EVERY < INDEXED_TURNS:
        report(f"{done} {turns:,} turns")


async def index_turns(pool: Pool, branch: Branch, to_turn: int) -> None:
    """By the statement that compaction indexes leaves with."""
    await add_nodes(pool, TENANT, branch.branch_uuid, to_turn)


async def store_turns(
    pool: Pool, branch: Branch, turns: Iterable[TranscriptTurn], report: Report
) -> list[tuple[NodeRange, str]]:
    """The leaves that the turns fill, each with what its summary says."""
    sizes: list[TurnSize] = []
    heads: list[str] = []
    rows: list[dict[str, Any]] = []
    for turn_no, row in enumerate(_rows(turns), start=1):
        rows.append({"turn_no": turn_no, **row})
        sizes.append(TurnSize(turn_no, row["total"], row["total"]))
        heads.append(row["digest"])
        if len(rows) == BATCH:
            await _insert(pool, branch, _TURNS, rows)
            rows.clear()
            _progress(report, "stored", turn_no)
    await _insert(pool, branch, _TURNS, rows)
    leaves: list[tuple[NodeRange, str]] = []
    first = 1
    for last in segment_ends(sizes, branch.policy):
        leaf = NodeRange(level=0, from_turn=first, to_turn=last)
        leaves.append((leaf, " ".join(heads[first - 1 : last])))
        first = last + 1
    return leaves


def _rows(turns: Iterable[TranscriptTurn]) -> Iterator[dict[str, Any]]:
    """What of a turn is searched for or counted. Its digest and ledger are short of what they say
    of a turn that is recorded.
    """
    counter = token_counter(ENCODING)
    head = 0
    for turn in turns:
        messages = [Message.model_validate(message) for message in turn.messages]
        day = turn.occurred_at.date() if turn.occurred_at else None
        searched = [message_search_text(message, day) for message in messages]
        names = {term[1:] for each in searched for term in each.terms if term.startswith("@")}
        tokens = [counter.count_message(message) for message in messages]
        head += sum(tokens)
        yield {
            "messages": stored_json.loads(stored_json.dump_messages(messages)),
            "tokens": tokens,
            "total": sum(tokens),
            "head": head,
            "digest": " ".join(" ".join(each.text.split()[:HEAD_WORDS]) for each in searched),
            "texts": [each.text for each in searched],
            "terms": [
                "\n".join(term for term in each.terms if not term.startswith("@"))
                for each in searched
            ],
            "speakers": " ".join(sorted(names)),
            "occurred_at": turn.occurred_at.isoformat() if turn.occurred_at else None,
        }


async def store_tree(
    pool: Pool, branch: Branch, leaves: Sequence[tuple[NodeRange, str]], head: int
) -> None:
    """Leaves, the nodes above them and a checkpoint for each leaf, cut as compaction cuts them."""
    frontier: tuple[_Node, ...] = ()
    nodes: list[dict[str, Any]] = []
    checkpoints: list[dict[str, Any]] = []
    for count, (leaf, text) in enumerate(leaves, start=1):
        made = _nodes(frontier, leaf, text, branch.policy.fan_out)
        frontier = next_frontier(frontier, made)
        nodes += [{**node._asdict(), "summary_id": str(node.summary_id)} for node in made]
        standing = [str(node.summary_id) for node in frontier]
        checkpoints.append({"turn_no": leaf.to_turn, "frontier": standing, "leaf_count": count})
    for first in range(0, len(nodes), BATCH):
        await _insert(pool, branch, _NODES, nodes[first : first + BATCH])
    for first in range(0, len(checkpoints), BATCH):
        await _insert(pool, branch, _CHECKPOINTS, checkpoints[first : first + BATCH])
    async with acquired(pool) as connection:
        last = leaves[-1][0].to_turn
        await connection.execute(_HEAD, TENANT, branch.branch_uuid, head, last)


def _nodes(frontier: Sequence[_Node], leaf: NodeRange, text: str, fan_out: int) -> list[_Node]:
    """The leaf and the merges it completes; of its children a node has the headlines."""
    standing = [
        NodeRange(level=node.level, from_turn=node.from_turn, to_turn=node.to_turn)
        for node in frontier
    ]
    made: list[_Node] = []
    for node in completed_nodes(standing, leaf, fan_out):
        below = [*frontier, *made]
        children = [each for each in below if each.level == node.level - 1]
        if children:
            text = " ".join(each.headline for each in children[-fan_out:])
        headline = " ".join(text.split()[:HEAD_WORDS]) or "nothing"
        made.append(_Node(uuid4(), node.level, node.from_turn, node.to_turn, headline, text))
    return made


async def _insert(pool: Pool, branch: Branch, statement: str, rows: list[dict[str, Any]]) -> None:
    """Without the triggers, which look at every row."""
    async with acquired(pool) as connection, connection.transaction():
        await connection.execute("set local session_replication_role = replica")
        await connection.execute(statement, TENANT, branch.branch_uuid, stored_json.dumps(rows))
