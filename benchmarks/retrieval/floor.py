"""How often something is retrieved for a message that nothing in the conversation bears on."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.retrieval.answers import Answer, Asked
from benchmarks.retrieval.methods import asked_of
from benchmarks.retrieval.questions import Talk
from benchmarks.retrieval.small_talk import SMALL_TALK
from benchmarks.traces import Half, MissingData, swe, taubench

STRANGERS = 60
"""Messages of a kind that each conversation is asked at most, evenly chosen."""

GREETINGS = "small talk"
OTHER_TALKS = "questions of other conversations"
AIRLINE = "tau-bench"
CODING = "coding runs"


@dataclass
class Asking:
    """Messages of one kind; `answered` are those for which something was retrieved."""

    kind: str
    messages: int = 0
    blocks: int = 0
    answered: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    @property
    def share(self) -> float:
        return len(self.answered) / self.messages if self.messages else 0.0

    def add(self, message: str, answer: Answer) -> None:
        self.messages += 1
        self.blocks += len(answer.blocks)
        if answer.blocks:
            self.answered.append((message, answer.text))


def strangers(data: Path, half: Half) -> dict[str, list[str]]:
    """What users say to agents, of the corpora that are there, each message once."""
    found = {GREETINGS: list(SMALL_TALK)}
    for kind, read in ((AIRLINE, lambda: taubench(data, half)), (CODING, lambda: swe(data))):
        try:
            traces = read()
        except MissingData:
            continue
        said = (m for trace in traces for task in trace.tasks for m in task.messages)
        found[kind] = list(dict.fromkeys(_texts(said)))
    return found


def _texts(messages: Iterator[Mapping[str, Any]]) -> Iterator[str]:
    for message in messages:
        text = message["content"]
        if message["role"] == "user" and isinstance(text, str) and "###STOP###" not in text:
            yield text


async def ask_strangers(
    asked: Asked, others: Sequence[Talk], messages: Mapping[str, Sequence[str]]
) -> list[Asking]:
    """`others`: conversations whose questions are asked, too."""
    theirs = [question.text for talk in others for question in talk.questions]
    kinds = {**messages, OTHER_TALKS: theirs} if theirs else messages
    askings: list[Asking] = []
    for kind, texts in kinds.items():
        asking = Asking(kind)
        for text in evenly(texts, STRANGERS):
            asking.add(text, await asked_of(asked.branch, text))
        askings.append(asking)
    return askings


def evenly(texts: Sequence[str], most: int) -> list[str]:
    """At most so many, from the beginning to the end."""
    count = min(most, len(texts))
    return [texts[number * len(texts) // count] for number in range(count)]


def together(askings: Sequence[Asking]) -> list[Asking]:
    """Of all conversations, by kind."""
    kinds: dict[str, Asking] = {}
    for each in askings:
        total = kinds.setdefault(each.kind, Asking(each.kind))
        total.messages += each.messages
        total.blocks += each.blocks
        total.answered += each.answered
    return list(kinds.values())
