"""Which of what was found a prompt shows, and what of it is quoted: the best excerpts of all blocks
together, within one cap.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from durable_context.prompts.artifact_excerpts import artifact_excerpts, artifact_head
from durable_context.prompts.block_tokens import frame_tokens
from durable_context.prompts.excerpts import Terms, message_excerpts
from durable_context.prompts.node_excerpts import node_excerpts
from durable_context.prompts.rendering import RETRIEVED_HEAD, turns_label
from durable_context.prompts.retrieved import Retrieved, RetrievedArtifact, RetrievedNode
from durable_context.redaction import redact
from durable_context.text import clean, one_line, shorten
from durable_context.tokens import TokenCounter

HEADLINE_TOKENS = 16
"""Of the headline that introduces a block: excerpts say more."""
WIDER_LABEL = 2
"""Tokens that the turns of a whole block may take more than those of its first document."""
SMALLEST_EXCERPT = 20
"""Tokens of room below which no further excerpt is tried."""


class RetrievedBlock(NamedTuple):
    """A section of the retrieved record, from documents that follow one another. Tokens without
    the record's frame.
    """

    from_turn: int
    to_turn: int
    source_ids: tuple[str, ...]
    text: str
    tokens: int


class _Excerpt(Protocol):
    """`worth` compares excerpts of all documents; `order` those of one, by turn first. `day`: when
    it was said. `alongside`: how many messages its turn has.
    """

    @property
    def worth(self) -> float: ...
    @property
    def order(self) -> tuple[int, int]: ...
    @property
    def day(self) -> str: ...
    @property
    def alongside(self) -> int: ...
    def line(self, *, labelled: bool, dated: bool, partial: bool) -> str: ...


@dataclass
class _Document:
    """Something found, with what of it is quoted so far. `head` introduces its block, once it is,
    behind the turns of all that the block shows; what stands beside the first of a block has none.
    """

    found: Retrieved
    head: str = ""
    chosen: list[_Excerpt] = field(default_factory=list[_Excerpt])

    @property
    def from_turn(self) -> int:
        found = self.found
        return found.turn_no if isinstance(found, RetrievedArtifact) else found.from_turn

    @property
    def to_turn(self) -> int:
        found = self.found
        return found.turn_no if isinstance(found, RetrievedArtifact) else found.to_turn

    @property
    def is_turns(self) -> bool:
        return isinstance(self.found, RetrievedNode) and self.found.level <= 0

    def lines(self) -> Iterator[str]:
        """The turn and the day are said where they change."""
        shown = Counter(excerpt.order[0] for excerpt in self.chosen)
        turn_no, day = 0, ""
        for excerpt in sorted(self.chosen, key=lambda each: each.order):
            number = excerpt.order[0]
            yield excerpt.line(
                labelled=number != turn_no,
                dated=excerpt.day != day,
                partial=shown[number] < excerpt.alongside,
            )
            turn_no, day = number, excerpt.day


_Offer = tuple[_Excerpt, _Document]


def retrieved_blocks(
    found: Iterable[Retrieved],
    terms: Terms,
    standing: set[str],
    *,
    blocks: int,
    max_tokens: int,
    counter: TokenCounter,
) -> list[RetrievedBlock]:
    """At most `blocks`, best first. `found` is ranked; nodes in `standing` have their text in the
    prompt already.
    """
    groups = _groups(found, standing, blocks, counter)
    documents = [document for group in groups for document in group]
    frame = frame_tokens(counter.encoding, RETRIEVED_HEAD)
    _choose(documents, terms, max_tokens - frame, counter)
    made = (_block(group, counter) for group in groups)
    return [block for block in made if block is not None]


def _groups(
    found: Iterable[Retrieved], standing: set[str], blocks: int, counter: TokenCounter
) -> list[list[_Document]]:
    """Documents in the order of their ranks. Turns that follow on those of another group join it,
    so that it takes one block to show them; a node gives way to what it covers, and of artifacts
    with one content the best is shown.
    """
    groups: list[list[_Document]] = []
    for each in found:
        document = _Document(each)
        beside = next((group for group in groups if _follows(document, group)), None)
        if beside is not None:
            beside.append(document)
        elif len(groups) < blocks and not any(_repeats(document, group) for group in groups):
            document.head = _head(each, standing, counter)
            groups.append([document])
    for group in groups:
        group.sort(key=lambda document: document.from_turn)
    return groups


def _follows(document: _Document, group: Sequence[_Document]) -> bool:
    return document.is_turns and any(
        other.is_turns
        and (other.to_turn + 1 == document.from_turn or document.to_turn + 1 == other.from_turn)
        for other in group
    )


def _repeats(document: _Document, group: Sequence[_Document]) -> bool:
    if isinstance(document.found, RetrievedArtifact):
        same = document.found.sha256
        return any(
            isinstance(other.found, RetrievedArtifact) and other.found.sha256 == same
            for other in group
        )
    return any(
        isinstance(other.found, RetrievedNode)
        and other.from_turn <= document.to_turn
        and document.from_turn <= other.to_turn
        for other in group
    )


def _head(found: Retrieved, standing: set[str], counter: TokenCounter) -> str:
    if isinstance(found, RetrievedArtifact):
        return artifact_head(found)
    if found.headline is None or found.summary_id in standing:
        return ""
    return shorten(one_line(redact(clean(found.headline))), HEADLINE_TOKENS, counter)


def _excerpts(document: _Document, terms: Terms, counter: TokenCounter) -> Iterator[_Excerpt]:
    found = document.found
    if isinstance(found, RetrievedArtifact):
        yield from artifact_excerpts(found, terms, counter)
    elif found.level > 0:
        yield from node_excerpts(found, terms)
    else:
        yield from message_excerpts(found, terms)


def _choose(documents: Sequence[_Document], terms: Terms, room: int, counter: TokenCounter) -> None:
    """The most useful excerpts that fit, whichever document they are from."""
    offered = [
        (excerpt, document)
        for document in documents
        for excerpt in _excerpts(document, terms, counter)
    ]
    for excerpt, document in _in_order(offered):
        if room < SMALLEST_EXCERPT:
            break
        tokens = _added_tokens(excerpt, document, counter)
        if 0 < tokens <= room:
            room -= tokens
            document.chosen.append(excerpt)


def _in_order(offered: Sequence[_Offer]) -> list[_Offer]:
    """The best of each document, then the rest, by worth."""
    ranked = sorted(offered, key=lambda offer: -offer[0].worth)
    first = {id(document): excerpt for excerpt, document in reversed(ranked)}
    return sorted(ranked, key=lambda offer: first[id(offer[1])] is not offer[0])


def _added_tokens(excerpt: _Excerpt, document: _Document, counter: TokenCounter) -> int:
    """0 if there is nothing to quote."""
    line = excerpt.line(
        labelled=all(other.order[0] != excerpt.order[0] for other in document.chosen),
        dated=all(other.day != excerpt.day for other in document.chosen),
        partial=True,
    )
    if not line:
        return 0
    head = 0
    if document.head and not document.chosen:
        head = counter.count(_headed([document], document.head)) + WIDER_LABEL
    return head + counter.count(line)


def _headed(documents: Sequence[_Document], head: str) -> str:
    first = min(document.from_turn for document in documents)
    last = max(document.to_turn for document in documents)
    return f"{turns_label(first, last)} {head}\n"


def _block(group: Sequence[_Document], counter: TokenCounter) -> RetrievedBlock | None:
    shown = [document for document in group if document.chosen]
    if not shown:
        return None
    heads = [_headed(shown, document.head) for document in shown if document.head]
    lines = [*heads, *(line for document in shown for line in document.lines())]
    return RetrievedBlock(
        from_turn=min(document.from_turn for document in shown),
        to_turn=max(document.to_turn for document in shown),
        source_ids=tuple(filter(None, (_source(document.found) for document in shown))),
        text="".join(lines),
        tokens=sum(map(counter.count, lines)),
    )


def _source(found: Retrieved) -> str | None:
    return found.handle if isinstance(found, RetrievedArtifact) else found.summary_id
