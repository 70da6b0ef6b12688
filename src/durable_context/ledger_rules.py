"""The rules that find facts in one text: what is an identifier, a date, an amount, a decision.

Every pattern is linear: it starts at a literal or a boundary, and its repetitions are bounded.
"""

import re
from collections.abc import Iterator
from typing import Final

from durable_context.models import LedgerKind
from durable_context.text import one_line, sentences

Fact = tuple[LedgerKind, str]

LOOK_AT: Final = 16_000
"""Characters of a text that rules look at: three quarters from its start, the rest from its end."""
_VALUE_CHARS: Final = 120
_VALUE_BYTES: Final = 160
_SENTENCE_CHARS: Final = 400

_URL: Final = re.compile(
    r"(?:https?|ftp|wss?|s3|postgres(?:ql)?|redis)://[^\s<>\"'`\\|]{3,400}", re.I
)
_TOKEN: Final = re.compile(r"[^\s\"'`,;()\[\]{}<>|=*“”‘’«»、。，；：！？（）\\]+")
_EMAIL: Final = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}")
_UNIX_PATH: Final = re.compile(
    r"(?:~|\.{1,2})?(?:/[\w.@+-]{1,80}){2,20}/?|(?:~|\.{1,2})/[\w.@+-]{1,80}"
)
_RELATIVE: Final = re.compile(r"[\w.-]{1,60}(?:/[\w.@+-]{1,60}){1,20}/?")
_EXTENSIONS: Final = (
    "py|pyi|js|jsx|ts|tsx|java|go|rs|rb|php|c|h|cc|cpp|hpp|cs|swift|kt|scala|sh|bash|sql|md|rst|txt|"
    "json|jsonl|ya?ml|toml|ini|cfg|conf|env|lock|csv|tsv|xlsx?|docx?|pptx?|pdf|png|jpe?g|gif|svg|"
    "zip|tar|gz|tgz|xz|log|html?|css|xml|ipynb|img|iso|bin|exe|dll|so|whl|pem|key|proto|tf|parquet"
)
_FILE: Final = re.compile(rf"[\w.@+-]{{1,80}}\.(?:{_EXTENSIONS})(?::\d{{1,6}}){{0,2}}", re.I)
_DRIVE: Final = re.compile(r"\b[A-Za-z]:\\[^\s\"'<>|]{2,120}")

