"""One line on what turns were about: what was asked for, and the phrases that stand out."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Final

from durable_context.summarizers.salience import WORD, term_weights, terms
from durable_context.summarizers.stop_words import STOP_WORDS
from durable_context.text import one_line, shorten
from durable_context.tokens import TokenCounter

_PHRASE_WORDS: Final = 3
_PHRASE_CHARS: Final = 40
_GOAL_SHARE: Final = 0.65
_FEWEST_TOKENS: Final = 8
_URL: Final = re.compile(r"https?://\S+")
_ASIDE: Final = re.compile(r"\[[^\]\n]{0,300}\]|https?://\S+")
_NUMBER: Final = re.compile(r"[\W\d]+")
_SPOKEN: Final = re.compile(r"[^:]{1,40}: ")
_POLITE: Final = re.compile(
    r"(?:(?:hi|hey|hello|thanks|thank you|ok|okay|yes|sure|great|so|also|now|then|well)\b\W*"
    r"|i['’]?(?:d| would) like(?: you)? to |i['’]?(?:m| am) (?:looking|trying|hoping) to "
    r"|i (?:want|need)(?: you)? to |(?:can|could|would|will) you (?:still |also )?|please "
    r"|help me(?: to)? )+",
    re.IGNORECASE,
)


def goal_headline(goal: str, texts: Sequence[str], max_tokens: int, counter: TokenCounter) -> str:
    """`Book a flight to Seattle on May 20th · travel insurance, gift card`."""
    asked = _URL.sub("", one_line(goal))
    polite = _POLITE.match(asked)
    asked = (asked[polite.end() :] if polite else asked).strip(" .!?:;,") or asked
    line = shorten(asked[:1].upper() + asked[1:], int(max_tokens * _GOAL_SHARE), counter)
    topics = _phrases(texts, set(terms(asked)))
    return _filled(line, " · ", ", ", topics, max_tokens, counter)


def joined_headline(headlines: Sequence[str], max_tokens: int, counter: TokenCounter) -> str:
    """What each of the headlines begins with, or its topics where that is "Ana: I went to"."""
    starts = dict.fromkeys(re.split(r" · |; ", one_line(text), maxsplit=1)[0] for text in headlines)
    parts: Iterator[str]
    if any(_SPOKEN.match(start) for start in starts):
        parts, separator = _topics([_SPOKEN.sub("", text) for text in headlines]), ", "
    else:
        share = max(_FEWEST_TOKENS, max_tokens // max(1, len(starts))) - 1
        parts, separator = (shorten(start, share, counter) for start in starts), "; "
    line = _filled("", "", separator, parts, max_tokens, counter)
    return line or shorten(one_line(" ".join(headlines)), max_tokens, counter)


def _filled(
    line: str,
    joint: str,
    separator: str,
    parts: Iterator[str],
    max_tokens: int,
    counter: TokenCounter,
) -> str:
    for part in parts:
        longer = f"{line}{joint}{part}" if line else part
        if counter.count(longer) > max_tokens:
            break
        line, joint = longer, separator
    return line


def _topics(texts: Sequence[str]) -> Iterator[str]:
    """The best phrase of each text, then the second best of each."""
    weights = term_weights(terms(text) for text in texts)
    rows = zip_longest(*(_ranked([text], weights) for text in texts), fillvalue="")
    return _new((phrase for row in rows for phrase in row), set())


def _phrases(texts: Sequence[str], said: set[str]) -> Iterator[str]:
    return _new(_ranked(texts, term_weights(terms(text) for text in texts)), said)


def _new(phrases: Iterable[str], said: set[str]) -> Iterator[str]:
    """Those that share no term with `said` or an earlier one."""
    for phrase in phrases:
        bag = set(terms(phrase))
        if bag and not bag & said:
            said |= bag
            yield phrase


def _ranked(texts: Sequence[str], weights: dict[str, float]) -> list[str]:
    counts: Counter[str] = Counter()
    first: dict[str, str] = {}
    for text in texts:
        for phrase in _runs(text):
            counts[phrase.casefold()] += 1
            first.setdefault(phrase.casefold(), phrase)
    scores = {
        key: sum(weights.get(term, 0.0) for term in sorted(set(terms(key))))
        * (1 + 0.5 * (count - 1))
        for key, count in counts.items()
    }
    return [first[key] for key in sorted(scores, key=lambda key: (-scores[key], key))]


def _runs(text: str) -> Iterator[str]:
    """Words that follow each other with no stop word or punctuation between them: the last three,
    which in most languages name the thing.
    """
    text = _ASIDE.sub(";", text)
    run: list[str] = []
    end = -2
    for match in WORD.finditer(text):
        joins = match.start() == end + 1
        telling = _is_telling(match[0])
        if run and not (joins and telling):
            yield " ".join(run[-_PHRASE_WORDS:])
            run = []
        if telling:
            run.append(match[0][:_PHRASE_CHARS])
        end = match.end()
    if run:
        yield " ".join(run[-_PHRASE_WORDS:])


def _is_telling(word: str) -> bool:
    """Neither a stop word, a bare number, nor an English adverb."""
    folded = word.lower()
    adverb = len(folded) > 5 and folded.endswith("ly")
    return folded not in STOP_WORDS and not _NUMBER.fullmatch(word) and not adverb
