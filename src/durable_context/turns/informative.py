"""Which sentences of a message tell most: requests and facts, not greetings and courtesies."""

import re
from typing import Final

from durable_context.text import one_line, sentences, shorten
from durable_context.tokens import TokenCounter

_LOOK_AT: Final = 12_000
_PIECES: Final = 300
_RANKED: Final = 24
_JUDGED: Final = 400
"""Characters of a sentence that are judged."""
_LONG: Final = 12
"""A message of more sentences than this says what it is about at its start."""
_COURTESY: Final = re.compile(
    r"(?:hi|hello|hey|dear|thanks?|thank you|sure|ok(?:ay)?|great|perfect|got it|of course"
    r"|certainly|good (?:morning|afternoon|evening)|yes|no|sorry|you['’]re welcome"
    r"|i(?:['’]m| am) (?:happy|glad|here) to|i hope|hallo|guten (?:tag|morgen)|danke|bonjour|merci"
    r"|hola|gracias|buenos días)\b"
    r"|.{0,80}\b(?:feel free|let me know|anything else|further questions|(?:further|any) assistance"
    r"|safe travels|have a (?:great|nice)|melden sie sich|n'hésitez pas|no dudes)\b",
    re.IGNORECASE,
)
_REQUEST: Final = re.compile(
    r"\b(?:please|need|want|would like|can you|could you|help|how|what|why|when|which|where|who"
    r"|fix|add|make|write|find|change|cancel|book|update|create|show|tell|bitte|möchte|kannst|wie"
    r"|warum|peux|pouvez|voudrais|comment|pourquoi|puedes|quiero|necesito|cómo)\b|[?？]",
    re.IGNORECASE,
)
_RESULT: Final = re.compile(
    r"\b(?:has been|have been|is now|successfully|booked|created|updated|fixed|done|sent|found"
    r"|added|removed|cancell?ed|deployed|failed|cannot|can['’]t|unable|because|total|cost|wurde"
    r"|erledigt|a été|terminé|hecho|listo)\b",
    re.IGNORECASE,
)
_FACT: Final = re.compile(r"\d[\d.,:/-]{0,30}|[`\"“][^`\"”]{2,60}[`\"”]|\w[_/@]\w")
_MARKUP: Final = re.compile(r"\*\*|`{1,3}|^\s*#{1,6}\s+|^\s*[-*•>]\s+|^\s*\d{1,2}[.)]\s+")


def pieces_of(text: str) -> list[str]:
    """The sentences of a message without markup; code only when there is nothing else."""
    found = [piece for piece in sentences(text[:_LOOK_AT])[:_PIECES] if _says_something(piece)]
    prose = [piece for piece in found if not piece.lstrip().startswith(("```", "~~~"))]
    pieces = [one_line(_MARKUP.sub("", piece)) for piece in prose or found]
    return [_ended(piece) for piece in pieces[:-1]] + pieces[-1:]


def chosen(pieces: list[str], room: int, counter: TokenCounter, *, asked: bool) -> str:
    """The most informative pieces that fit, in their own order, or a part of the best one."""
    scores = [_score(piece, index, len(pieces), asked) for index, piece in enumerate(pieces)]
    ranked = sorted(range(len(pieces)), key=lambda index: (-scores[index], index))
    kept: list[int] = []
    for index in ranked[:_RANKED]:
        if kept and scores[index] < 1:
            break
        size = counter.count(" " + pieces[index])
        if size <= room:
            kept.append(index)
            room -= size
        elif not kept:
            return shorten(pieces[index], room, counter)
    return " ".join(pieces[index] for index in sorted(kept))


def _says_something(piece: str) -> bool:
    return any(map(str.isalnum, piece))


def _ended(piece: str) -> str:
    return piece if piece.endswith((".", "!", "?", ":", "。", "！", "？", "…")) else piece + ";"


def _score(piece: str, index: int, count: int, asked: bool) -> float:
    head = piece[:_JUDGED]
    words = head.count(" ") + 1
    score = 0.6 * min(4, len(_FACT.findall(head))) + min(16, words) / 8
    score += 2.5 / (1 + index / 2) if count <= _LONG else 8 / (1 + index / 3)
    if index == count - 1:
        score += 1
    if (_REQUEST if asked else _RESULT).search(head):
        score += 2
    if words < 16 and _COURTESY.match(head):
        score -= 5
    return score
