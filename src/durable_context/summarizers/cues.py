"""Phrases that show a wish or that say nothing, in the languages most conversations are in.

Where they miss, a sentence is only weighed a little wrong.
"""

import re
from collections.abc import Sequence
from typing import Final


def _any(phrases: Sequence[str]) -> str:
    return "|".join(phrases)


_WISHES: Final = (
    "please|can you|could you|would you|will you|help me|let's|make sure|instead|must|should",
    "i want|i need|i'd like|i would like|i'm looking|i am looking|we need|we want",
    "fix|add|change|update|create|write|implement|remove|cancel|book|find|show|explain",
    "bitte|kannst|können sie|ich möchte|ich brauche|peux-tu|pouvez-vous|je veux|je voudrais",
    "s'il te pla[iî]t|s'il vous pla[iî]t|por favor|quiero|necesito|puedes|puede|vorrei|puoi",
)
_COURTESIES: Final = (
    "hi|hey|hello|thanks?|thank you|thx|cheers|bye|goodbye|see you|take care|good luck|my pleasure",
    "ok(?:ay)?|sure|yes|yeah|yep|no|great|perfect|awesome|wow|absolutely|certainly|of course",
    "sounds good|got it|understood|you're welcome|no problem|i appreciate|safe travels|what's up",
    "have a (?:great|nice|good|safe)|how can i (?:help|assist)|(?:is there )?anything else",
    "let me know if|happy to help|glad (?:i|to)|i'm (?:glad|happy) (?:i could|to (?:help|assist))",
    "i(?:'d| would| can|'ll| will) (?:be happy to |gladly |certainly )?(?:help|assist)",
    "how's it going|how are you|talk (?:to you )?(?:soon|later)|i'd be happy to",
    "if (?:you|there)[^.!?]{0,80}(?:help|question|assist|ask|let me know|reach out|need)",
    "(?:please |feel free|don't hesitate)[^.!?]{0,60}(?:ask|reach out|let me know)",
)
_WISH: Final = re.compile(rf"[?？]|\b(?:{_any(_WISHES)})\b", re.IGNORECASE)
_COURTESY: Final = re.compile(
    rf"\W*(?:{_any(_COURTESIES)})\b[^.!?]{{0,60}}[.!?]*\s*|\W*###\w+###\W*", re.IGNORECASE
)
_WORDY: Final = re.compile(r"[^\W_]{2,}")


def is_wish(sentence: str) -> bool:
    return _WISH.search(sentence) is not None


def is_filler(sentence: str) -> bool:
    """A courtesy, or not a word at all."""
    if len(sentence) > 200:
        return False
    return _COURTESY.fullmatch(sentence) is not None or _WORDY.search(sentence) is None
