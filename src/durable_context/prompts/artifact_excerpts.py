"""Retrieved blocks of artifacts: what one is, and the lines of it that answer the query."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from durable_context.prompts.excerpts import SMALLEST_PASSAGE, RetrievedBlock, heaviest_of
from durable_context.prompts.rendering import FOOT, RETRIEVED_HEAD, turns_label
from durable_context.prompts.state import RetrievedArtifact
from durable_context.quoting import quoted
from durable_context.redaction import redact
from durable_context.text import clean, one_line, shorten
from durable_context.tokens import TokenCounter

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


def artifact_block(
    found: RetrievedArtifact,
    terms: Mapping[str, float],
    *,
    max_tokens: int,
    counter: TokenCounter,
) -> RetrievedBlock | None:
    """The artifact's best passages in their order, else its summary; None if neither fits."""
    head = f"{RETRIEVED_HEAD}{turns_label(found.turn_no, found.turn_no)} {_described(found)}\n"
    room = max_tokens - counter.count(head) - counter.count(FOOT)
    body = _quoted(found, heaviest_of(terms), room, counter) or _summed_up(found, room, counter)
    if not body:
        return None
    tokens = counter.count(head) + sum(counter.count(line) for line in body) + counter.count(FOOT)
    text = head + "".join(body) + FOOT
    return RetrievedBlock(found.turn_no, found.turn_no, found.handle, text, tokens)


def _described(found: RetrievedArtifact) -> str:
    name = f"{one_line(clean(found.name))}, " if found.name else ""
    about = f": {one_line(redact(clean(found.headline)))}" if found.headline else ""
    return f"artifact {found.handle} ({name}{found.media_type}, {found.size:,} bytes){about}"


def _quoted(
    found: RetrievedArtifact,
    terms: Sequence[tuple[str, float]],
    room: int,
    counter: TokenCounter,
) -> list[str]:
    chosen: list[tuple[int, str]] = []
    for passage in sorted(artifact_passages(found.text or "", terms), key=lambda p: -p.score):
        if room < SMALLEST_PASSAGE:
            break
        line = passage.line()
        size = counter.count(line)
        if size <= room:
            room -= size
            chosen.append((passage.start, line))
    return [line for _, line in sorted(chosen)]


def artifact_passages(text: str, terms: Sequence[tuple[str, float]]) -> Iterator[ArtifactPassage]:
    """The passages that hold a term, in their order."""
    text = clean(text)
    for line_no, start, end in _pieces(text):
        lowered = text[start:end].lower()
        score = sum(weight for term, weight in terms if term in lowered)
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


def _summed_up(found: RetrievedArtifact, room: int, counter: TokenCounter) -> list[str]:
    if not found.summary or room < SMALLEST_PASSAGE:
        return []
    text = shorten(one_line(redact(clean(found.summary))), room - 2, counter)
    line = f"- {text}\n"
    return [line] if counter.count(line) <= room else []
