"""The rules that find facts in one text: what is an identifier, a path, a date, an amount.

Most facts are single tokens, judged once each; patterns that span tokens run only where a word they
need occurs. Every pattern is linear: repetitions are bounded.
"""

import re
from collections.abc import Iterator
from typing import Final

from durable_context.models import LedgerKind
from durable_context.text import one_line

Fact = tuple[LedgerKind, str]

_LONGEST: Final = 120
_CODES: Final = 12
"""A text with more words in capitals than this shouts."""

_URL: Final = re.compile(r"[a-z][a-z0-9+.-]{1,12}://[^\s<>\"'`\\|]{3,400}")
_TOKEN: Final = re.compile(r"[^\s\"'`,;()\[\]{}<>|=*“”‘’«»、。，；：！？（）\\]+")
_HAS_DIGIT: Final = re.compile(r"\d")
_HAS_LETTER: Final = re.compile(r"[^\W\d_]")

_EMAIL: Final = re.compile(r"(?<![\w.+'-])[\w.+'-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}")
_ROOTED_PATH: Final = re.compile(
    r"(?:(?:~|\.{1,2})?(?:/[\w.@+-]{1,80}){2,20}/?|(?:~|\.{1,2})/[\w.@+-]{1,80})(?::\d{1,6}){0,2}"
)
_RELATIVE_PATH: Final = re.compile(r"[\w.-]{1,60}(?:/[\w.@+-]{1,60}){1,20}/?(?::\d{1,6}){0,2}")
_EXTENSIONS: Final = (
    "py|pyi|js|jsx|ts|tsx|java|go|rs|rb|php|c|h|cc|cpp|hpp|cs|swift|kt|scala|sh|bash|sql|md|rst|txt"
    "|json|jsonl|ya?ml|toml|ini|cfg|conf|env|lock|csv|tsv|xlsx?|docx?|pptx?|pdf|png|jpe?g|gif|svg"
    "|zip|tar|gz|tgz|xz|log|html?|css|xml|ipynb|img|iso|bin|exe|dll|so|whl|pem|key|proto|parquet"
)
_FILE: Final = re.compile(
    rf"[\w.@+-]{{1,80}}\.(?:{_EXTENSIONS})(?::\d{{1,6}}){{0,2}}", re.IGNORECASE
)
_DRIVE_PATH: Final = re.compile(r"\b[A-Za-z]:\\[^\s\"'<>|]{2,120}")

