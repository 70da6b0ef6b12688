"""Answers that are no summary: error texts, refusals and chat, told by how they begin.

A conversation about errors is summarized in the third person, so what such a summary begins with,
or that it speaks of the user or the assistant, keeps it apart.
"""

import json
import re
from typing import Final

_SHORT: Final = 80
"""Words up to which a text that begins like an error is one."""

_ABOUT_SOMEBODY: Final = re.compile(
    r"\[turns? \d|\b(?:the|an?) (?:user|assistant|customer|agent)\b|^(?:user|assistant|tools)\b",
    re.IGNORECASE,
)
_PREAMBLE: Final = re.compile(
    r"(?:(?:(?:sure|certainly|of course|okay|absolutely)[,.!:]? )?here(?: is|'s|’s) (?:a|an|the"
    r"|your)(?: [\w-]{1,20}){0,3} (?:summary|recap|overview)\b[^\n:]{0,80}:\s*)+",
    re.IGNORECASE,
)
_PAGE: Final = re.compile(r"<(?:!doctype|html|head|body|\?xml)\b", re.IGNORECASE)
_OBJECT: Final = re.compile(r"\[?\s{0,9}\{\s{0,9}[\"'](?:\w|\})")
_TRACE: Final = re.compile(
    r'Traceback \(most recent|\s*at [\w.$<>]+\(|\s*File "[^"\n]{1,300}", line'
)
_ERROR: Final = re.compile(
    r"(?:\w{0,40}(?:error|exception)|failure|fatal|panic)\b(?: \d{3}| code)?\s*[:(\-–]"
    r"|(?:http )?[45]\d\d\b\s*[:\-–]?\s*(?:bad|internal|unauth|forbid|not found|too many|service"
    r"|gateway|request|error|proxy|payload|unproc|conflict|client|server)"
    r"|error code|status[_ ]code|net::err_|econn|etimedout"
    r"|(?:rate|token|usage) limit|too many requests|you(?:'ve| have)? exceeded|quota exceeded"
    r"|insufficient[_ ]quota|internal server error|bad gateway|service unavailable|gateway time"
    r"|bad request|unauthorized|forbidden|not found|upstream |(?:the )?request (?:timed|failed|was)"
    r"|connection (?:error|refused|reset|aborted|timed)|timed? ?out\b|(?:incorrect|invalid) api key"
    r"|this model|the (?:model|server|engine|service) .{0,60}(?:overloaded|not exist|error|unavail)"
    r"|maximum context|context[_ ]length|(?:failed|unable) to|could not (?:generate|summari)"
    r"|an? (?:unexpected |unknown |internal )?error|something went wrong"
    r"|\[?no (?:content|text|input|conversation|summary|messages)\b|nothing to"
    r"|(?:the )?conversation (?:is|was) empty"
    r"|summary (?:unavailable|not available|failed)|\W*(?:n/?a|none|null|undefined|todo|tbd)\W*$",
    re.IGNORECASE,
)
_REFUSAL: Final = re.compile(
    r"(?:(?:i(?:'|’)m|i am|we(?:'|’)re) (?:so |very )?sorry|sorry|apologies|i apologi[sz]e)"
    r"(?:[,.!]| (?:i|but|we|for|that|to)\b)"
    r"|i(?:'|’)?(?:m| am) (?:unable|not able|just an|an ai)|i (?:can(?:no|')t|cannot|can’t|won't)"
    r"|as an ai|es tut mir leid|tut mir leid|leider kann ich|je suis désolé|désolé|lo siento"
    r"|mi dispiace|desculpe|申し訳|抱歉|对不起|很抱歉",
    re.IGNORECASE,
)
_CHAT: Final = re.compile(
    r"(?:sure|certainly|of course|absolutely|great question|you(?:'|’)re welcome|no problem)[,.!]"
    r"|(?:hi|hey|hello)(?: there| again)?[,.!]|thanks? (?:you )?for |happy to help"
    r"|i(?:'|’)d be (?:happy|glad)|let me (?:know|help|check|look|summari)"
    r"|how can i (?:help|assist)|please (?:provide|share|send|paste|give me)"
    r"|could you (?:please )?(?:provide|share|paste)"
    r"|what would you like|is there anything",
    re.IGNORECASE,
)


def without_preamble(text: str) -> str:
    """Without a "Here is a summary:" in front of one."""
    preamble = _PREAMBLE.match(text)
    return text[preamble.end() :].lstrip() if preamble else text


def wrong_shape(text: str) -> str | None:
    """Why a text cannot be a summary, or None."""
    if not any(character.isalnum() for character in text):
        return "it is empty"
    if _PAGE.match(text):
        return "it is a page of HTML or XML"
    if _is_json(text):
        return "it is JSON, not prose"
    if _is_trace(text):
        return "it is a stack trace"
    if _REFUSAL.match(text):
        return "it is a refusal"
    if _CHAT.match(text):
        return "it answers instead of summarizing"
    if _ERROR.match(text) and _is_short(text) and not _ABOUT_SOMEBODY.search(text):
        return "it is an error text"
    return None


def _is_json(text: str) -> bool:
    if _OBJECT.match(text):
        return True
    try:
        return text[0] in "{[" and isinstance(json.loads(text), dict | list)
    except (ValueError, RecursionError):
        return False


def _is_trace(text: str) -> bool:
    """A stack trace alone, or with less prose than trace."""
    if not _TRACE.search(text):
        return False
    lines = text.splitlines()
    traced = sum(1 for line in lines if _TRACE.match(line))
    return text.startswith("Traceback (most recent") or 2 * traced > len(lines)


def _is_short(text: str) -> bool:
    return len(text.split(maxsplit=_SHORT)) <= _SHORT
