"""Replaces secrets in text by `[redacted: kind]`, in linear time and without ever raising.

Ids, hashes and order numbers stay: a secret is known by its prefix, its place (`password=`) or its
check digit. Redacting twice changes nothing.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final

# Every pattern starts at a literal or at the start of a run of characters and repeats possessively,
# so that no text makes it look at the same characters again and again.
_PEM: Final = re.compile(
    r"-----BEGIN (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?:[^-]|-(?!----))*+-----END (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
    r"|(?:(?:\s|\\[nr])*+[A-Za-z0-9+/=]{20,}+)*+)"
)
_URL_PASSWORD: Final = re.compile(r"(?<=://)([^\s/:@\"'<>]{0,128}+:)([^\s/@\"'<>]{1,256}+)(?=@)")
_JWT: Final = re.compile(
    r"(?<![\w-])eyJ[A-Za-z0-9_-]{10,}+\.[A-Za-z0-9_-]{10,}+(?:\.[A-Za-z0-9_-]*+)?"
)
_KEYS: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"gh[opsur]_[A-Za-z0-9]{30,}+|github_pat_[A-Za-z0-9_]{22,}+|glpat-[A-Za-z0-9_-]{20,}+"
    r"|xox[a-z]-[A-Za-z0-9-]{10,}+|xapp-[A-Za-z0-9-]{20,}+"
    r"|(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])"
    r"|AIza[A-Za-z0-9_-]{35,}+|ya29\.[A-Za-z0-9_-]{20,}+|GOCSPX-[A-Za-z0-9_-]{20,}+"
    r"|(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{10,}+|whsec_[A-Za-z0-9+/=]{20,}+"
    r"|npm_[A-Za-z0-9]{30,}+|pypi-[A-Za-z0-9_-]{40,}+|hf_[A-Za-z0-9]{30,}+|dop_v1_[a-f0-9]{60,}+"
    r"|SG\.[A-Za-z0-9_-]{16,}+\.[A-Za-z0-9_-]{16,}+|shp(?:at|ca|pa|ss)_[A-Za-z0-9]{32,}+"
    r")"
)
_SK_KEY: Final = re.compile(r"(?<![A-Za-z0-9_-])sk-[A-Za-z0-9_-]{20,}+")
_LONG_RUN: Final = re.compile(r"[A-Za-z0-9]{16}")
_WEBHOOK: Final = re.compile(r"(?<=hooks\.slack\.com/services/)[A-Za-z0-9/]{10,}+")
_AUTHORIZATION: Final = re.compile(
    r"(?i:(?<![A-Za-z])(?:authorization[\"'\\]{0,4}\s{0,4}[:=]\s{0,4}[\"'\\]{0,4}(?:[a-z]{1,12}\s{1,4})?"
    r"|bearer\s{1,4}))([A-Za-z0-9._~+/=-]{8,}+)"
)
_CARD: Final = re.compile(
    r"(?<![\w.-])(?:\d{4}([ -])\d{4}\1\d{4}\1\d{1,7}|\d{4}([ -])\d{6}\2\d{4,5}|\d{13,19})(?![\w-])"
)
_ISSUER: Final = re.compile(
    r"4|5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720|3[47]|3(?:0[0-5]|[689])|35|6(?:011|5|4[4-9]|2)"
)
_LENGTHS: Final = {
    "4": (13, 16, 19),
    "5": (16,),
    "2": (16,),
    "3": (14, 15, 16),
    "6": (16, 17, 18, 19),
}

_KEYWORD: Final = (
    r"(?:(?i:(?<![A-Za-z])(?:(?P<password>pass(?:word|wd|phrase|code)|pwd|pgpassword)"
    r"|secret[_-]?(?:access[_-]?)?(?:key)?|api[_-]?key|access[_-]?key|account[_-]?key"
    r"|(?<!page_)(?<!page-)token))"
    r"|(?<=[a-z0-9])(?:Pass(?:word|phrase)|Secret(?:Key)?|ApiKey|AccessKey|(?<!age)Token))"
)
_INNER_COMMA: Final = r"[,;](?=[^\s=:,;&\"'<>(){}\[\]]{1,64}+(?:\s|$))"
_ASSIGNED: Final = re.compile(
    _KEYWORD + r"(?P<gap>\\?[\"']?\s{0,4}(?::=?|=>?)\s{0,4})(?:"
    r"\"(?P<double>(?:[^\"\\\n]|\\.)++)\"|'(?P<single>(?:[^'\\\n]|\\.)++)'"
    r"|\\\"(?P<escaped>[^\"\\\n]++)\\\"|(?P<bare>(?:[^\s\"'`,;&<>(){}\[\]|\\]++|"
    + _INNER_COMMA
    + r")++)(?P<after>.?))"
)
_OPTION: Final = re.compile(
    r"(?<=\s)--(?:password|passwd|token|secret|api-key)[ =]"
    r"(?P<bare>[^\s\"'`<>(){}\[\]$-][^\s\"'`]*+)"
)
_SAID: Final = re.compile(
    r"(?i:(?<![A-Za-z])(?:password|passphrase|passcode)\s{1,4}(?:is|was|to)\s{1,4})"
    r"[\"'`]?(?P<bare>[^\s\"'`,;<>(){}\[\]]{4,}+)"
)
_PLACEHOLDER: Final = re.compile(
    r"(?i:none|null|nil|true|false|undefined|str|string|required|optional|changed?|reset|hidden"
    r"|redacted|your[-_ ].*|os\.environ.*|process\.env.*|getenv.*|[x*•.·…#_?-]+|\$.*|%.*|<.*|\{.*)"
)
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z_.]*")

_PASSES: Final = 4
"""A secret next to another one may be seen only when that one is gone."""


def redact(text: str) -> str:
    """The text without its secrets."""
    for _ in range(_PASSES):
        redacted = _redact_once(text)
        if redacted == text:
            break
        text = redacted
    return text


def _redact_once(text: str) -> str:
    lowered = text.lower()
    for signs, pattern, replace in _RULES:
        if any(sign in lowered for sign in signs):
            text = pattern.sub(replace, text)
    return text


def _as(kind: str) -> Callable[[re.Match[str]], str]:
    return lambda _: f"[redacted: {kind}]"


def _sk_key(match: re.Match[str]) -> str:
    """`sk-` also begins words of ours and CSS classes, which hold no long mixed run."""
    found = match[0]
    random = any(c.isdigit() for c in found) and _LONG_RUN.search(found)
    return "[redacted: api key]" if random else found


def _authorization(match: re.Match[str]) -> str:
    value = match[1]
    if len(value) < 16 and not any(c.isdigit() for c in value):
        return match[0]
    return _without(match, 1, "token")


def _card(match: re.Match[str]) -> str:
    digits = match[0].replace(" ", "").replace("-", "")
    known = _ISSUER.match(digits) and len(digits) in _LENGTHS[digits[0]]
    return "[redacted: card number]" if known and _luhn(digits) else match[0]


def _luhn(digits: str) -> bool:
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (sum(map(int, digits[-1::-2])) + sum(doubled)) % 10 == 0


def _assigned(match: re.Match[str]) -> str:
    kind = "password" if match["password"] or "Pass" in match[0][:4] else "secret"
    for group in ("double", "single", "escaped"):
        if match[group] is not None:
            return (
                _without(match, group, kind) if _is_quoted_secret(match[group], kind) else match[0]
            )
    return _without(match, "bare", kind) if _is_bare_secret(match, kind) else match[0]


def _is_quoted_secret(value: str, kind: str) -> bool:
    if "[redacted:" in value or _PLACEHOLDER.fullmatch(value):
        return False
    if kind == "password":
        return True
    return len(value) >= 6 and not value.isdigit() and " " not in value.strip()


def _is_bare_secret(match: re.Match[str], kind: str) -> bool:
    """Unquoted, a value may as well be code or prose: `token = next()`, `password: unknown`."""
    value = match["bare"].rstrip(".:!?")
    if _PLACEHOLDER.fullmatch(value) or match["after"] in ("(", "["):
        return False
    if _IDENTIFIER.fullmatch(value):
        literal = match["gap"] == "=" and match["after"] not in (")", ",", ".")
        return (literal and "." not in value) or (len(value) >= 20 and "_" not in value)
    if kind == "password":
        return len(value) >= 4
    return len(value) >= 6 and not value.replace(".", "").isdigit()


def _option(match: re.Match[str]) -> str:
    return match[0] if _PLACEHOLDER.fullmatch(match["bare"]) else _without(match, "bare", "secret")


def _said(match: re.Match[str]) -> str:
    """`the password is required` is prose; a value has a digit or a sign in it."""
    if _IDENTIFIER.fullmatch(match["bare"].rstrip(".:!?-")):
        return match[0]
    return _without(match, "bare", "password")


def _without(match: re.Match[str], group: str | int, kind: str) -> str:
    start, end = (position - match.start() for position in match.span(group))
    return f"{match[0][:start]}[redacted: {kind}]{match[0][end:]}"


_RULES: Final[Sequence[tuple[tuple[str, ...], re.Pattern[str], Callable[[re.Match[str]], str]]]] = (
    # What a text must hold, in lower case, for a rule to be worth its pass over the text.
    (("private key",), _PEM, _as("private key")),
    (("://",), _URL_PASSWORD, lambda match: f"{match[1]}[redacted: password]"),
    (("eyj",), _JWT, _as("token")),
    (("_", "-", ".", "akia", "asia", "abia", "acca", "aiza"), _KEYS, _as("api key")),
    (("sk-",), _SK_KEY, _sk_key),
    (("hooks.slack.com",), _WEBHOOK, _as("token")),
    (("bearer", "authorization"), _AUTHORIZATION, _authorization),
    (("pass", "pwd", "secret", "key", "token"), _ASSIGNED, _assigned),
    (("--",), _OPTION, _option),
    (("pass",), _SAID, _said),
    (tuple("0123456789"), _CARD, _card),
)
