"""What a message asks for: words to be stemmed, terms as they are, and whether it means something
only together with what was said before.
"""

import re
from collections.abc import Sequence
from itertools import islice
from typing import Final, NamedTuple

from durable_context.absolute_dates import (
    asked_months,
    day_numbers,
    named_dates,
    without_dates,
)
from durable_context.exact_terms import exact_terms, folded, normalized, pairs, without_unspaced
from durable_context.small_talk import (
    UNSPACED_FILLERS,
    UNSPACED_GREETINGS,
    WORD,
    Kind,
    small_talk,
)
from durable_context.summarizers.stop_words import STOP_WORDS

QUERY_CHARACTERS: Final = 10_000
QUERY_TERMS: Final = 256
"""Exact terms, dates and bigrams of a query, each kind: ranking takes time for every one."""
EXACT_WEIGHT: Final = 1.5
TERM_WEIGHT: Final = 1.0
COARSE_WEIGHT: Final = 0.5
"""Of the month and the year of a day, which may be all that was said of it."""
CONTEXT_WEIGHT: Final = 0.3
"""Of what the last turn said, where the message points at it ..."""
SHORT_WEIGHT: Final = 0.2
"""... and where it is short: if nobody has said what it says, it is about something else."""
SHORT: Final = 2
"""Content words up to which a message is taken to lean on what was said before ..."""
SHORT_WORDS: Final = 3
"""... unless it is a sentence: "What did Ada paint?" says what it is about."""
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


_CLAUSE: Final = re.compile(r"[^.!?,;:\n()]+[.!?,;:\n()]*|[.!?,;:\n()]+")
_UNSPACED_GREETING: Final = re.compile(
    "|".join(sorted(UNSPACED_GREETINGS, key=lambda phrase: (-len(phrase), phrase)))
)
_YEAR: Final = re.compile(r"=(?:19|20)\d\d")

_ASKING_WORDS: Final = """
why how what who whom whose when where which again else another more same other first one ones do
does did try give show make tell say keep use take put get see need want
warum wieso wie was wer wann wo welche welcher welches wem wen noch nochmal
pourquoi comment quoi qui quand où quel quelle encore por qué cómo cuándo dónde quién cuál otra otro
perché come che cosa quando dove chi porque onde quem waarom hoe wat wanneer waar welke nog
"""
_ASKING: Final = frozenset(_ASKING_WORDS.split())
"""Stop words that ask or tell to do something, so that what was said before says what."""

_POINTING_WORDS: Final = """
first second third fourth fifth next previous last other same former latter
erste ersten erster zweite zweiten zweiter dritte dritten dritter letzte letzten letzter andere
premier première deuxième seconde troisième dernier dernière primero primera segundo segunda tercero
último última primo prima secondo seconda terzo ultimo ultima primeiro primeira eerste tweede derde
"""
_MARKS: Final = ".,:;!?()\"'"
_SAYS_NOTHING: Final = STOP_WORDS | _ASKING | frozenset(_POINTING_WORDS.split())
"""Words of a message that leans: what they point at is said elsewhere."""

_CONTINUES: Final = re.compile(
    r"\W*(?:and|but|or|so|also|then|what about|how about|what if"
    r"|und|aber|oder|dann|was ist mit|wie wär|wie sieht es mit"
    r"|et|mais|ou|alors|donc|qu'en est"
    r"|y|e|pero|entonces|ma|mas|allora|então|maar|dus|hoe zit het met)(?=[\s,?.!]|$)",
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
    text = normalized(text[:QUERY_CHARACTERS])[:QUERY_CHARACTERS].replace("’", "'")
    spaced, runs = without_unspaced(text)
    asked, content, asks = _asked(spaced)
    parts = (part for run in runs for part in _UNSPACED_GREETING.split(run))
    asked_runs = tuple(part for part in parts if part and part not in UNSPACED_FILLERS)
    exact = dict.fromkeys(exact_terms(asked))
    if any(len(term) <= len("=31") for term in exact):
        days = day_numbers(asked)
        exact = {term: None for term in exact if term not in days}
    dates = dict.fromkeys(
        (*named_dates(text), *asked_months(asked), *filter(_YEAR.fullmatch, exact))
    )
    unspaced = sum(map(_word_count, asked_runs))
    if not (asks or content or exact or dates or unspaced):
        return NOTHING
    weights = dict.fromkeys(islice(exact, QUERY_TERMS), EXACT_WEIGHT)
    for term in islice(dates, QUERY_TERMS):
        finer = any(other != term and other.startswith(term) for other in dates)
        weights[term] = COARSE_WEIGHT if finer else TERM_WEIGHT
    weights |= dict.fromkeys(islice(pairs(asked_runs), QUERY_TERMS), TERM_WEIGHT)
    amount = len(content) + unspaced
    is_short = amount <= SHORT and len(WORD.findall(asked)) <= SHORT_WORDS
    if amount <= ELLIPTICAL and _is_elliptical(asked, asked_runs):
        context_weight = CONTEXT_WEIGHT
    else:
        short = is_short and not exact and not dates
        context_weight = SHORT_WEIGHT if short else 0.0
    text = without_dates(asked, dates) if dates else asked
    if context_weight:
        text = " ".join(word for word in text.split() if not _says_nothing(word))
    return SearchQuery(folded(text), tuple(weights), tuple(weights.values()), context_weight)


def _says_nothing(word: str) -> bool:
    return word.strip(_MARKS).casefold() in _SAYS_NOTHING


def _asked(text: str) -> tuple[str, set[str], bool]:
    """The text without small talk, its content words, and whether stop words alone ask something:
    "why?", "do it again".
    """
    content, asks, kept = set[str](), False, list[str]()
    for clause in _CLAUSE.findall(text):
        words: list[str] = WORD.findall(clause.casefold())
        kinds = small_talk(words)
        if not kinds:
            content.update(words)
            asks = asks or _asks(words, clause)
            kept.append(clause)
            continue
        left = [word for word, kind in zip(words, kinds, strict=True) if kind is None]
        asks_here = _asks(left, clause)
        is_filler = not asks_here and STOP_WORDS.issuperset(left)
        content.update(left)
        asks = asks or asks_here
        if not is_filler:
            kept.append(_without(clause, kinds) if "polite" in kinds else clause)
    content -= STOP_WORDS
    return " ".join("".join(kept).split()), content, asks


def _asks(words: Sequence[str], clause: str) -> bool:
    return bool(words) and ("?" in clause or not _ASKING.isdisjoint(words))


def _without(clause: str, kinds: Sequence[Kind | None]) -> str:
    """A clause without its polite words."""
    kept, end = list[str](), 0
    for match, kind in zip(WORD.finditer(clause), kinds, strict=False):
        if kind == "polite":
            kept.append(clause[end : match.start()])
            end = match.end()
    return " ".join([*kept, clause[end:]])


def _word_count(run: str) -> int:
    """About how many words: Korean has spaces between them, others have words of two characters."""
    return 1 if "\uac00" <= run[0] <= "\ud7a3" else (len(run) + 1) // 2


def _is_elliptical(asked: str, runs: tuple[str, ...]) -> bool:
    asked = asked.strip()
    if _CONTINUES.match(asked) or _POINTS.search(asked):
        return True
    return any(_UNSPACED_POINTS.search(run) for run in runs)