_IDENTIFIER: Final = re.compile(r"[#@]?\w{1,64}(?:[-_.:/#]{1,2}\w{1,40}){0,8}")
_HAS_LETTER: Final = re.compile(r"[^\W\d_]")
_HAS_DIGIT: Final = re.compile(r"\d")
_QUANTITY: Final = re.compile(
    r"~?[\d.]+(?:st|nd|rd|th|am|pm|[kKMGT]i?[bB]?|ms|s|h|d|m|min|hrs?|px|em|[kmc]?[mg]|x|%|er|e|º|ª)"
    r"|\d+x\d+|[\d.]+[-–]{1,2}\w{1,12}",
    re.I,
)
_NO_IDENTIFIER: Final = re.compile(
    r"(?:utf-?8|utf-?16|mp[34]|base64|sha-?\d+|md5|x86|x64|amd64|python[23]|h[1-6]|i18n|l10n|k8s|s3|"
    r"web3|covid-?19|http[s23]|ipv[46]|[\d.]+[a-z]?|\d+-\w{2,})",
    re.I,
)
_CODE: Final = re.compile(r"(?<![A-Z][A-Z][ -])\b[A-Z]{3,8}\b(?![ -][A-Z][A-Z])")
_QUOTED_CODE: Final = re.compile(r"\"([A-Z]{3,8})\"")
_COMMON_CAPITALS: Final = (
    "THE AND NOT FOR YOU ARE BUT ALL NOW YES STOP USA EST PST CST UTC GMT API URL URI SQL JSON "
    "HTML CSS XML CSV PDF HTTP HTTPS TODO FIXME NOTE NULL NONE TRUE FALSE GET PUT POST DELETE HEAD "
    "DOB FAQ LLM CPU GPU RAM DISCUSSION INSTRUCTIONS WARNING ERROR INFO DEBUG ONE ONLY"
)
_NO_CODE: Final = frozenset(_COMMON_CAPITALS.split())
_PHONE: Final = re.compile(r"\+?\d[\d-]{6,18}\d")
_ADDRESS: Final = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?(?:/\d{1,2})?")
_VERSION: Final = re.compile(
    r"v\d{1,5}(?:\.\d{1,6}){1,3}[\w.+-]{0,20}|\d{1,5}(?:\.\d{1,6}){2,3}[\w.+-]{0,20}"
)
_NAMED_VERSION: Final = re.compile(
    r"(?:\bversion|\bPython|\bNode(?:\.js)?|\bPostgreSQL|\bJava|\bRuby|\bPHP|[\w-]{2,30}[=~><]=)"
    r" ?v?\d{1,4}(?:\.\d{1,4}){0,3}\b"
)
_EXCEPTION: Final = re.compile(
    r"(?:\w{1,40}\.){0,6}[A-Z]\w{2,60}(?:Error|Exception)"
    r"|E(?:NOENT|ACCES|PERM|EXIST|CONN[A-Z]{5,7}|TIMEDOUT|ADDRINUSE|PIPE|INVAL|AGAIN|NOSPC|MFILE|BUSY"
    r"|NOTFOUND|ISDIR|NOTDIR|HOSTUNREACH|NOTEMPTY|RESOLVE)"
)
_STATUS: Final = re.compile(
    r"\b(?:HTTP(?:/\d(?:\.\d)?)? [45]\d\d|status(?: code)?:? [45]\d\d"
    r"|exit(?:ed with)? (?:code|status) [1-9]\d{0,2}|errno:? \d{1,4}"
    r"|error (?:code )?[A-Z]*-?\d{2,6})\b",
    re.I,
)
_MONEY: Final = re.compile(
    r"(?:US\$|[$€£¥₹])\s?\d[\d,.]{0,15}(?:\s?(?:k|m|bn|million|billion)\b)?"
    r"|\d[\d,.]{0,15}\s?(?:€|£|%|(?:USD|EUR|GBP|CHF|JPY|CAD|AUD|dollars?|euros?|pounds?|percent"
    r"|[kMGT]i?B|ms|seconds?|minutes?|hours?|days?|weeks?|months?|years?|kg|km|cm|mm|miles?|lbs?"
    r"|tokens?|people|passengers?|bags?|users?|rows|items|pieces|Euro|Tage|Stunden|Minuten)\b)"
)
_MONTH: Final = (
    r"(?:Jan(?:uary|uar)?|Feb(?:ruary|ruar)?|Mar(?:ch)?|März|Apr(?:il)?|May|Mai|June?|Juni|July?|Juli"
    r"|Aug(?:ust)?|Sep(?:t(?:ember)?)?|Oct(?:ober)?|Oktober|Nov(?:ember)?|Dec(?:ember)?|Dezember)"
)
_DATE: Final = re.compile(
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)?"
    rf"|\b{_MONTH}\.? \d{{1,2}}(?:st|nd|rd|th)?\b(?:,? (?:19|20)\d\d)?"
    rf"|\b\d{{1,2}}(?:st|nd|rd|th|\.)?(?: of)? {_MONTH}\b(?:,? (?:19|20)\d\d)?"
    r"|\b\d{1,2}[./]\d{1,2}[./](?:19|20)?\d\d\b"
    r"|(?:19|20)\d\d年\d{1,2}月\d{1,2}日"
)
_CLOCK: Final = re.compile(r"\b\d{1,2}(?::\d\d){0,2} ?(?:[aApP]\.?[mM]\b|Uhr\b)|\b\d{1,2}:\d\d\b")
_NAME: Final = re.compile(
    r"\"(?:first_?name|given_?name)\": ?\"([^\"]{1,30})\""
    r",? ?\"(?:last_?name|family_?name)\": ?\"([^\"]{1,30})\""
)