_IDENTIFIER: Final = re.compile(r"[#@]?\w{1,64}(?:[-.:/#]{1,2}\w{1,40}){0,8}")
_NO_IDENTIFIER: Final = re.compile(
    r"~?[\d.]+(?:st|nd|rd|th|am|pm|[kmgt]i?b?|ms|s|h|d|min|hrs?|px|em|[kmc]?[mg]|x|%|er|e|º|ª)"
    r"|\d+x\d+|[\d.]+[-–/:]{1,2}\w{1,12}|[\d.]+[a-z]?"
    r"|utf-?8|utf-?16|mp[34]|base64|sha-?\d+|md5|x86|x64|amd64|python[23]|h[1-6]|i18n|l10n|k8s|s3"
    r"|web3|http[s23]|ipv[46]|(?-i:[a-z_]{2,}\d|[a-z]+[.:]\d{1,2}|.*\.[A-Z][a-z]{1,4})|\d+:[a-z_.]+",
    re.IGNORECASE,
)
_NUMBER: Final = re.compile(r"\+?\d[\d-]{5,18}\d|\d{5}|#\d{1,12}")
_ADDRESS: Final = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?(?:/\d{1,2})?")
_VERSION: Final = re.compile(
    r"v\d{1,5}(?:\.\d{1,6}){1,3}[\w.+-]{0,20}|\d{1,5}(?:\.\d{1,6}){2,3}[\w.+-]{0,20}"
)
_NAMED_VERSION: Final = re.compile(
    r"\b(?:[Vv]ersion|Python|Node(?:\.js)?|PostgreSQL|Java|Ruby|PHP) v?\d{1,4}(?:\.\d{1,4}){0,3}\b"
)
_VERSIONED: Final = frozenset(["version", "Version", "Python", "Node", "Node.js", "PostgreSQL"])
_PINNED_VERSION: Final = re.compile(r"\b[\w-]{2,30}[=~><]=v?\d{1,4}(?:\.\d{1,4}){0,3}\b")
_EXCEPTION: Final = re.compile(
    r"(?:\w{1,40}\.){0,6}[A-Z]\w{2,60}(?:Error|Exception)"
    r"|E(?:NOENT|ACCES|PERM|EXIST|CONN[A-Z]{5,7}|TIMEDOUT|ADDRINUSE|PIPE|INVAL|AGAIN|NOSPC|MFILE"
    r"|BUSY|NOTFOUND|ISDIR|NOTDIR|HOSTUNREACH|NOTEMPTY|RESOLVE)"
)
_STATUS: Final = re.compile(
    r"\b(?:HTTP(?:/\d(?:\.\d)?)? [45]\d\d|status(?: code)?:? [45]\d\d"
    r"|exit(?:ed with)? (?:code|status) [1-9]\d{0,2}|errno:? \d{1,4}"
    r"|error (?:code )?[A-Z]*-?\d{2,6})\b",
    re.IGNORECASE,
)
_STATUS_WORDS: Final = frozenset(["HTTP", "HTTP/1.1", "status", "exit", "exited", "errno", "error"])

_AMOUNT: Final = re.compile(
    r"[$€£¥￥₹\d](?:(?<=\D) ?\d[\d,.]{0,15}(?: ?(?:k|m|bn|million|billion)\b)?"
    r"|(?<=\d)(?<![\w.]\d)[\d,.]{0,15}(?<=\d) ?"
    r"(?:€|£|%|(?:USD|EUR|GBP|CHF|JPY|CAD|AUD|dollars?|euros?"
    r"|pounds?|percent|million|billion|[kMGT]i?B|ms|seconds?|minutes?|hours?|days?|weeks?|months?|years?|kg|km|cm"
    r"|mm|miles?|lbs?|tokens?|people|passengers?|bags?|users?|rows|items|pieces|Euro|Tage|Stunden"
    r"|Minuten)\b))"
)
_DATE: Final = re.compile(
    r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d)?(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)?"
    r"|\d{1,2}[./]\d{1,2}[./](?:19|20)\d\d"
)
_MONTH: Final = (
    r"(?:Jan(?:uary|uar)?|Feb(?:ruary|ruar)?|Mar(?:ch)?|März|Apr(?:il)?|May|Mai|June?|Juni|July?"
    r"|Juli|Aug(?:ust)?|Sep(?:t(?:ember)?)?|Oct(?:ober)?|Oktober|Nov(?:ember)?|De[cz](?:ember)?)"
)
_MONTH_NAMES: Final = (
    "Jan January Januar Feb February Februar Mar March März Apr April May Mai Jun June Juni Jul "
    "July Juli Aug August Sep Sept September Oct October Oktober Nov November Dec December Dezember"
)
_MONTHS: Final = frozenset(_MONTH_NAMES.split())
_WRITTEN_DATE: Final = re.compile(
    rf"\b(?:{_MONTH}\.? \d{{1,2}}(?:st|nd|rd|th)?\b(?:,? (?:19|20)\d\d)?"
    rf"|\d{{1,2}}(?:st|nd|rd|th|\.)?(?: of)? {_MONTH}\b(?:,? (?:19|20)\d\d)?)"
)
_CJK_DATE: Final = re.compile(r"(?:(?:19|20)\d\d年)?\d{1,2}月\d{1,2}[日号]")
_CJK: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
_CLOCK: Final = re.compile(r"\b\d{1,2}(?::\d\d){0,2} ?(?:[aApP]\.?[mM]\b|Uhr\b)|\b\d{1,2}:\d\d\b")

