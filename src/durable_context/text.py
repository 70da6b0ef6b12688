"""Plain operations on untrusted text: making it safe to store and show, splitting it into
sentences and cutting it to size.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from durable_context.artifacts.media import is_stored_part, part_reference
from durable_context.models import Message
from durable_context.tokens import TokenCounter

ELLIPSIS: Final = "…"
REPLACEMENT: Final = "\ufffd"

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_DELIMITER: Final = re.compile(r"<(?=\s{0,8}/?\s{0,8}conversation[-_\s]{0,4}record)", re.IGNORECASE)
_FENCE: Final = re.compile(r"\s{0,3}(?:```|~~~)")
_BULLET: Final = re.compile(r"\s*(?:[-*+•‣◦·–]\s|\(?\d{1,3}[.)]\s|[a-zA-Z][.)]\s|#{1,6}\s|[>|])")
_CODE: Final = re.compile(r"[;{}]$|^\s{4,}\S|^\t|\w\(\S{0,80}\)[:;{]?$|=>|\w::\w|^\s*[$>]{1,3} ")
_TERMINATOR: Final = re.compile(
    r"(?<![.!?…])[.!?…]++[\"'»”’)\]]*+(?=\s)|[。！？｡．؟۔।]++[」』”’）\"]*+"
)
_LAST_WORD: Final = re.compile(r"(\S{1,24})$")
_ABBREVIATED: Final = (
    "mr mrs ms dr prof sr jr st mt vs etc e.g i.e eg ie cf al fig no nos vol ed pp approx dept inc "
    "ltd co corp est min max tel ext rev gen sen rep gov a.m p.m u.s u.k resp "
    "z.b bzw ca usw u.a d.h ggf evtl nr str vgl inkl "
    "mme mlle m.m env p.ex av sra srta ud uds p.ej pág núm aprox dña"
)
_ABBREVIATIONS: Final = frozenset(_ABBREVIATED.split())
_LETTERED: Final = frozenset(
    [
        "option",
        "plan",
        "variant",
        "variante",
        "choice",
        "answer",
        "type",
        "class",
        "part",
        "i",
        "und",
    ]
)
_GERMAN_MONTH: Final = re.compile(
    r"\s+(?:Januar|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember)\b"
)


def clean(text: str) -> str:
    """Text that PostgreSQL stores and that cannot pass for one of our own delimiters."""
    if "\0" in text:
        text = text.replace("\0", REPLACEMENT)
    if not text.isascii():
        text = _SURROGATE.sub(REPLACEMENT, text)
    return _DELIMITER.sub("‹", text) if "<" in text else text


def clean_values(value: object) -> object:
    """The same for every text in a JSON value, keys included."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        fields = cast(dict[str, object], value)
        return {clean(key): clean_values(item) for key, item in fields.items()}
    if isinstance(value, list):
        return [clean_values(item) for item in cast(list[object], value)]
    return value


def section(text: str) -> str:
    """Text as a section of a prompt: one newline at its end, after a character that is no space.

    Token counts of sections add up exactly when each starts with `[`, `-`, `#`, `<` or an ASCII
    letter.
    """
    return text.rstrip() + "\n"


def message_text(message: Message) -> str:
    content = message.content
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(filter(None, map(_part_text, content)))


def one_line(text: str) -> str:
    return " ".join(text.split())


def shorten(text: str, max_tokens: int, counter: TokenCounter) -> str:
    """The text, or its beginning up to a sentence or word with an ellipsis, within `max_tokens`."""
    if max_tokens <= 0:
        return ""
    if counter.fits(text, max_tokens):
        return text
    kept = counter.truncate(text, max_tokens)
    while True:
        kept = kept[: _cut(kept)].rstrip()
        if not kept:
            return counter.truncate(ELLIPSIS, max_tokens)
        if counter.count(kept + ELLIPSIS) <= max_tokens:
            return kept + ELLIPSIS


