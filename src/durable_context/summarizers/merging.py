"""Several summary nodes as one: their headlines as skeleton, under each what says most."""

from collections.abc import Iterator, Sequence
from typing import Final

from durable_context.models import Summary
from durable_context.prompts.rendering import turns_label
from durable_context.redaction import redact
from durable_context.summarizers.attributed import TOOLS, Said, read_lines
from durable_context.summarizers.headlines import joined_headline
from durable_context.summarizers.selection import Selection, select
from durable_context.summarizers.spoken import plain_sentences, shape
from durable_context.text import clean, shorten
from durable_context.tokens import TokenCounter

_SKELETON_SHARE: Final = 0.6
_NODE_SENTENCES: Final = 120
_USER: Final = 1.1
_CALLS: Final = 0.8
_ASIDE: Final = 0.4


def merge(
    nodes: Sequence[Summary],
    cap: int,
    headline_tokens: int,
    counter: TokenCounter,
    *,
    focus: str = "",
) -> tuple[str, str]:
    """Headline and text."""
    skeleton = list(_skeleton(nodes, cap, counter))
    said = [one for group, node in enumerate(nodes) for one in _of_node(group, node)]
    acting = any(one.speaker == TOOLS for one in said)
    told = [one.text for one in skeleton]
    selection = Selection(said, fixed=skeleton, acting=acting, told=told, focus=focus)
    headline = joined_headline([node.headline for node in nodes], headline_tokens, counter)
    return headline, select(selection, cap, counter).text


def _skeleton(nodes: Sequence[Summary], cap: int, counter: TokenCounter) -> Iterator[Said]:
    share = int(cap * _SKELETON_SHARE) // max(1, len(nodes))
    for group, node in enumerate(nodes):
        label = turns_label(node.from_turn, node.to_turn)
        line = shape(redact(clean(node.headline)))
        shown = shorten(line, max(1, share - counter.count(label)), counter)
        yield Said(group, -1, label, "", "", shown)


def _of_node(group: int, node: Summary) -> Iterator[Said]:
    text = redact(clean(node.text))
    found = _written(group, text) if node.made_by.startswith("extractive") else _prose(group, text)
    for place, one in enumerate(found):
        if place == _NODE_SENTENCES:
            return
        yield one._replace(place=place)


def _written(group: int, text: str) -> Iterator[Said]:
    """Sentences of lines that we wrote ourselves; a line of calls stays whole."""
    for line in read_lines(text, group):
        if line.speaker == TOOLS:
            yield line._replace(bonus=_CALLS)
        elif not line.speaker:
            yield line._replace(bonus=_USER, rank=0)
        else:
            by_user = line.speaker == "User"
            for sentence in plain_sentences(line.text):
                bonus = _ASIDE if sentence.startswith("[") else _USER if by_user else 1.0
                yield line._replace(text=sentence, bonus=bonus, rank=0 if by_user else 1)


def _prose(group: int, text: str) -> Iterator[Said]:
    for sentence in plain_sentences(text):
        yield Said(group, 0, "", "", "", sentence, rank=0)