_DECISION: Final = re.compile(
    r"\b(?:decided|agreed (?:on|to|that)|let['’]?s (?:go|use|stick|proceed|do|keep|call|make)\b"
    r"|(?:I|we)(?:['’]ll| will) (?:use|take|go with|go for|choose|keep|stick|pay|have|need to)\b"
    r"|we(?:['’]re| are) (?:going|using)\b|going with\b|settled on\b|from now on\b"
    r"|entschieden|wir nehmen|ich nehme|wir verwenden|ab jetzt|décidé|je prends|on garde|on prend"
    r"|decidido|decidimos|vamos con|usaremos)|决定|就用|決めました|にします",
    re.I,
)
_PREFERENCE: Final = re.compile(
    r"\b(?:I(?:['’]d| would)? prefer|I (?:only |really |do not |don['’]t )?want"
    r"|I(?:['’]d| would) like|I choose"
    r"|please (?:use|always|never|proceed|go ahead|keep)|always|never|must(?: not)?"
    r"|no more than|at most|up to [$€£]|budget|only if|ich möchte|ich will|bitte immer"
    r"|nie(?:mals)?|je préfère|je veux|prefiero|quiero)\b",
    re.I,
)
_OPEN: Final = re.compile(
    r"\b(?:to-?do|fixme|still (?:needs?|have|has) to|still (?:open|missing|unclear|waiting)"
    r"|remind me|next steps?|waiting (?:for|on)|follow(?:ing)?[- ]up|don['’]t forget|remember to"
    r"|open question|not (?:yet|done)|outstanding|left to do"
    r"|noch offen|erinnere mich|muss noch"
    r"|steht noch aus|il reste à|rappelle-moi|à faire|pendiente|falta por|recuérdame)\b"
    r"|待办|提醒我|まだ",
    re.I,
)
_ERROR_TEXT: Final = re.compile(
    r"\s*(?:\{\s*\"(?:error|errors)\"\s*:\s*(?!null|false|\"\"|\[\])"
    r"|\[?(?:error|fatal|exception|failed|failure|traceback|permission denied|command not found)\b"
    r"|(?:\S+: ){1,3}(?:command not found|no such file|permission denied|error:|cannot ))",
    re.I,
)
_ERROR_LINE: Final = re.compile(
    r"^(?:\w{1,40}\.){0,6}\w{0,60}(?:Error|Exception|error)\b[: ].{3,300}", re.M
)


def facts_of(text: str) -> Iterator[Fact]:
    """Facts that any text can hold; a fact may come twice."""
    text = excerpt(text)
    if "://" in text:
        for match in _URL.finditer(text):
            yield from _sized("url", match[0].rstrip(".,;:!?)]}*_"))
        text = _URL.sub(" ", text)
    if ":\\" in text:
        yield from _matches("path", _DRIVE, text)
    if _HAS_DIGIT.search(text):
        yield from _matches("date", _DATE, text)
        yield from _matches("error", _STATUS, text)
        yield from _matches("version", _NAMED_VERSION, text)
        text = _DATE.sub(" ", text)
    for token in dict.fromkeys(_TOKEN.findall(text)):
        yield from _token_facts(token)
    for match in _NAME.finditer(text):
        yield "identifier", f"{match[1]} {match[2]}"


def said_facts(text: str) -> Iterator[Fact]:
    """Facts that count when someone says them, but not among a tool's output."""
    return _matches("amount", _MONEY, excerpt(text))


def clock_times(text: str) -> Iterator[Fact]:
    return _matches("date", _CLOCK, excerpt(text))


def codes(text: str) -> Iterator[Fact]:
    """Words in capitals that may be codes: not shouted, and not common words."""
    text = excerpt(text)
    found = dict.fromkeys(_CODE.findall(text))
    if found and len(found) <= 12:
        for word in found:
            if word not in _NO_CODE and word.lower() not in text:
                yield "identifier", word


def quoted_codes(text: str) -> Iterator[Fact]:
    """Codes that are whole values of a JSON document."""
    for match in _QUOTED_CODE.finditer(excerpt(text)):
        if match[1] not in _NO_CODE:
            yield "identifier", match[1]


