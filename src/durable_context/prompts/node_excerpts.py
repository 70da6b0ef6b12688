"""Excerpts of nodes above the leaves: the sentences of a summary that answer the query."""

from collections.abc import Iterator
from typing import NamedTuple

from durable_context.prompts.excerpts import OF_DOCUMENT, Terms
from durable_context.prompts.retrieved import RetrievedNode
from durable_context.prompts.term_places import holds
from durable_context.redaction import redact
from durable_context.text import clean, one_line, sentences


class SentenceExcerpt(NamedTuple):
    worth: float
    order: tuple[int, int]
    text: str
    day: str = ""
    alongside: int = 1

    def line(self, *, labelled: bool, dated: bool, partial: bool) -> str:
        return f"- {self.text}\n"


def node_excerpts(node: RetrievedNode, terms: Terms) -> Iterator[SentenceExcerpt]:
    for number, sentence in enumerate(sentences(redact(clean(node.text or "")))):
        text = one_line(sentence).lstrip("-• ")
        lowered = text.lower()
        weight = sum(weight for term, weight in terms if holds(lowered, term))
        if weight > 0:
            yield SentenceExcerpt(weight + OF_DOCUMENT * node.score, (number, 0), text)
