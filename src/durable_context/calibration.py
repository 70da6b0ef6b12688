"""How many tokens a model of another family makes of a text, in terms of what the branch counts.

The factor starts at what no tokenizer measured exceeds, and follows what callers report in `usage`:
it is at least the highest ratio seen of late and a tenth more, and the start weighs as much as four
reports. A lower report narrows it by little, a higher one widens it at once. It is never below 1.

It is kept by kind of text, since scripts differ more than models do. Tokens by the tokenizer over
tokens by o200k_base (over cl100k_base), measured on 2026-11-21:

    text        Claude 2     Qwen         Mistral v7   Tekken v3    cl100k / o200k
    English     1.06 (1.06)  1.01 (1.00)  1.15 (1.15)  1.01 (1.01)  1.00
    Python      1.10 (1.10)  1.00 (1.00)  1.27 (1.28)  1.09 (1.09)  1.00
    JSON        1.00 (1.00)  1.16 (1.16)  1.38 (1.38)  1.18 (1.18)  1.00
    SHA-256     1.00 (1.01)  1.53 (1.54)  1.56 (1.56)  1.55 (1.56)  1.00
    digits      0.97 (0.97)  2.38 (2.38)  2.38 (2.38)  2.38 (2.38)  1.00
    German      1.78 (1.18)  1.46 (0.97)  1.75 (1.16)  1.24 (0.82)  1.51
    Chinese     1.34 (0.91)  0.79 (0.54)  1.41 (0.96)  1.32 (0.90)  1.46
    Japanese    1.50 (0.97)  0.91 (0.59)  1.52 (0.98)  1.02 (0.66)  1.55
    Korean      2.11 (1.14)  1.30 (0.71)  2.07 (1.12)  0.93 (0.51)  1.85
    Hebrew      2.32 (0.93)  0.93 (0.37)  2.64 (1.06)  1.22 (0.49)  2.49
    emoji       1.36 (0.97)  1.03 (0.74)  1.50 (1.08)  1.71 (1.23)  1.39
    Russian     2.08 (1.14)  1.29 (0.71)  1.71 (0.94)  1.08 (0.60)  1.81
    Arabic      3.20 (1.31)  1.18 (0.48)  3.18 (1.30)  0.95 (0.39)  2.45
    Thai        4.71 (1.81)  1.42 (0.55)  2.65 (1.02)  1.44 (0.56)  2.60
    Hindi       4.72 (1.11)  3.87 (0.91)  4.49 (1.05)  1.56 (0.37)  4.26
    Bengali     5.80 (1.40)  3.54 (0.85)  3.71 (0.89)  1.44 (0.35)  4.15

Claude 4.7 was measured by others at up to 1.47 times its predecessor for English and code, and at
1.0 for CJK, Arabic and Hindi (sol.ava.dev/writings, 2026-04-17). None of these tokenizers makes
more than 0.65 tokens of a byte of text that is not Latin.
"""

from collections.abc import Iterable
from math import ceil
from typing import Final, Literal, NamedTuple

Kind = Literal["plain", "wide", "packed"]
"""`wide`: more than a trace of it is not ASCII. `packed`: so much of that the branch's encoding
holds it in few tokens, which other encodings do not.
"""

WHOLE: Final = 1_000
"""Factors are whole thousandths, so that limits and counts are exact in both directions."""
STEP: Final = 25
"""Thousandths by which factors differ: a prompt's limit, and with it what a provider has cached of
the last prompt, is to stay as it is while reports vary little.
"""
MARGIN: Final = 1.1
START_WEIGHT: Final = 4
FADING: Final = 1 / 16
"""Of the distance between the highest ratio and a lower one, what that lower one takes away."""
FEWEST_TOKENS: Final = 200
"""A smaller prompt says more about what the provider adds to each than about its tokenizer."""

_TRACE: Final = 0.02
_PACKED: Final = 5.5
_TOKENS_OF_A_BYTE: Final = 0.72


class _Range(NamedTuple):
    """`start`, and ratios that can be true. Usage of several calls together is above `highest`, or
    widens the factor for a while; what leaves cached tokens out is below `lowest`.
    """

    lowest: float
    start: float
    highest: float


_RANGES: Final[dict[str, dict[Kind, _Range]]] = {
    "o200k_base": {
        "plain": _Range(0.7, 2.4, 3.6),
        "wide": _Range(0.5, 4.0, 6.0),
        "packed": _Range(0.5, 6.0, 9.0),
    },
    "cl100k_base": {
        "plain": _Range(0.7, 2.4, 3.6),
        "wide": _Range(0.2, 2.4, 3.6),
        "packed": _Range(0.2, 2.4, 3.6),
    },
}


class Learned(NamedTuple):
    """What reports taught about one kind of text: how many, and the highest ratio, which fades."""

    kind: Kind
    reports: int
    peak: float


class Extent(NamedTuple):
    """Of texts: bytes as UTF-8, and how many of these are no character of their own."""

    size: int
    beyond_ascii: int


def extent(texts: Iterable[str]) -> Extent:
    """Costs next to nothing for ASCII."""
    size = beyond_ascii = 0
    for text in texts:
        length = len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
        size += length
        beyond_ascii += length - len(text)
    return Extent(size, beyond_ascii)


def kind_of(text: Extent, tokens: int) -> Kind:
    """By how many bytes are beyond ASCII, and how many a token of the branch holds."""
    if text.beyond_ascii <= _TRACE * text.size:
        return "plain"
    return "packed" if text.size > _PACKED * tokens else "wide"


def token_factor(text: Extent, tokens: int, encoding: str, learned: Iterable[Learned]) -> int:
    """In thousandths: what tokens in the branch's encoding are multiplied by. Rounded up."""
    kind = kind_of(text, tokens)
    start = _start(text, tokens, encoding, kind)
    for known in learned:
        if known.kind == kind:
            seen = known.peak * MARGIN
            mixed = (START_WEIGHT * start + known.reports * seen) / (START_WEIGHT + known.reports)
            start = max(seen, mixed)
    return max(WHOLE, STEP * ceil(start * WHOLE / STEP - 1e-6))


def in_model_tokens(counted: int, factor: int) -> int:
    """Rounded up, as limits are rounded down: what is within one limit is within the other."""
    return -(-counted * factor // WHOLE)


def in_branch_tokens(limit: int, factor: int) -> int:
    """The most tokens in the branch's encoding that stay within a limit of the model's."""
    return limit * WHOLE // factor


def ratio_reported(used: int, counted: int, encoding: str, kind: Kind) -> float | None:
    """Tokens used for tokens counted; None where it cannot be the ratio of one call."""
    if counted < FEWEST_TOKENS:
        return None
    ratio = used / counted
    possible = _RANGES[encoding][kind]
    return ratio if possible.lowest <= ratio <= possible.highest else None


def _start(text: Extent, tokens: int, encoding: str, kind: Kind) -> float:
    start = _RANGES[encoding][kind].start
    if kind == "plain" or tokens <= 0:
        return start
    least = _RANGES[encoding]["plain"].start
    return min(start, max(least, _TOKENS_OF_A_BYTE * text.size / tokens))
