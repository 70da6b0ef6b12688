"""What a message asks for: words to be stemmed, terms as they are, and whether it means something
only together with what was said before.
"""

import re
from collections.abc import Iterable
from itertools import islice
from typing import Final, NamedTuple

from durable_context.absolute_dates import asked_months, named_dates
from durable_context.exact_terms import exact_terms, normalized, pairs, without_unspaced
from durable_context.small_talk import (
    COURTESIES,
    FILLERS,
    GREETINGS,
    UNSPACED_FILLERS,
    UNSPACED_GREETINGS,
)
from durable_context.summarizers.stop_words import STOP_WORDS

QUERY_CHARACTERS: Final = 10_000
QUERY_TERMS: Final = 256
"""Exact terms, dates and bigrams of a query, each kind: ranking takes time for every one."""
EXACT_WEIGHT: Final = 1.5
TERM_WEIGHT: Final = 1.0
CONTEXT_WEIGHT: Final = 0.3
"""Of what the last turns said, where the message needs it."""
SHORT: Final = 2
"""Content words up to which a message is taken to lean on what was said before."""
ELLIPTICAL: Final = 4
"""The same for one that begins or points like a continuation."""


class SearchQuery(NamedTuple):
    """`text` is to be stemmed, `terms` are taken as they are, each with its one of `weights`. With
    a `context_weight` above 0 terms of the last turns join with it.
    """

    text: str
    terms: tuple[str, ...]
    weights: tuple[float, ...]
    context_weight: float


NOTHING: Final = SearchQuery("", (), (), 0.0)
"""Of a message that asks for nothing."""


def _any_of(phrases: Iterable[str]) -> str:
    longest_first = sorted(phrases, key=lambda phrase: (-len(phrase), phrase))
    return "|".join(re.escape(phrase) for phrase in longest_first)


_COURTESY: Final = re.compile(rf"(?<![\w-])(?:{_any_of(COURTESIES)})(?![\w-])", re.IGNORECASE)
_GREETING: Final = re.compile(
    rf"(?:^|(?<=[.!?,;\n])|(?<=[.!?,;\n]\s))\s?(?:{_any_of(GREETINGS)})(?![\w'-])", re.IGNORECASE
)
_FILLER_PHRASE: Final = re.compile(
    rf"(?<![\w-])(?:{_any_of(phrase for phrase in FILLERS if ' ' in phrase)})(?![\w-])",
    re.IGNORECASE,
)
_UNSPACED_GREETING: Final = re.compile(_any_of(UNSPACED_GREETINGS))
_LAUGHTER: Final = re.compile(r"[ha]{3,}|[he]{4,}|[ja]{4,}|lo+l|h*m{2,}|wo+w|o+h+|a+h+|ye+s+|x+d+")
_FILLER_WORDS: Final = FILLERS | GREETINGS | COURTESIES
_WORD: Final = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")

_ASKING_WORDS: Final = """
why how what who whom whose when where which again else another more same other first do does did
try give show make tell say keep use take put get see need want
warum wieso wie was wer wann wo welche welcher welches wem wen noch nochmal
pourquoi comment quoi qui quand où quel quelle encore por qué cómo cuándo dónde quién cuál otra otro
perché come che cosa quando dove chi porque onde quem waarom hoe wat wanneer waar welke nog
"""
_ASKING: Final = frozenset(_ASKING_WORDS.split())
"""Stop words that ask or tell to do something, so that what was said before says what."""

