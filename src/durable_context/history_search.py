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
from durable_context.models import Value
from durable_context.prompts.artifact_excerpts import ArtifactPassage, artifact_passages
from durable_context.prompts.excerpts import TurnPassage, heaviest_of, turn_passages
from durable_context.prompts.query import EXCERPT_BYTES, EXCERPT_TURNS, QUERY_TERMS
from durable_context.prompts.state import RetrievedTurn
from durable_context.redaction import redact
from durable_context.text import clean, one_line
from durable_context.turns.sendable import sendable

MOST_HITS = 50
WEAKEST = 0.2
"""Share of the best hit's score below which a hit is noise, as is a passage within its hit."""
EXCERPTS = 3
"""Passages quoted from each hit."""
QUERY_CHARACTERS = 10_000
"""Of a longer query only the beginning is searched with."""

# $1 tenant, $2 branch, $3 query, $4 hits. BM25 as prompts rank by it, but whatever matches counts:
# whoever searches looks at the hits. Turns that are not indexed yet are documents, too: short ones
# against summaries, and therefore measured by their own mean length.
_SEARCH = f"""
with branch as materialized (
    select b.text_search, b.head_turn, b.indexed_documents, b.indexed_terms, (
        select coalesce(max(i.to_turn), 0)
        from durable_context.lineage l
        join durable_context.indexed_documents i on i.tenant = l.tenant
            and i.branch_uuid = l.ancestor_uuid and i.artifact_no = 0
            and i.to_turn <= l.compacted_turn
        where l.tenant = $1 and l.branch_uuid = $2
    ) as indexed_turn
    from durable_context.branches b
    where b.tenant = $1 and b.branch_uuid = $2
), lexemes as materialized (
    select l.lexeme,
        ('''' || replace(replace(l.lexeme, '\\', '\\\\'), '''', '''''') || '''')::tsquery as pattern
    from branch b, unnest(to_tsvector(b.text_search, $3)) l
    order by length(l.lexeme) desc, l.lexeme limit {QUERY_TERMS}
), fresh as materialized (
    select t.branch_uuid, t.turn_no, t.terms, (
        select sum(coalesce(cardinality(u.positions), 1)) from unnest(t.terms) u
    ) as length
    from durable_context.visible_turns t
    where t.tenant = $1 and t.seen_by = $2 and t.turn_no > (select b.indexed_turn from branch b)
        and t.terms @@ (select string_agg(l.pattern::text, ' | ')::tsquery from lexemes l)
), found as materialized (
    select p.branch_uuid, p.artifact_no, p.from_turn, p.to_turn, p.term, p.frequency, p.length,
        false as fresh
    from lexemes l
    join durable_context.visible_postings p on p.seen_by = $2 and p.term = l.lexeme
    union all
    select f.branch_uuid, 0, f.turn_no, f.turn_no, u.lexeme, coalesce(cardinality(u.positions), 1),
        f.length, true
    from fresh f, unnest(f.terms) u
    where u.lexeme in (select l.lexeme from lexemes l)
), corpus as materialized (
    select b.indexed_documents + b.head_turn - b.indexed_turn as documents,
        coalesce(
            nullif(b.indexed_terms, 0)::float8 / nullif(b.indexed_documents, 0),
            (select avg(f.length)::float8 from found f where not f.fresh)
        ) as indexed_length,
        (select avg(f.length)::float8 from fresh f) as fresh_length
    from branch b
), query as materialized (
    select f.term, ln(1 + (greatest(c.documents - count(*), 0) + 0.5::float8)
        / (count(*) + 0.5::float8)) as idf
    from found f, corpus c group by f.term, c.documents
), scored as (
    select f.branch_uuid, f.artifact_no, f.from_turn, f.to_turn, f.fresh,
        sum(q.idf * f.frequency * 2.5::float8 / (f.frequency + 1.5::float8
            * (0.25::float8 + 0.75::float8 * f.length
                / case when f.fresh then c.fresh_length else c.indexed_length end)
        ) order by f.term) as score
    from corpus c, found f join query q on q.term = f.term
    group by f.branch_uuid, f.artifact_no, f.from_turn, f.to_turn, f.fresh
), matches as materialized (
    select s.*, a.handle, a.name, a.media_type, a.size, a.line_count, a.sha256, row_number() over (
        partition by a.sha256, case when a.sha256 is null then s.to_turn end
        order by s.to_turn desc, s.artifact_no desc, s.branch_uuid
    ) as repetition
    from scored s
    left join durable_context.visible_artifacts a on s.artifact_no > 0 and a.tenant = $1
        and a.seen_by = $2 and a.artifact_no = s.artifact_no
), hits as materialized (
    select m.* from matches m
    where m.repetition = 1 and m.score >= {WEAKEST} * (select max(s.score) from scored s)
    order by m.score desc, m.to_turn desc, m.handle limit $4
)
select h.score, h.from_turn, h.to_turn, h.handle, h.name, h.media_type, h.size,
    t.headline, t.text as summary, case when h.fresh then (
        select f.digest from durable_context.visible_turns f
        where f.tenant = $1 and f.seen_by = $2 and f.turn_no = h.to_turn
    ) when h.artifact_no = 0 then (
        select s.headline from durable_context.visible_summaries s
        where s.tenant = $1 and s.seen_by = $2 and s.branch_uuid = h.branch_uuid and s.level = 0
            and s.from_turn = h.from_turn
    ) end as said,
    c.compression, c.sha256, c.data, (
        select json_agg(json_build_array(e.turn_no, e.occurred_at, e.messages) order by e.turn_no)
        from (
            select v.turn_no, v.occurred_at, v.messages
            from durable_context.visible_turns v, lateral (
                select sum(q.idf) as matched from query q join lexemes l on l.lexeme = q.term
                where v.terms @@ l.pattern
            ) m
            where h.artifact_no = 0 and v.tenant = $1 and v.seen_by = $2
                and v.turn_no between h.from_turn and h.to_turn and m.matched > 0
            order by m.matched desc, v.turn_no desc limit {EXCERPT_TURNS}
        ) e
    ) as turns,
    (select json_agg(json_build_array(q.term, q.idf)) from query q) as terms
from hits h
left join lateral (
    select t.headline, t.text from durable_context.artifact_summaries t
    where t.tenant = $1 and t.sha256 = h.sha256
    order by t.degraded, t.created_at desc, t.recipe limit 1
) t on true
left join durable_context.artifact_contents c on c.tenant = $1 and c.sha256 = h.sha256
    and c.data is not null and c.size <= {EXCERPT_BYTES} and h.line_count is not null
order by h.score desc, h.to_turn desc, h.handle
"""


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
    asked = clean(query[:QUERY_CHARACTERS])
    async with acquired(pool) as connection:
        rows = await connection.fetch(_SEARCH, tenant, branch_uuid, asked, limit)
    return await asyncio.to_thread(_hits, rows) if rows else ()


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
