"""Excerpts of artifacts: what one is, and the lines of it that answer the query."""

from collections.abc import Iterator
from typing import NamedTuple

from durable_context.prompts.excerpts import OF_DOCUMENT, Terms
from durable_context.prompts.retrieved import RetrievedArtifact
from durable_context.prompts.term_places import holds
from durable_context.quoting import quoted
from durable_context.redaction import redact
from durable_context.text import clean, one_line, shorten
from durable_context.tokens import TokenCounter

SUMMARY_TOKENS = 150
"""Of a summary that stands for an artifact no line of which answers the query."""
PASSAGE_CHARACTERS = 480
"""Lines are quoted together up to this length; a longer line is quoted in parts."""


class ArtifactPassage(NamedTuple):
    """`text[start:end]`, which begins in line `line_no`."""

    score: float
    line_no: int
    text: str
    start: int
    end: int

    def line(self) -> str:
        """The passage on one line, without secrets."""
        return f"[line {self.line_no}] {one_line(quoted(self.text, self.start, self.end))}\n"


class LineExcerpt(NamedTuple):
    """A passage, or what the summary says, as an excerpt that competes with those of turns."""

    worth: float
    order: tuple[int, int]
    passage: ArtifactPassage | None
    summary: str
    day: str = ""
    alongside: int = 1

    def line(self, *, labelled: bool, dated: bool, partial: bool) -> str:
        return self.passage.line() if self.passage else f"- {self.summary}\n"


def artifact_excerpts(
    found: RetrievedArtifact, terms: Terms, counter: TokenCounter
) -> Iterator[LineExcerpt]:
    """Its passages that answer the query, else its summary."""
    quotes = list(artifact_passages(found.text or "", terms))
    share = OF_DOCUMENT * found.score
    for passage in quotes:
        yield LineExcerpt(passage.score + share, (passage.start, 0), passage, "")
    if not quotes and found.summary:
        summary = one_line(redact(clean(found.summary)))
        yield LineExcerpt(found.score, (0, 0), None, shorten(summary, SUMMARY_TOKENS, counter))


def artifact_head(found: RetrievedArtifact) -> str:
    name = f"{one_line(redact(clean(found.name)))}, " if found.name else ""
    about = f": {one_line(redact(clean(found.headline)))}" if found.headline else ""
    return f"artifact {found.handle} ({name}{found.media_type}, {found.size:,} bytes){about}"


def artifact_passages(text: str, terms: Terms) -> Iterator[ArtifactPassage]:
    """The passages that hold a term, in their order."""
    text = clean(text)
    for line_no, start, end in _pieces(text):
        lowered = text[start:end].lower()
        score = sum(weight for term, weight in terms if holds(lowered, term))
        if score > 0:
            yield ArtifactPassage(score, line_no, text, start, end)


def _pieces(text: str) -> Iterator[tuple[int, int, int]]:
    """Lines together up to the length of a passage: number of the first, start and end."""
    first, start, position = 1, 0, 0
    for line_no, line in enumerate(text.split("\n"), 1):
        end = position + len(line)
        if start < position and end - start > PASSAGE_CHARACTERS:
            yield first, start, position - 1
            first, start = line_no, position
        while end - start > PASSAGE_CHARACTERS:
            yield line_no, start, start + PASSAGE_CHARACTERS
            first, start = line_no, start + PASSAGE_CHARACTERS
        position = end + 1
    if start < len(text):
        yield first, start, len(text)
