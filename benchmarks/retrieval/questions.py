"""LoCoMo's conversations as they are recorded, and its questions with the messages that answer
them.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.traces import Half, MissingData, locomo
from durable_context.transcripts import Transcript, TranscriptTurn

JsonObject = dict[str, Any]

JOINED = "joined"
_SPEAKERS = {"user": "speaker_user", "assistant": "speaker_assistant"}


class Evidence(NamedTuple):
    """A message that a question is answered from, without the name of who said it."""

    turn_no: int
    text: str


@dataclass(frozen=True)
class Question:
    """`talk`: the conversation it was written for."""

    talk: str
    text: str
    answer: str
    category: str
    evidence: tuple[Evidence, ...]

    @property
    def turns(self) -> frozenset[int]:
        """The turns with evidence."""
        return frozenset(each.turn_no for each in self.evidence)


@dataclass(frozen=True)
class Talk:
    """A conversation, turn 1 first, and what is asked when it is over.

    Messages begin with the name of who says them, since the questions name them.
    """

    name: str
    turns: tuple[TranscriptTurn, ...]
    questions: tuple[Question, ...]


def talks(data: Path, half: Half, names: Sequence[str] = ()) -> list[Talk]:
    """The conversations of one half, or those of them that are named. Raises MissingData."""
    transcripts = locomo(data, half)
    rows = {row["conversation_id"]: row for row in _rows(data / "locomo.jsonl")}
    known = [each.name for each in transcripts]
    for name in names:
        if name not in known:
            allowed = ", ".join(known)
            raise MissingData(
                f"there is no conversation {name!r} in the half {half.value!r}; allowed: {allowed}"
            )
    return [talk(each, rows[each.name]) for each in transcripts if not names or each.name in names]


def talk(transcript: Transcript, row: Mapping[str, Any]) -> Talk:
    """`row` has the speakers, the questions, and the ids of the messages of every turn."""
    said = dict(_messages(row))
    return Talk(
        name=transcript.name,
        turns=tuple(_attributed(turn, row) for turn in transcript.turns),
        questions=tuple(
            Question(
                talk=transcript.name,
                text=asked["question"],
                answer=asked["answer"],
                category=asked["category_name"],
                evidence=tuple(said[each] for each in asked["evidence_dia_ids"]),
            )
            for asked in row["questions"]
        ),
    )


def joined(conversations: Sequence[Talk]) -> Talk:
    """All in one, one after the other, the questions at the end."""
    turns: list[TranscriptTurn] = []
    questions: list[Question] = []
    for each in conversations:
        questions += [_later(question, len(turns)) for question in each.questions]
        turns += each.turns
    return Talk(JOINED, tuple(turns), tuple(questions))


def _later(question: Question, turns: int) -> Question:
    evidence = tuple(each._replace(turn_no=each.turn_no + turns) for each in question.evidence)
    return replace(question, evidence=evidence)


def _messages(row: Mapping[str, Any]) -> Iterator[tuple[str, Evidence]]:
    """By the ids that questions name them with."""
    for turn_no, turn in enumerate(row["turns"], start=1):
        for role in _SPEAKERS:
            for message_id in turn[f"{role}_dia_ids"]:
                yield message_id, Evidence(turn_no, turn[role])


def _attributed(turn: TranscriptTurn, row: Mapping[str, Any]) -> TranscriptTurn:
    messages = tuple(
        {**message, "content": f"{row[_SPEAKERS[message['role']]]}: {message['content']}"}
        for message in turn.messages
    )
    return turn.model_copy(update={"messages": messages})


def _rows(path: Path) -> Iterator[JsonObject]:
    with path.open(encoding="utf-8") as file:
        yield from (json.loads(line) for line in file if line.strip())