def decisions(text: str, *, by_user: bool) -> Iterator[Fact]:
    """Sentences that decide something or leave it open, by cue phrase."""
    text = excerpt(text)
    decides = _DECISION.search(text) or (by_user and _PREFERENCE.search(text))
    if not decides and not _OPEN.search(text):
        return
    for sentence in sentences(text):
        if len(sentence) > _SENTENCE_CHARS:
            continue
        if _OPEN.search(sentence):
            yield "open item", _short(sentence)
        elif not sentence.endswith(("?", "？")) and (
            _DECISION.search(sentence) or (by_user and _PREFERENCE.search(sentence))
        ):
            yield "decision", _short(sentence)


def is_error(text: str) -> bool:
    """Whether a tool's result says that the call failed."""
    head = text[:2_000]
    return _ERROR_TEXT.match(head) is not None or "Traceback (most recent call last)" in head


def error_line(text: str) -> str:
    """The line of a failed call's result that says why."""
    lines = _ERROR_LINE.findall(excerpt(text))
    return _short(lines[-1] if lines else text.strip()[:_SENTENCE_CHARS])


def excerpt(text: str) -> str:
    if len(text) <= LOOK_AT:
        return text
    return f"{text[: LOOK_AT * 3 // 4]}\n{text[-LOOK_AT // 4 :]}"


def _short(sentence: str) -> str:
    """One line that fits an entry, cut at a word."""
    line = one_line(sentence.replace("**", "").replace("`", "")).lstrip("-*•#> ")
    if len(line) <= _VALUE_CHARS and len(line.encode(errors="replace")) <= _VALUE_BYTES:
        return line
    kept = line[:_VALUE_CHARS].encode(errors="replace")[: _VALUE_BYTES - 3].decode(errors="ignore")
    space = kept.rfind(" ")
    return (kept[:space] if space > len(kept) // 2 else kept).rstrip(" ,;:-") + "…"


short_value = _short


def _sized(kind: LedgerKind, value: str) -> Iterator[Fact]:
    if kind == "url" and len(value) > _VALUE_CHARS:
        value = value.split("?", 1)[0].split("#", 1)[0]
    if 1 < len(value) <= _VALUE_CHARS:
        yield kind, value


def _matches(kind: LedgerKind, pattern: re.Pattern[str], text: str) -> Iterator[Fact]:
    for match in pattern.finditer(text):
        yield kind, one_line(match[0]).rstrip(".,")


def _token_facts(token: str) -> Iterator[Fact]:
    token = token.rstrip(".:!?-_")
    if not token.startswith(("/", ".", "#", "~")):
        token = token.strip(".:!?/-_#")
    fact = _token_fact(token)
    if fact is not None:
        yield from _sized(*fact)


def _token_fact(token: str) -> Fact | None:
    if len(token) < 3 or len(token) > _VALUE_CHARS:
        return None
    if "@" in token and (email := _EMAIL.fullmatch(token)):
        return "email", email[0]
    if "/" in token and (path := _path(token)):
        return path
    if "." in token and _FILE.fullmatch(token):
        return "path", token
    if _EXCEPTION.fullmatch(token):
        return "error", token
    return _numbered_fact(token) if _HAS_DIGIT.search(token) else None


def _path(token: str) -> Fact | None:
    if _UNIX_PATH.fullmatch(token):
        return "path", token
    if _RELATIVE.fullmatch(token) and (
        token.count("/") > 1 or _FILE.fullmatch(token.rsplit("/")[-1])
    ):
        return "path", token
    return None


def _numbered_fact(token: str) -> Fact | None:
    if _ADDRESS.fullmatch(token):
        return "identifier", token
    if _VERSION.fullmatch(token):
        return "version", token
    if _QUANTITY.fullmatch(token) or _NO_IDENTIFIER.fullmatch(token):
        return ("identifier", token) if token.isdigit() and 5 <= len(token) <= 20 else None
    if _PHONE.fullmatch(token):
        return "identifier", token
    if _IDENTIFIER.fullmatch(token) and _HAS_LETTER.search(token) and len(token) <= 64:
        return "identifier", token
    return ("identifier", token) if token.startswith("#") and token[1:].isdigit() else None
