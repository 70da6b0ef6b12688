"""Turns of an agent at work, with identifiers, dates, amounts and tool exchanges: the same for the
same seed.
"""

import json
import random
from collections.abc import Sequence
from typing import Any

from benchmarks.vocabulary import Vocabulary
from durable_context.tokens import TokenCounter

Turn = list[dict[str, Any]]

TOPIC_TURNS = 12
"""A topic lasts this long, and comes back: there are as many topics as TOPICS says."""
TOPICS = 150
TYPICAL_ROWS = 2
LARGE_ROWS = 58
"""Rows of a tool result that make a turn of about 1 KB, and one of about 8 KB."""


class Corpus:
    def __init__(self, seed: int = 1) -> None:
        self._seed = seed
        self._vocabulary = Vocabulary(seed)
        chance = random.Random(f"topics {seed}")
        self._topics = [self._vocabulary.topic(chance) for _ in range(TOPICS)]

    def turn(self, number: int, *, rows: int = TYPICAL_ROWS) -> Turn:
        """A question, a tool call, its result of so many rows, and an answer."""
        chance = random.Random(f"turn {self._seed} {number} {rows}")
        topic = self._topic(number)
        order = f"ORD-{chance.randrange(100_000, 999_999)}"
        say = self._vocabulary.sentence
        call = {
            "name": f"lookup_{topic[0]}",
            "arguments": json.dumps({"order": order, "since": _date(chance)}),
        }
        call_id = f"call_{number}_{chance.randrange(10**6)}"
        return [
            {
                "role": "user",
                "content": f"{say(chance, 14, topic)} It concerns {order}. {say(chance, 8, topic)}",
            },
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": call_id, "type": "function", "function": call}],
            },
            {
                "role": "tool",
                "tool_call_id": call_id,
                "content": json.dumps([self._row(chance, topic) for _ in range(rows)]),
            },
            {
                "role": "assistant",
                "content": f"{say(chance, 12, topic)} {order} is due on {_date(chance)} and costs"
                f" {chance.randrange(10, 9_000)}.50 EUR. {say(chance, 14, topic)}",
            },
        ]

    def message(self, number: int, turns: int, tokens: int, counter: TokenCounter) -> str:
        """A user message of so many tokens that comes back to the topic of an earlier turn."""
        chance = random.Random(f"message {self._seed} {number} {tokens}")
        topic = self._topic(chance.randrange(turns))
        return counter.truncate(self._vocabulary.sentence(chance, 2 * tokens, topic), tokens)

    def _topic(self, number: int) -> Sequence[str]:
        stretch = number // TOPIC_TURNS
        return random.Random(f"stretch {self._seed} {stretch}").choice(self._topics)

    def _row(self, chance: random.Random, topic: Sequence[str]) -> dict[str, Any]:
        return {
            "id": f"{chance.choice('ABCDEF')}{chance.randrange(10**5):05d}",
            "state": chance.choice(("open", "sent", "late", "paid", "returned")),
            "date": _date(chance),
            "note": " ".join(self._vocabulary.words(chance, 6, topic)),
        }


def _date(chance: random.Random) -> str:
    return f"2026-{chance.randrange(1, 13):02d}-{chance.randrange(1, 29):02d}"
