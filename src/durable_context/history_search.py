"""Search in all that a branch can see: compacted turns and artifacts by their index, and turns that
no index has yet. Reads only.
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Literal
from uuid import UUID

import asyncpg

from durable_context import stored_json
from durable_context.artifacts.contents import decoded, unpack
from durable_context.database import Pool, acquired
from durable_context.errors import InvalidArgument
from durable_context.history_query import SEARCH, WEAKEST
from durable_context.models import Value
from durable_context.prompts.artifact_excerpts import ArtifactPassage, artifact_passages
from durable_context.prompts.excerpts import TurnPassage, heaviest_of, turn_passages
from durable_context.prompts.retrieved import RetrievedTurn
from durable_context.redaction import redact
from durable_context.search_queries import SearchQuery, search_query
from durable_context.text import clean, one_line
from durable_context.turns.sendable import sendable

MOST_HITS = 50
EXCERPTS = 3
"""Passages quoted from each hit."""
QUERY_CHARACTERS = 10_000
"""Of a longer query only the beginning is searched with."""


class SearchHit(Value):
    """Something that matches a query: the turns of a summary, one turn that has none yet, or an
    artifact, which its handle loads.

    `excerpts` are passages chosen for the query, in their order and without secrets.
    """

    kind: Literal["turns", "artifact"]
    from_turn: int
    to_turn: int
    handle: str | None
    headline: str
    excerpts: tuple[str, ...]
    score: float


async def search_history(
    pool: Pool, tenant: str, branch_uuid: UUID, query: str, *, limit: int = 5
) -> tuple[SearchHit, ...]:
    """At most `limit` hits, best first; among equals the newest. Raises InvalidArgument."""
    if not isinstance(query, str) or not query.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(f"query={query!r:.80}; it must be text that says what to look for")
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST_HITS:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(f"limit={limit!r:.80}; allowed are 1 to {MOST_HITS}")
    asked = _asked(query[:QUERY_CHARACTERS])
    async with acquired(pool) as connection:
        rows = await connection.fetch(
            SEARCH, tenant, branch_uuid, asked.text, asked.terms, asked.weights, limit
        )
    return await asyncio.to_thread(_hits, rows) if rows else ()


def _asked(query: str) -> SearchQuery:
    """What is looked for. Whoever searches for small talk means it."""
    asked = search_query(query)
    if asked.text.strip() or asked.terms:
        return asked
    return SearchQuery(clean(query), (), (), 0.0)


def _hits(rows: Sequence[asyncpg.Record]) -> tuple[SearchHit, ...]:
    terms = heaviest_of(dict(stored_json.loads(rows[0]["terms"])))
    return tuple(
        _turns(row, terms) if row["handle"] is None else _artifact(row, terms) for row in rows
    )


def _turns(row: asyncpg.Record, terms: Sequence[tuple[str, float]]) -> SearchHit:
    turns = [
        RetrievedTurn(
            turn_no,
            datetime.fromisoformat(occurred_at),
            0,
            tuple(sendable(stored_json.load_message(message)) for message in messages),
        )
        for turn_no, occurred_at, messages in stored_json.loads(row["turns"] or "[]")
    ]
    return _hit(row, row["said"] or "", turn_passages(turns, terms))


def _artifact(row: asyncpg.Record, terms: Sequence[tuple[str, float]]) -> SearchHit:
    text = _text(row) or row["summary"] or ""
    headline = row["headline"] or f"{row['name'] or row['media_type']}, {row['size']:,} bytes"
    return _hit(row, headline, list(artifact_passages(text, terms)))


def _text(row: asyncpg.Record) -> str | None:
    """The artifact's text, if it came along."""
    if row["data"] is None:
        return None
    return decoded(unpack(row["compression"], row["data"], row["size"], row["sha256"]))


def _hit(
    row: asyncpg.Record, headline: str, passages: Sequence[TurnPassage | ArtifactPassage]
) -> SearchHit:
    return SearchHit(
        kind="turns" if row["handle"] is None else "artifact",
        from_turn=row["from_turn"],
        to_turn=row["to_turn"],
        handle=row["handle"],
        headline=one_line(redact(clean(headline))),
        excerpts=_excerpts(passages),
        score=round(row["score"], 6),
    )


def _excerpts(passages: Sequence[TurnPassage | ArtifactPassage]) -> tuple[str, ...]:
    """The best of them, in their order."""
    ranked = sorted(enumerate(passages), key=lambda item: -item[1].score)[:EXCERPTS]
    least = WEAKEST * ranked[0][1].score if ranked else 0.0
    best = sorted((index, passage) for index, passage in ranked if passage.score >= least)
    return tuple(passage.line().strip() for _, passage in best)
