"""The rules that read sentences: decisions and open items by cue phrase, and errors of calls.

Cues are matched against lower-case text: patterns that ignore case are three times slower.
"""

import re
from collections.abc import Iterator
from typing import Final

from durable_context.models import LedgerKind
from durable_context.text import ELLIPSIS, one_line, sentences

LOOK_AT: Final = 16_000
"""Characters of a text that rules look at: three quarters from its start, the rest from its end."""
_VALUE_CHARS: Final = 120
_VALUE_BYTES: Final = 160
_SENTENCE_CHARS: Final = 400

_DECISION: Final = re.compile(
    r"\b(?:decided|agreed (?:on|to|that)"
    r"|let['’]?s (?:go (?:with|for|ahead)|use|stick|proceed|do (?:it|th))"
    r"|i(?:['’]ll| will) (?:use|take|go with|go for|choose|stick with|pay)\b"
    r"|we(?:['’]ll| will) (?:use|take|go with|go for|choose|stick with|pay)\b"
    r"|we(?:['’]re| are) (?:going with|using)\b|going with\b|settled on\b|from now on\b"
    r"|entschieden|wir nehmen|ich nehme|wir verwenden|ab jetzt|décidé|je prends|on garde|on prend"
    r"|decidido|decidimos|vamos con|usaremos)|决定|就用|決めました|にします"
)
_PREFERENCE: Final = re.compile(
    r"\bi(?:['’]d| would)? prefer|\bi (?:do not|don['’]t) want|\bi choose"
    r"|\bi (?:only |really )?want (?:the|an?|it|only|no|to (?:use|pay|keep|book|change|cancel|add"
    r"|remove|switch|upgrade|go with|fly|stay|avoid))\b|\bi(?:['’]d| would) like (?:the|an?|to)\b"
    r"|\bplease (?:use|always|never|proceed|go ahead|keep)\b|^(?:\d+[.)] )?(?:always|never)\b"
    r"|\byou (?:should |must )?(?:always|never|must)\b|\bmust not\b|\bno more than\b|\bat most\b"
    r"|\bup to [$€£]|\bmy budget\b|\bbudget of\b|\bonly if\b"
    r"|\bich möchte\b|\bich will\b|\bbitte immer\b"
    r"|\bje préfère\b|\bje veux\b|\bprefiero\b|\bquiero\b"
)
_OPEN: Final = re.compile(
    r"\b(?:to-?do|fixme|still (?:needs?|have|has) to|still (?:open|missing|unclear|waiting)"
    r"|remind me|next steps?|waiting (?:for|on)|follow(?:ing)?[- ]up|don['’]t forget|remember to"
    r"|open question|not (?:yet|done)|outstanding|left to do|noch offen|erinnere mich|muss noch"
    r"|steht noch aus|il reste à|rappelle-moi|à faire|pendiente|falta por|recuérdame)\b"
    r"|待办|提醒我|まだ"
)
_ERROR: Final = re.compile(
    r"\s*(?:\{\s*\"(?:error|errors)\"\s*:\s*(?!null|false|\"\"|\[\])"
    r"|\[?(?:error|fatal|exception|failed|failure|traceback|permission denied|command not found)\b"
    r"|(?:\S{1,80}: ){1,3}(?:command not found|no such file|permission denied|error:|cannot ))"
)
_ERROR_LINE: Final = re.compile(
    r"^(?:\w{1,40}\.){0,6}\w{0,60}(?:Error|Exception|error)\b[: ].{3,300}", re.MULTILINE
)


def decisions(text: str, *, by_user: bool) -> Iterator[tuple[LedgerKind, str]]:
    """Sentences that decide something or leave it open."""
    text = excerpt(text)
    lowered = text.lower()
    if not _OPEN.search(lowered) and not _decides(lowered, by_user):
        return
    for sentence in sentences(text):
        lowered = sentence.lower()
        if len(sentence) > _SENTENCE_CHARS:
            continue
        if _OPEN.search(lowered):
            yield "open item", short_line(sentence)
        elif not sentence.endswith(("?", "？")) and _decides(lowered, by_user):
            yield "decision", short_line(sentence)


def is_error(text: str) -> bool:
    """Whether a tool's result says that the call failed."""
    head = text[:2_000].lower()
    return _ERROR.match(head) is not None or "traceback (most recent call last)" in head


def error_line(text: str) -> str:
    """The line of a failed call's result that says why."""
    lines = _ERROR_LINE.findall(excerpt(text))
    return short_line(lines[-1] if lines else text.strip()[:_SENTENCE_CHARS])


def short_line(text: str) -> str:
    """One line that fits a ledger entry, cut at a word."""
    line = one_line(text.replace("**", "").replace("`", "")).lstrip("-*•#> ")
    if len(line) <= _VALUE_CHARS and len(line.encode(errors="replace")) <= _VALUE_BYTES:
        return line
    kept = line[:_VALUE_CHARS].encode(errors="replace")[: _VALUE_BYTES - 3].decode(errors="ignore")
    space = kept.rfind(" ")
    return (kept[:space] if space > len(kept) // 2 else kept).rstrip(" ,;:-") + ELLIPSIS


def excerpt(text: str) -> str:
    if len(text) <= LOOK_AT:
        return text
    return f"{text[: LOOK_AT * 3 // 4]}\n{text[-LOOK_AT // 4 :]}"


def _decides(lowered: str, by_user: bool) -> bool:
    return bool(_DECISION.search(lowered) or (by_user and _PREFERENCE.search(lowered)))
