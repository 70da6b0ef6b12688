"""Makes artifacts documents of their own among the postings that retrieval ranks by: terms of their
names, their summaries and of text itself.
"""

import asyncio
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple
from uuid import UUID

from durable_context.artifacts.contents import ContentStore, StoredContent, decoded
from durable_context.artifacts.reading import is_text_type
from durable_context.database import Pool, acquired
from durable_context.errors import ArtifactDamaged
from durable_context.search_terms import SEARCHED_CHARACTERS, SearchText, search_text

INDEXED_CHARACTERS = 100_000
"""Of a text."""
TEXT_BYTES = 300_000
TERM_BYTES = 200_000
"""Of what is indexed: a tsvector over 1 MB is an error, and PostgreSQL's parser makes up to three
times the text of it.
"""
AT_ONCE = 20
_BYTES_PER_CHARACTER = 4

_UNINDEXED = """
select a.artifact_no, a.turn_no, coalesce(a.name, '') as name, a.media_type, a.line_count,
    s.headline, s.text as summary, c.sha256, c.size, c.compression, c.data, c.object_key
from durable_context.visible_artifacts a
join durable_context.artifact_contents c on c.tenant = a.tenant and c.sha256 = a.sha256
join lateral (
    select s.headline, s.text from durable_context.artifact_summaries s
    where s.tenant = a.tenant and s.sha256 = a.sha256
    order by s.recipe = $4 desc, s.degraded, s.created_at desc limit 1
) s on true
where a.tenant = $1 and a.seen_by = $2 and (a.source = 'put' or a.turn_no <= $3)
    and not exists (
        select from durable_context.lineage l join durable_context.indexed_documents i
            on i.branch_uuid = l.ancestor_uuid and i.to_turn = a.turn_no
            and i.artifact_no = a.artifact_no
        where l.branch_uuid = $2 and a.artifact_no <= l.artifact_limit
            and i.to_turn <= l.compacted_turn
    )
order by a.artifact_no limit $5
"""
_ADD = """
with document as (
    select durable_context.search_terms(b.text_search, $5, $6) as terms
    from durable_context.branches b
    where b.tenant = $1 and b.branch_uuid = $2
),
counted as (
    select u.lexeme as term, coalesce(cardinality(u.positions), 1) as frequency
    from document d cross join unnest(d.terms) u
),
added as (
    insert into durable_context.indexed_documents (
        tenant, branch_uuid, to_turn, artifact_no, from_turn, length
    )
    select $1, $2, $3, $4, $3, coalesce(sum(frequency), 0) from counted
    on conflict do nothing
    returning length
)
insert into durable_context.postings (branch_uuid, term, to_turn, artifact_no, frequency, length)
select $2, c.term, $3, $4, least(c.frequency, 32767), a.length from counted c cross join added a
"""


class _Document(NamedTuple):
    artifact_no: int
    turn_no: int
    name: str
    media_type: str
    line_count: int | None
    headline: str
    summary: str
    sha256: bytes
    size: int
    compression: str
    data: bytes | None
    object_key: str | None

    @property
    def is_text(self) -> bool:
        return self.line_count is not None or is_text_type(self.media_type)


class ArtifactIndex:
    """Artifacts of one branch as documents. `recipe`: whose summaries are preferred."""

    def __init__(
        self, pool: Pool, tenant: str, branch_uuid: UUID, contents: ContentStore, recipe: str
    ) -> None:
        self._pool = pool
        self._tenant = tenant
        self._branch = branch_uuid
        self._contents = contents
        self._recipe = recipe

    async def add(self, to_turn: int) -> None:
        """Index what has a summary and was brought by turns up to `to_turn` or put by name.

        Idempotent: an indexed artifact is passed over. Raises ArtifactStoreUnavailable.
        """
        while found := await self._unindexed(to_turn):
            for document in found:
                await self._add(document)

    async def _unindexed(self, to_turn: int) -> list[_Document]:
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                _UNINDEXED, self._tenant, self._branch, to_turn, self._recipe, AT_ONCE
            )
        return [_Document(*row) for row in rows]

    async def _add(self, document: _Document) -> None:
        text = await self._text(document) if document.is_text else ""
        said = "\n".join([document.name, document.headline, document.summary, text])
        found_by = await asyncio.to_thread(_searched, said)
        async with acquired(self._pool) as connection:
            await connection.execute(
                _ADD,
                self._tenant,
                self._branch,
                document.turn_no,
                document.artifact_no,
                found_by.text,
                "\n".join(found_by.terms),
            )

    async def _text(self, document: _Document) -> str:
        """Its beginning; of a damaged content nothing, so that at least its name is found."""
        stored = StoredContent(*document[7:])
        try:
            content = await self._contents.load(self._tenant, stored)
        except ArtifactDamaged:
            return ""
        return await asyncio.to_thread(_beginning, content)


def _beginning(content: bytes) -> str:
    return decoded(content[: _BYTES_PER_CHARACTER * INDEXED_CHARACTERS])[:INDEXED_CHARACTERS]


def _searched(said: str) -> SearchText:
    """What it is found by, of more text than is searched at once."""
    pieces = [search_text(piece) for piece in _pieces(said)]
    text = "\n".join(piece.text for piece in pieces).encode()[:TEXT_BYTES].decode(errors="ignore")
    distinct = dict.fromkeys(term for piece in pieces for term in piece.terms)
    ends = accumulate(len(term.encode()) for term in distinct)
    terms = (term for term, end in zip(distinct, ends, strict=True) if end <= TERM_BYTES)
    return SearchText(text, tuple(terms))


def _pieces(said: str) -> Iterator[str]:
    """Between words where there are any."""
    start = 0
    while start < min(len(said), INDEXED_CHARACTERS):
        piece = said[start : start + SEARCHED_CHARACTERS]
        if len(piece) == SEARCHED_CHARACTERS:
            end = max(piece.rfind(" "), piece.rfind("\n")) + 1
            piece = piece[:end] or piece
        yield piece
        start += len(piece)