def sentences(text: str) -> list[str]:
    """The sentences of a text in any language; list items, headings and code lines stand alone and
    fenced code stays one piece.
    """
    return [found for block in _blocks(text) for found in block]


def _part_text(part: Mapping[str, Any]) -> str:
    if is_stored_part(part):
        return part_reference(part)
    for key in ("text", "refusal"):
        if isinstance(part.get(key), str):
            return part[key]
    kind = str(part.get("type"))
    if "image" in kind:
        return "[image]"
    if "audio" in kind:
        return "[audio]"
    return f"[file {_file_name(part)}]"


def _file_name(part: Mapping[str, Any]) -> str:
    inner: Any = part.get("file")
    if isinstance(inner, dict):
        part = cast("dict[str, Any]", inner)
    for key in ("filename", "name", "file_id", "type"):
        if isinstance(part.get(key), str):
            return one_line(part[key])
    return "unnamed"


def _cut(text: str) -> int:
    """Where to shorten: after the last sentence when that keeps most of it, else a word."""
    ends = [end for end in _sentence_ends(text) if end >= 2 * len(text) // 3 and end < len(text)]
    if ends:
        return ends[-1]
    space = text.rfind(" ")
    return space if space > len(text) // 2 else len(text) - 1


def _blocks(text: str) -> Iterator[list[str]]:
    paragraph: list[str] = []
    fence: list[str] | None = None
    for line in text.splitlines():
        if _FENCE.match(line):
            yield _split(paragraph)
            paragraph = []
            if fence is not None:
                yield ["\n".join([*fence, line])]
                fence = None
            else:
                fence = [line]
        elif fence is not None:
            fence.append(line)
        elif _joins(paragraph, line):
            paragraph.append(line)
        else:
            yield _split(paragraph)
            paragraph = [line] if line.strip() else []
    yield _split(paragraph)
    if fence is not None:
        yield ["\n".join(fence)]


def _joins(paragraph: list[str], line: str) -> bool:
    """Whether a line goes on with the sentence of the one before it."""
    if not paragraph or not line.lstrip()[:1].islower():
        return False
    alone = paragraph[-1].lstrip().startswith("#") or _is_code(paragraph[-1])
    return not (alone or _BULLET.match(line) or _is_code(line))


def _is_code(line: str) -> bool:
    return _CODE.search(line.rstrip()) is not None


def _split(lines: list[str]) -> list[str]:
    if not lines:
        return []
    if len(lines) == 1 and _is_code(lines[0]):
        return [lines[0].strip()]
    text = " ".join(line.strip() for line in lines)
    found: list[str] = []
    start = 0
    for end in _sentence_ends(text):
        found.append(text[start:end].strip())
        start = end
    return [part for part in (*found, text[start:].strip()) if part]


def _sentence_ends(text: str) -> Iterator[int]:
    for match in _TERMINATOR.finditer(text):
        if not match[0].startswith(".") or _ends_sentence(text, match):
            yield match.end()


def _is_initial(text: str, start: int) -> bool:
    """Whether a letter stands for a name: `J. Doe`, but not `option B. The`."""
    before = text[max(0, start - 24) : start].split()
    return text[start].isalpha() and not (before and before[-1].lower() in _LETTERED)


def _ends_sentence(text: str, stop: re.Match[str]) -> bool:
    after = text[stop.end() : stop.end() + 24]
    if after.lstrip()[:1].islower():
        return False
    word = _LAST_WORD.search(text, max(0, stop.start() - 24), stop.start())
    if word is None:
        return False
    token = word[1].lower().lstrip("(\"'[«“")
    if token in _ABBREVIATIONS or (len(token) == 1 and _is_initial(text, word.start())):
        return False
    if token.isdigit() and len(token) <= 2:
        return stop.start() > len(token) and _GERMAN_MONTH.match(after) is None
    return True
