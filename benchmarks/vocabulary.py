"""Made-up but believable words with the frequencies of natural language."""

import random
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

_FUNCTION: Final = (
    "the of and to a in that is was for it with as on be at by this had not are but from or "
    "have an they which one were all we when there can been if more has would about so no out "
    "who its up into than them then some could time only now do any my after also did many "
    "before must through where much should your how our still while again because"
)
_COMMON: Final = (
    "order invoice shipment customer account payment refund delivery warehouse address ticket "
    "request status update report contract supplier deadline meeting budget estimate release "
    "server database backup deploy branch error timeout queue retry cluster index table schema "
    "migration password token session user team manager engineer review comment change plan "
    "price discount currency balance transfer receipt claim policy insurance vehicle driver "
    "route depot container pallet harbour customs border permit inspection sensor battery "
    "firmware device pump valve filter pressure temperature reading alarm threshold schedule "
    "shift vacancy candidate interview offer notice reminder question answer option reason "
    "result check confirm cancel move ship receive approve reject close open write read send "
    "wait start stop fail finish increase reduce compare"
)
_PARTS: Final = (
    "air arm ash back band bank bar base bay bell bird block board boat body bolt bow box brick "
    "bridge brook cap card cart chain chalk clay cliff cloth coal coat cold copper cord cork "
    "corn court cross crown dale dawn deck deep desk dock door down draw drift drum dust east "
    "edge elm fair fall farm fast fern field fire fish flag flat flint flow foot ford fork fox "
    "frame frost gate glass gold grain grass gray green grid ground guard hall hand harp head "
    "hill hook horn house iron keel key kiln lake lamp land lane lead leaf light lime line link "
    "lock long loom main marsh mast mill mine mint moon moor moss nail neck nest net night "
    "north oak oar park path peak pin pine pipe plate pole pond pool port post rail rain reed "
    "ridge ring river road rock roof root rope salt sand shaft shed sheet shell shore side "
    "silver smith snow south span spring star steam steel stone storm stream tail tide tile "
    "timber top track tree tube wall ward water wave way west wheel white wind wing wire wood "
    "work yard"
)

WORDS: Final = 9_000
EXPONENT: Final = 1.05
"""Of Zipf's law; 1 is what is found in English."""
FUNCTION_SHARE: Final = 0.42
TOPIC_SHARE: Final = 0.3
"""Share of the other words that come from what the conversation is about at the time."""
TOPIC_WORDS: Final = 40


class Vocabulary:
    """The same words with the same weights for the same seed."""

    def __init__(self, seed: int) -> None:
        common = _COMMON.split()
        words = dict.fromkeys([*common, *_invented(random.Random(f"words {seed}"), WORDS)])
        self._words = list(words)
        self._weights = _zipf(len(self._words))
        self._from_topics = self._words[len(common) // 2 : WORDS // 2]
        self._function = _FUNCTION.split()
        self._function_weights = _zipf(len(self._function))

    def topic(self, chance: random.Random) -> Sequence[str]:
        """What a stretch of conversation keeps coming back to."""
        return chance.sample(self._from_topics, TOPIC_WORDS)

    def words(self, chance: random.Random, count: int, topic: Sequence[str]) -> list[str]:
        return [self._word(chance, topic) for _ in range(count)]

    def sentence(self, chance: random.Random, count: int, topic: Sequence[str]) -> str:
        return " ".join(self.words(chance, count, topic)).capitalize() + "."

    def _word(self, chance: random.Random, topic: Sequence[str]) -> str:
        drawn = chance.random()
        if drawn < FUNCTION_SHARE:
            return chance.choices(self._function, cum_weights=self._function_weights)[0]
        if drawn < FUNCTION_SHARE + TOPIC_SHARE * (1 - FUNCTION_SHARE):
            return topic[int(len(topic) * chance.random() ** 2)]
        return chance.choices(self._words, cum_weights=self._weights)[0]


def _zipf(count: int) -> list[float]:
    return list(accumulate(rank**-EXPONENT for rank in range(1, count + 1)))


def _invented(chance: random.Random, count: int) -> list[str]:
    """Words like names of places, parts or products, of about two tokens."""
    parts = _PARTS.split()
    return [chance.choice(parts) + chance.choice(parts) for _ in range(count)]
