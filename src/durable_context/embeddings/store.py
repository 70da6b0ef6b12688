"""Vectors of a branch's leaves in PostgreSQL, where it has pgvector. See
migrations/0007_embeddings.sql.
"""

from typing import NamedTuple
from uuid import UUID

from durable_context.database import Pool, acquired
from durable_context.embeddings.vectors import vector_text
from durable_context.models import Turn
from durable_context.store import Store

_MISSING = """
select s.from_turn, s.to_turn from durable_context.summaries s
where s.tenant = $1 and s.branch_uuid = $2 and s.level = 0 and s.state = 'current'
    and s.to_turn <= $3
    and not exists (
        select from durable_context.leaf_signatures k
        where k.branch_uuid = s.branch_uuid and k.to_turn = s.to_turn and k.model = $4
            and k.from_turn = s.from_turn
    )
order by s.from_turn desc limit $5
"""
# Of leaves that began or ended elsewhere before the branch was reverted. A fork keeps what it sees,
# unless the new leaf ends at the same turn.
_CUT_OTHERWISE = """
delete from durable_context.leaf_signatures k
where k.tenant = $1 and k.branch_uuid = $2 and k.model = $3 and k.from_turn <= $5
    and k.to_turn >= $4 and (k.from_turn <> $4 or k.to_turn <> $5)
    and (k.to_turn = $5 or not exists (
        select from durable_context.lineage l
        where l.tenant = $1 and l.ancestor_uuid = $2 and l.depth > 0
            and l.compacted_turn >= k.to_turn
    ))
"""


class Leaf(NamedTuple):
    from_turn: int
    to_turn: int


class EmbeddingStore:
    """One branch and the vectors of one model. It sees only leaves that the branch made itself."""

    def __init__(self, pool: Pool, tenant: str, branch_uuid: UUID, model: str) -> None:
        self._pool = pool
        self._tenant = tenant
        self._branch = branch_uuid
        self._model = model

    async def is_available(self) -> bool:
        """Whether the database keeps vectors."""
        async with acquired(self._pool) as connection:
            return await connection.fetchval("select durable_context.keeps_embeddings()")

    async def missing(self, to_turn: int, limit: int) -> list[Leaf]:
        """Published leaves without vectors up to a turn, the newest first."""
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                _MISSING, self._tenant, self._branch, to_turn, self._model, limit
            )
        return [Leaf(*row) for row in rows]

    async def turns(self, leaf: Leaf) -> tuple[Turn, ...]:
        store = Store(self._pool, self._tenant)
        return await store.turns(self._branch, leaf.from_turn, leaf.to_turn)

    async def keep(self, leaf: Leaf, vectors: dict[int, list[float]]) -> None:
        """Keep vectors by turn, none to say that the leaf has none. What is there of it stays; what
        is there of others that had some of its turns goes.
        """
        one = (self._tenant, self._branch, self._model, leaf.from_turn, leaf.to_turn)
        async with acquired(self._pool) as connection, connection.transaction():
            await connection.execute(_CUT_OTHERWISE, *one)
            await connection.execute(
                "select durable_context.keep_embeddings($1, $2, $3, $4, $5, $6, $7)",
                *one,
                list(vectors),
                [vector_text(vector) for vector in vectors.values()],
            )
