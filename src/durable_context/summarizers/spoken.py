"""What was said in turns, sentence by sentence: attributed, without markup, code and secrets."""

import re
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

from durable_context.dates import resolve_dates
from durable_context.models import Message, Turn
from durable_context.redaction import redact
from durable_context.summarizers.attributed import FILLER, Said, turn_label
from durable_context.summarizers.cues import is_filler, is_wish
from durable_context.text import clean, message_text, one_line, sentences

GOAL: Final = 1.2
ASKED: Final = 1.15
ANSWERED: Final = 1.25
SAID: Final = 1.0
NARRATED: Final = 0.8

MESSAGE_PLACES: Final = 100
"""Places that the sentences of one message have between them."""

_MESSAGE_CHARS: Final = 6_000
_MESSAGE_SENTENCES: Final = 40
_SENTENCES: Final = 400
_NAME_CHARS: Final = 40
_LIST_CHARS: Final = 160
_DECAY: Final = 0.5

_FENCE: Final = re.compile(r"\s*(?:```|~~~)\s*([\w+#.-]{0,20})")
_LEADER: Final = re.compile(r"^(?:[-*+•‣◦·>|]\s+|\(?\d{1,3}[.)]\s+|#{1,6}\s+)+")
_EMPHASIS: Final = re.compile(r"\*\*|(?<!\w)__|__(?!\w)|(?<!\w)\*(?=\w)|(?<=\w)\*(?!\w)|`")
_LINK: Final = re.compile(r"\[([^\]\n]{1,200})\]\((?=\S)[^)\n]{1,500}\)")
_JSON: Final = re.compile(r"\s*(?:\{\s*[\"'}]|\[\s*[\[{\"])")
_MARK: Final = re.compile(r"\[(turns? \d[^\]\n]{0,40})\]", re.IGNORECASE)
_INVISIBLE: Final = re.compile(
    "\x1b\\[[0-9;]{0,20}[A-Za-z]|[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]"
)
_SYMBOLS: Final = re.compile(r"[{}\[\]<>=;\\|$%^~#&*_/]")
_Item = TypeVar("_Item")
_NO_MARKS: Final = str.maketrans("", "", "[]:<>")


def said_in(turns: Sequence[Turn]) -> list[Said]:
    """At most a few hundred sentences, fairly from all messages, whatever the turns hold."""
    share = max(2, min(_MESSAGE_SENTENCES, _SENTENCES // max(1, sum(map(_spoken, turns)))))
    longest = max(4, _SENTENCES // max(1, len(turns)))
    return [
        said for group, turn in enumerate(turns) for said in _of_turn(group, turn, longest, share)
    ]


def speaker(message: Message) -> str:
    if message.name:
        name = one_line(redact(clean(message.name[:_NAME_CHARS]))).translate(_NO_MARKS)
        if name:
            return name
    return message.role.capitalize()


def plain_sentences(text: str) -> list[str]:
    """Sentences as prose: list items joined to what announces them, code and JSON named."""
    found: list[str] = []
    open_list = False
    for raw in sentences(text):
        named = _named(raw)
        sentence = named or _prose(raw)
        if not sentence:
            continue
        listed = _LEADER.match(raw) is not None
        joins = named or (listed and open_list)
        if found and joins and len(found[-1]) < _LIST_CHARS:
            joint = " " if named or found[-1].endswith((":", "：")) else "; "
            found[-1] = f"{found[-1].rstrip(';,')}{joint}{sentence}"
            continue
        found.append(sentence)
        open_list = listed or sentence.endswith((":", "："))
    return found


def shape(text: str) -> str:
    """One line without control characters or what a reader could take for a mark of ours."""
    return _MARK.sub(r"(\1)", one_line(_INVISIBLE.sub("", text)))


def ends(found: list[_Item], share: int) -> list[_Item]:
    """The beginning and the end of what is long: its middle rarely says what it is about."""
    if len(found) <= share:
        return found
    tail = share // 3
    return found[: share - tail] + found[len(found) - tail :]


def _spoken(turn: Turn) -> int:
    return sum(1 for message in turn.messages if message.role != "tool")


def _of_turn(group: int, turn: Turn, longest: int, share: int) -> Iterator[Said]:
    """Up to `share` sentences of each of the first and last messages, `longest` of them."""
    texts = [(i, m) for i, m in enumerate(turn.messages) if m.role != "tool" and m.content]
    last = max((i for i, m in texts if m.role == "assistant"), default=-1)
    label, day = turn_label(turn), turn.occurred_at.date().isoformat()
    for index, message in ends(texts, longest):
        text = resolve_dates(redact(_excerpt(clean(message_text(message)))), turn.occurred_at)
        rank = 0 if message.role == "user" else 1 if index == last else 2
        rated = _rated(turn, index, plain_sentences(text), share, last)
        for place, (sentence, bonus) in enumerate(rated, MESSAGE_PLACES * index):
            yield Said(group, place, label, day, speaker(message), sentence, bonus, rank)


def _rated(
    turn: Turn, index: int, found: list[str], share: int, last: int
) -> Iterator[tuple[str, float]]:
    """Each sentence with its bonus; in a long message the later ones count less."""
    fresh = True
    kept = ends(found, share)
    for position, text in enumerate(kept):
        bonus = _bonus(turn.messages[index], text, fresh, index == last)
        fresh = fresh and bonus == FILLER
        yield text, bonus * (1 - _DECAY * max(0, position - 2) / max(8, len(kept)))


def _bonus(message: Message, text: str, fresh: bool, last: bool) -> float:
    if is_filler(text):
        return FILLER
    if message.role == "user":
        if is_wish(text):
            return GOAL
        return ASKED if fresh else SAID
    if message.tool_calls and not last:
        return NARRATED
    return ANSWERED if last and fresh else SAID


def _excerpt(text: str) -> str:
    if len(text) <= _MESSAGE_CHARS:
        return text
    head, tail = text[: 2 * _MESSAGE_CHARS // 3], text[-_MESSAGE_CHARS // 3 :]
    return f"{head}\n{tail}"


def _named(raw: str) -> str:
    """What stands for code or JSON, or nothing."""
    fence = _FENCE.match(raw)
    if fence:
        lines = max(1, raw.count("\n") - 1)
        return f"({fence[1] or 'text'}, {lines} line{'s' if lines > 1 else ''})"
    return f"(JSON, {len(raw):,} characters)" if _JSON.match(raw) else ""


def _prose(raw: str) -> str:
    text = shape(_EMPHASIS.sub("", _LINK.sub(r"\1", _LEADER.sub("", raw))))
    symbols = len(_SYMBOLS.findall(text))
    return "" if symbols > 3 and symbols > len(text) / 9 else text