_CONTINUES: Final = re.compile(
    r"\W*(?:and|but|or|so|also|then|what about|how about|what if"
    r"|und|aber|oder|also|dann|was ist mit|wie wär|wie sieht es mit"
    r"|et|mais|ou|alors|donc|qu'en est"
    r"|y|e|o|pero|entonces|ma|mas|allora|então|en|maar|dus|hoe zit het met)\b",
    re.IGNORECASE,
)
_POINTS: Final = re.compile(
    r"\b(?:it|them|ça|cela|celui|celle|ceux|celles|eso|aquello|ciò|isso|aquilo"
    r"|da(?:mit|von|zu|rüber|ran|für|gegen|bei|nach|rauf)|dieselben?|derselbe|daarvan|ervan|ermee"
    r"|dezelfde|hetzelfde)\b"
    r"|\b(?:is|was|are|were|do|does|did|about|of|like|than|for|with|to|from|on|in|after|before"
    r"|without|make|use|try|change|undo|explain|show|all) (?:that|this|those|these)\b"
    r"|\b(?:that|this|those|these|ones?|das|dies|dit|dat|die|den|ese|esa|esto|este|questo|quello"
    r"|isto|esse|essa)\W*(?:$|[?.!,])"
    r"|\bthe (?:same|former|latter|other)\b(?! (?:day|time|night|week|hand)\b)"
    r"|\b(?:the|der|die|das|den|dem|le|la|les|el|los|las|lo|il|o|a|de|het) ?"
    r"(?:first|second|third|fourth|last|next|previous|erste[nr]?|zweite[nr]?|dritte[nr]?"
    r"|letzte[nr]?|andere[nrs]?|premi[eè]re?|deuxième|seconde?|troisième|derni[eè]re?|même|autre"
    r"|primer[oa]?|segund[oa]|tercer[oa]?|últim[oa]|mism[oa]|otr[oa]|prim[oa]|second[oa]|terz[oa]"
    r"|ultim[oa]|stess[oa]|altr[oa]|primeir[oa]|outr[oa]|mesm[oa]|eerste|tweede|derde|laatste)"
    r"(?: (?:ones?|options?|points?|examples?|items?|ideas?|questions?|choices?|suggestions?))?"
    r"\W*(?:$|[?.!,])",
    re.IGNORECASE,
)
_UNSPACED_POINTS: Final = re.compile(
    "^(?:那|那么|那麼|还有|還有|但是|可是|所以|じゃあ|では|でも|それ|あと|그럼|그리고|하지만|그러면)"
    "|它|这个|那个|這個|那個|这些|那些|第[一二三四五两]|刚才|剛才|これ|あれ|その|この|番目|もう一度"
    "|그거|그건|그것|이거|이건|번째|呢$|ล่ะ$"
)


def search_query(text: str) -> SearchQuery:
    """A message that is small talk asks for nothing."""
    text = normalized(text[:QUERY_CHARACTERS]).replace("’", "'")
    spaced, runs = without_unspaced(text)
    asked = _without_small_talk(spaced)
    asked_runs = tuple(filter(None, (part for run in runs for part in _asked_runs(run))))
    exact, dates = dict.fromkeys(exact_terms(asked)), _dates(text, asked)
    words = _words(asked)
    content = [word for word in words if word not in STOP_WORDS and not _is_filler(word)]
    unspaced = sum((len(run) + 1) // 2 for run in asked_runs if run not in UNSPACED_FILLERS)
    if not (content or exact or dates or unspaced or _asks(words, asked)):
        return NOTHING
    identifiers = exact.keys() - dates
    weights = dict.fromkeys(islice(exact, QUERY_TERMS), EXACT_WEIGHT)
    weights |= dict.fromkeys(islice(dates, QUERY_TERMS), TERM_WEIGHT)
    weights |= dict.fromkeys(islice(pairs(asked_runs), QUERY_TERMS), TERM_WEIGHT)
    amount = len(set(content)) + unspaced
    leans = (amount <= SHORT and not identifiers) or (
        amount <= ELLIPTICAL and _is_elliptical(asked, asked_runs)
    )
    return SearchQuery(
        " ".join(asked.split()),
        tuple(weights),
        tuple(weights.values()),
        CONTEXT_WEIGHT if leans else 0.0,
    )


def _without_small_talk(text: str) -> str:
    return _COURTESY.sub(" ", _GREETING.sub(" ", text))


def _asked_runs(run: str) -> list[str]:
    return _UNSPACED_GREETING.split(run)


def _dates(text: str, asked: str) -> tuple[str, ...]:
    dates = (*named_dates(text), *asked_months(asked))
    years = (f"={year}" for year in _YEAR.findall(asked))
    return tuple(dict.fromkeys((*dates, *years)))


_YEAR: Final = re.compile(r"(?<![\w.,:/-])(?:19|20)\d\d(?![\w:/-])(?![.,]\d)")


def _words(text: str) -> list[str]:
    return [match.casefold() for match in _WORD.findall(text)]


def _is_filler(word: str) -> bool:
    return word in _FILLER_WORDS or _LAUGHTER.fullmatch(word) is not None


def _asks(words: list[str], asked: str) -> bool:
    """Whether stop words alone ask for something: "why?", "do it again"."""
    left = _words(_FILLER_PHRASE.sub(" ", asked))
    open_words = [word for word in left if not _is_filler(word)]
    return any(word in _ASKING for word in open_words) or (bool(open_words) and "?" in asked)


def _is_elliptical(asked: str, runs: tuple[str, ...]) -> bool:
    asked = asked.strip()
    if _CONTINUES.match(asked) or _POINTS.search(asked):
        return True
    return any(_UNSPACED_POINTS.search(run) for run in runs)