_SYMBOL: Final = re.compile(
    r"(?<![\w./-])(?=\w{0,40}(?:[a-z0-9]_[a-zA-Z]|[a-z]\.[a-z_]|[a-z][A-Z]))"
    r"[A-Za-z_]\w{2,40}(?:\.[A-Za-z_]\w{1,40}){0,4}(?![\w/])"
)
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
_QUOTED_CODE: Final = re.compile(r"\"([A-Z]{3,8})\"")
_QUOTED_CHOICE: Final = re.compile(r"\"([a-z]{2,20}(?:_[a-z]{2,20}){1,4})\"(?!\s?:)")
_QUOTED_NAME: Final = re.compile(
    r"\"(?:first_?name|given_?name)\": ?\"([^\"]{1,30})\""
    r",? ?\"(?:last_?name|family_?name)\": ?\"([^\"]{1,30})\""
)
_NO_CODES: Final = (
    "THE AND NOT FOR YOU ARE BUT ALL NOW YES STOP USA EST PST CST UTC GMT API URL URI SQL JSON "
    "HTML CSS XML CSV PDF HTTP HTTPS TODO FIXME NOTE NULL NONE TRUE FALSE GET PUT POST DELETE HEAD "
    "DOB FAQ LLM CPU GPU RAM WARNING ERROR INFO DEBUG ONE ONLY ASAP OKAY "
    "EUR USD GBP CHF JPY PLEASE NEVER ALWAYS MUST"
)
_CODE_CUE: Final = re.compile(
    r"(?:[(*\[:#]|\b(?:id|code|number|no\.?|nr\.?|ref|reference|from|to|is|key|ticket|order))"
    r" ?\**$",
    re.I,
)
_NO_CODE: Final = frozenset(_NO_CODES.split())


def facts_of(text: str) -> Iterator[Fact]:
    """Facts that any text can hold; a fact may come twice."""
    if "\\" in text and text.lstrip()[:1] in ("{", "["):
        text = _ESCAPE.sub(_unescaped, text)
    if "://" in text:
        for match in _URL.finditer(text):
            yield from _url(match[0].rstrip(".,;:!?)]}*_"))
        text = _URL.sub(" ", text)
    if "@" in text:
        for match in _EMAIL.finditer(text):
            yield "email", match[0].strip("'")
        text = _EMAIL.sub(" ", text)
    if ":\\" in text:
        yield from _matches("path", _DRIVE_PATH, text)
        text = _DRIVE_PATH.sub(" ", text)
    if not text.isascii():
        yield from _matches("date", _CJK_DATE, text)
        text = _CJK.sub(" ", text)
    yield from _facts_of_words(text)


def said_facts(text: str) -> Iterator[Fact]:
    """Facts that count when someone says them, but not among a tool's output."""
    return _matches("amount", _AMOUNT, text)


def symbols(text: str) -> Iterator[Fact]:
    """Names of code in a command: with an underscore, a dot or an inner capital."""
    for match in _SYMBOL.finditer(text):
        yield "identifier", match[0]


def clock_times(text: str) -> Iterator[Fact]:
    return _matches("date", _CLOCK, text)


def quoted_facts(text: str) -> Iterator[Fact]:
    """Codes, choices such as "round_trip" and names of people that are whole values of a JSON
    document.
    """
    for match in _QUOTED_NAME.finditer(text):
        yield "identifier", f"{match[1]} {match[2]}"
    for match in _QUOTED_CODE.finditer(text):
        if match[1] not in _NO_CODE:
            yield "identifier", match[1]
    for match in _QUOTED_CHOICE.finditer(text):
        yield "identifier", match[1]


