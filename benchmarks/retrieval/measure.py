"""Records and compacts the conversations, asks every method every question, and scores it."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.database import Database, Report, compact, silence
from benchmarks.retrieval.answers import Asked, Method, Tally, score
from benchmarks.retrieval.floor import Asking, ask_strangers, together
from benchmarks.retrieval.methods import METHODS, OURS
from benchmarks.retrieval.misses import Miss, is_missed
from benchmarks.retrieval.questions import Talk


@dataclass
class Measured:
    """`asked` names conversation and question, in the order of every tally's scores. `floor`:
    messages that should retrieve nothing.
    """

    corpus: str
    conversations: int = 0
    turns: int = 0
    seconds: float = 0.0
    asked: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    tallies: dict[str, Tally] = field(default_factory=dict[str, Tally])
    floor: list[Asking] = field(default_factory=list[Asking])
    misses: list[Miss] = field(default_factory=list[Miss])


async def measure(
    database: Database,
    corpus: str,
    talks: Sequence[Talk],
    strangers: Mapping[str, Sequence[str]],
    report: Report,
    methods: Mapping[str, Method] = METHODS,
) -> Measured:
    measured = Measured(corpus)
    askings: list[Asking] = []
    begun = time.perf_counter()
    for talk in talks:
        asked = await recorded(database, talk)
        report(f"{talk.name}: {len(talk.turns):,} turns recorded and compacted")
        for name, method in methods.items():
            await _answer(asked, name, method, measured)
        report(f"{talk.name}: {len(talk.questions):,} questions asked")
        measured.asked += [(question.talk, question.text) for question in talk.questions]
        others = [other for other in talks if other is not talk]
        askings += await ask_strangers(asked, others, strangers)
        measured.conversations += 1
        measured.turns += len(talk.turns)
    measured.floor = together(askings)
    measured.seconds = time.perf_counter() - begun
    return measured


async def recorded(database: Database, talk: Talk) -> Asked:
    """A branch as the product makes it, everything that is due compacted."""
    branch = await database.client(fast=True).open_branch(talk.name)
    for turn in talk.turns:
        await branch.record_turn(turn.messages, occurred_at=turn.occurred_at)
    await compact(database.not_waiting, branch, silence)
    return Asked(database, branch, talk)


async def _answer(asked: Asked, name: str, method: Method, into: Measured) -> None:
    tally = into.tallies.setdefault(name, Tally([]))
    answers = await method(asked)
    for question, answer in zip(asked.talk.questions, answers, strict=True):
        tally.scores.append(score(question, answer))
        if name == OURS and is_missed(question, answer):
            into.misses.append(Miss(question, answer))
