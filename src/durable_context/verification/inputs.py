"""What nodes were made of, computed once more: of a leaf its turns and what was told of artifacts
in them, of a node above its children as they were then.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self
from uuid import UUID

from durable_context.artifacts.mentions import TurnMentions
from durable_context.artifacts.summaries import ToldArtifact
from durable_context.store import TURN_COLUMNS, turn_from_row
from durable_context.verification.subject import Look

WAYS = 512
"""Of putting together revisions of children that are tried for one node."""

_CHILDREN = """
select n.summary_id as node, c.from_turn, c.to_turn, c.headline, c.text, c.created_at
from durable_context.summaries n
join durable_context.lineage l on l.tenant = n.tenant and l.branch_uuid = n.branch_uuid
join durable_context.summaries c on c.tenant = l.tenant and c.branch_uuid = l.ancestor_uuid
    and c.level = n.level - 1 and c.from_turn >= n.from_turn and c.to_turn <= n.to_turn
    and c.to_turn <= l.to_turn and c.state <> 'draft'
where n.tenant = $1 and n.branch_uuid = $2 and n.summary_id = any($3::uuid[])
order by c.from_turn, c.to_turn, c.created_at
"""
_TOLD = """
select a.handle, s.headline, s.text, s.token_count from durable_context.visible_artifacts a
join durable_context.artifact_summaries s
    on s.tenant = a.tenant and s.sha256 = a.sha256 and s.recipe = $5
where a.tenant = $1 and a.seen_by = $2 and a.source <> 'put' and a.turn_no between $3 and $4
"""
_HASHES = """
select content_hash from durable_context.visible_turns
where tenant = $1 and seen_by = $2 and turn_no between $3 and $4 order by turn_no
"""
_TURNS = f"""
select {TURN_COLUMNS} from durable_context.visible_turns
where tenant = $1 and seen_by = $2 and turn_no between $3 and $4 order by turn_no
"""


class Child(NamedTuple):
    """A revision of a node that another may have been made of."""

    from_turn: int
    to_turn: int
    input: bytes
    created_at: Any


class Children:
    """Of some nodes, all revisions of their children that are there."""

    def __init__(self, of: dict[UUID, list[Child]]) -> None:
        self._of = of

    @classmethod
    async def of(cls, look: Look, nodes: Sequence[Any]) -> Self:
        children: dict[UUID, list[Child]] = {}
        if nodes:
            ids = [row["summary_id"] for row in nodes]
            for row in await look.rows(_CHILDREN, ids):
                made = _prefixed(row["headline"].encode()) + _prefixed(row["text"].encode())
                child = Child(row["from_turn"], row["to_turn"], made, row["created_at"])
                children.setdefault(row["node"], []).append(child)
        return cls(children)

    def verdict(self, node: Any) -> bool | None:
        """Whether a node was made of these children. None: of revisions that are gone, perhaps."""
        children = self._of.get(node["summary_id"], [])
        tried = 0
        for made_of in _ways(children, node["from_turn"], node["to_turn"]):
            tried += 1
            if made_of == node["input_hash"]:
                return True
            if tried == WAYS:
                return None
        only = tried == 1 and len({child.from_turn for child in children}) == len(children)
        earlier = all(child.created_at <= node["created_at"] for child in children)
        return False if only and earlier else None


async def told_hash(look: Look, recipe: str, from_turn: int, to_turn: int) -> bytes | None:
    """The hash of a leaf's turns with the summaries of their artifacts that are there. None: one
    of them can be read no more, which its own hash tells.
    """
    told = await look.rows(_TOLD, from_turn, to_turn, recipe)
    mentions = TurnMentions({row[0]: ToldArtifact(*row[1:]) for row in told})
    made_of = hashlib.sha256(_prefixed(b"turns"))
    for row in await look.rows(_HASHES, from_turn, to_turn):
        made_of.update(_prefixed(row["content_hash"]))
    try:
        for row in await look.rows(_TURNS, from_turn, to_turn):
            mentions.told(turn_from_row(row))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None
    for text in mentions.texts:
        made_of.update(_prefixed(text.encode()))
    return made_of.digest()


def _ways(children: Sequence[Child], from_turn: int, to_turn: int) -> Iterator[bytes]:
    """Hashes of what children that follow each other over all these turns make."""
    begun = hashlib.sha256(_prefixed(b"nodes"))
    ways = [(from_turn, begun)]
    while ways:
        next_turn, made_of = ways.pop()
        if next_turn > to_turn:
            yield made_of.digest()
            continue
        for child in children:
            if child.from_turn == next_turn:
                longer = made_of.copy()
                longer.update(child.input)
                ways.append((child.to_turn + 1, longer))


def _prefixed(part: bytes) -> bytes:
    return len(part).to_bytes(8, "big") + part