def _facts_of_words(text: str) -> Iterator[Fact]:
    words = dict.fromkeys(_TOKEN.findall(text))
    if not _MONTHS.isdisjoint(words):
        yield from _matches("date", _WRITTEN_DATE, text)
    if not _STATUS_WORDS.isdisjoint(words):
        yield from _matches("error", _STATUS, text)
    for kind, version in _versions(text, words):
        words.pop(_TOKEN.findall(version)[-1], None)
        yield kind, version
    for word in words:
        plain = word.isalpha() or (word[:-1].isalpha() and not word[-1].isdigit())
        if not plain or "Error" in word or "Exception" in word or word[0] == "E":
            yield from _word_facts(word)
    yield from _codes(text, words)


def _versions(text: str, words: dict[str, None]) -> Iterator[Fact]:
    if not _VERSIONED.isdisjoint(words):
        yield from _matches("version", _NAMED_VERSION, text)
    if "==" in text or ">=" in text:
        yield from _matches("version", _PINNED_VERSION, text)


def _codes(text: str, words: dict[str, None]) -> Iterator[Fact]:
    """Words in capitals that are called a code or marked as one, in a text that does not shout."""
    found = [word for word in words if word.isupper()]
    found = [code for word in found if 3 <= len(code := word.rstrip(".:!?")) <= 8]
    if len(found) > _CODES:
        return
    for code in found:
        if code.isascii() and code.isalpha() and code not in _NO_CODE:
            start = text.find(code)
            if _CODE_CUE.search(text[max(0, start - 14) : start]):
                yield "identifier", code


def _matches(kind: LedgerKind, pattern: re.Pattern[str], text: str) -> Iterator[Fact]:
    for match in pattern.finditer(text):
        yield kind, one_line(match[0]).rstrip(".,")


def _unescaped(escape: re.Match[str]) -> str:
    """What an escape in a JSON string stands for, with a space for every kind of white space."""
    if escape[1]:
        return chr(int(escape[1], 16))
    return " " if escape[2] in "nrtbf" else escape[2]


def _url(url: str) -> Iterator[Fact]:
    if len(url) > _LONGEST:
        url = url.split("?", 1)[0].split("#", 1)[0]
    if len(url) <= _LONGEST:
        yield "url", url


def _word_facts(word: str) -> Iterator[Fact]:
    word = word.rstrip(".:!?-_")
    if not word.startswith(("/", ".", "#", "~", "+")):
        word = word.strip(".:!?/-_#")
    if 3 <= len(word) <= _LONGEST and (fact := _word_fact(word)):
        yield fact


def _word_fact(word: str) -> Fact | None:
    if _HAS_DIGIT.search(word):
        return _numbered_fact(word)
    if "/" in word or "." in word:
        return ("path", word) if _is_path(word) else _exception(word)
    return _exception(word)


def _exception(word: str) -> Fact | None:
    return ("error", word) if _EXCEPTION.fullmatch(word) else None


def _is_path(word: str) -> bool:
    if "/" not in word:
        return _FILE.fullmatch(word) is not None
    if _ROOTED_PATH.fullmatch(word):
        return True
    whole = _RELATIVE_PATH.fullmatch(word) is not None
    return whole and (word.count("/") > 1 or _FILE.fullmatch(word.rsplit("/")[-1]) is not None)


def _numbered_fact(word: str) -> Fact | None:
    if _DATE.fullmatch(word):
        return "date", word
    if _ADDRESS.fullmatch(word):
        return "identifier", word
    if _VERSION.fullmatch(word):
        return "version", word
    if ("/" in word or "." in word) and _is_path(word):
        return "path", word
    if _NUMBER.fullmatch(word):
        return "identifier", word
    if len(word) > 64 or _NO_IDENTIFIER.fullmatch(word) or not _HAS_LETTER.search(word):
        return None
    return ("identifier", word) if _IDENTIFIER.fullmatch(word) else _exception(word)
