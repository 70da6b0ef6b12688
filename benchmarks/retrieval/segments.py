"""Rankings of raw segments, for comparison: BM25 in Python and PostgreSQL's own `ts_rank_cd`.

Both see the lexemes of the English configuration, any of which may match.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from benchmarks.retrieval.answers import Answer, Found
from benchmarks.retrieval.evidence import in_one_line
from benchmarks.retrieval.questions import Talk
from durable_context.database import Pool, acquired
from durable_context.tokens import TokenCounter
from durable_context.transcripts import TranscriptTurn

SEGMENT_TURNS = 6
BLOCKS = 3
K1 = 1.5
B = 0.75

_LEXEMES = """
select t.position::integer - 1 as position, l.lexeme, cardinality(l.positions) as frequency
from unnest($1::text[]) with ordinality t (text, position),
    unnest(to_tsvector('english', t.text)) l
"""

_COVER_DENSITY = f"""
with segments as materialized (
    select s.position::integer - 1 as position, to_tsvector('english', s.text) as terms
    from unnest($1::text[]) with ordinality s (text, position)
), questions as materialized (
    select q.position, (
        select string_agg('''' || replace(replace(l.lexeme, '\\', '\\\\'), '''', '''''') || '''',
            ' | ')::tsquery
        from unnest(to_tsvector('english', q.text)) l
    ) as pattern
    from unnest($2::text[]) with ordinality q (text, position)
)
select array(
    select s.position from segments s where s.terms @@ q.pattern
    order by ts_rank_cd(s.terms, q.pattern) desc, s.position limit {BLOCKS}
) as best
from questions q order by q.position
"""


class Segment(NamedTuple):
    """Turns as they were said, under the day of the first. A line is a turn and one message."""

    from_turn: int
    to_turn: int
    head: str
    lines: tuple[tuple[int, str], ...]

    @property
    def text(self) -> str:
        return self.head + "".join(line for _, line in self.lines)


def segments_of(talk: Talk) -> list[Segment]:
    return [
        _segment(first + 1, talk.turns[first : first + SEGMENT_TURNS])
        for first in range(0, len(talk.turns), SEGMENT_TURNS)
    ]


def _segment(first: int, turns: Sequence[TranscriptTurn]) -> Segment:
    day = turns[0].occurred_at
    return Segment(
        from_turn=first,
        to_turn=first + len(turns) - 1,
        head=f"[{day:%d %B %Y}]\n" if day else "",
        lines=tuple(
            (turn_no, f"{message['content']}\n")
            for turn_no, turn in enumerate(turns, start=first)
            for message in turn.messages
        ),
    )


def shown(
    segments: Sequence[Segment], counter: TokenCounter, max_tokens: int | None = None
) -> Answer:
    """Best first, each a block. The first message that does not fit ends it."""
    kept = list(segments) if max_tokens is None else list(_fitting(segments, counter, max_tokens))
    return Answer(
        tuple(Found(each.lines[0][0], each.lines[-1][0], _tokens(each, counter)) for each in kept),
        in_one_line(" ".join(each.text for each in kept)),
    )


def _fitting(
    segments: Sequence[Segment], counter: TokenCounter, max_tokens: int
) -> Iterator[Segment]:
    left = max_tokens
    for segment in segments:
        left -= counter.count(segment.head)
        fitting = 0
        for _, line in segment.lines:
            left -= counter.count(line)
            if left < 0:
                break
            fitting += 1
        if fitting:
            yield segment._replace(lines=segment.lines[:fitting])
        if left < 0:
            return


def _tokens(segment: Segment, counter: TokenCounter) -> int:
    return counter.count(segment.head) + sum(counter.count(line) for _, line in segment.lines)


async def lexemes(pool: Pool, texts: Sequence[str]) -> list[Counter[str]]:
    """How often each stands in each text."""
    counts: list[Counter[str]] = [Counter() for _ in texts]
    async with acquired(pool) as connection:
        for position, lexeme, frequency in await connection.fetch(_LEXEMES, texts):
            counts[position][lexeme] = frequency
    return counts


class Bm25:
    """Documents are named by their position."""

    def __init__(self, documents: Sequence[Mapping[str, int]]) -> None:
        self._lengths = [sum(document.values()) for document in documents]
        self._mean = sum(self._lengths) / len(documents)
        self._postings: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for position, document in enumerate(documents):
            for term, frequency in document.items():
                self._postings[term].append((position, frequency))

    def best(self, terms: Mapping[str, int], count: int = BLOCKS) -> list[int]:
        """Those that hold any of the terms."""
        scores: defaultdict[int, float] = defaultdict(float)
        for term in terms:
            postings = self._postings.get(term, ())
            idf = math.log1p((len(self._lengths) - len(postings) + 0.5) / (len(postings) + 0.5))
            for position, frequency in postings:
                norm = K1 * (1 - B + B * self._lengths[position] / self._mean)
                scores[position] += idf * frequency * (K1 + 1) / (frequency + norm)
        return sorted(scores, key=lambda position: (-scores[position], position))[:count]


async def by_bm25(pool: Pool, segments: Sequence[str], questions: Sequence[str]) -> list[list[int]]:
    """The positions of the best segments for each question."""
    index = Bm25(await lexemes(pool, segments))
    return [index.best(terms) for terms in await lexemes(pool, questions)]


async def by_cover_density(
    pool: Pool, segments: Sequence[str], questions: Sequence[str]
) -> list[list[int]]:
    async with acquired(pool) as connection:
        rows = await connection.fetch(_COVER_DENSITY, segments, questions)
    return [row["best"] for row in rows]
