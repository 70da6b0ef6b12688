"""What an image costs a model, by the rule that its provider publishes. Where a size or a model is
unknown, it costs the most that the rule knows.

- OpenAI (developers.openai.com/api/docs/guides/images-vision): tiles of 512 pixels, or patches of
  32 times a multiplier. Models that came later than this table cost what the dearest patches do.
- Anthropic (platform.claude.com/docs/en/build-with-claude/vision): a token for 750 pixels, or for
  each patch of 28, whichever is more, after scaling; from Claude 4.7 on images may be larger.
- Gemini (ai.google.dev/gemini-api/docs/tokens, and media-resolution): 258 for a tile of 768 pixels
  or a small image; from Gemini 3 on 1,120 for each image.
"""

import re
from collections.abc import Callable
from math import ceil, floor, sqrt
from typing import Final, NamedTuple

from durable_context.artifacts.media_tokens import scaled_sides
from durable_context.model_tokens import CountedAs

ImageRule = Callable[[int | None, int | None, object], int]
"""Tokens of an image by width, height and detail."""


class Tiles(NamedTuple):
    base: int
    tile: int

    def __call__(self, width: int | None, height: int | None, detail: object) -> int:
        if detail == "low":
            return self.base
        if not width or not height:
            return self.base + 8 * self.tile
        width, height = scaled_sides(width, height)
        return self.base + self.tile * ceil(width / 512) * ceil(height / 512)


class Patches(NamedTuple):
    """`percent` of the tokens for at most `most` patches."""

    percent: int
    most: int = 1_536

    def __call__(self, width: int | None, height: int | None, detail: object) -> int:
        patches = self._patches(width, height) if width and height else self.most
        return -(-patches * self.percent // 100)

    def _patches(self, width: int, height: int) -> int:
        patches = -(-width // 32) * -(-height // 32)
        if patches <= self.most:
            return patches
        shrunk = sqrt(self.most * 32**2 / (width * height))
        across, down = width * shrunk / 32, height * shrunk / 32
        shrunk = min(max(floor(side), 1) / side for side in (across, down))
        # The sides are whole patches but for rounding errors.
        return min(self.most, ceil(across * shrunk - 1e-6) * ceil(down * shrunk - 1e-6))


class ClaudePatches(NamedTuple):
    side: int
    most: int

    def __call__(self, width: int | None, height: int | None, detail: object) -> int:
        if not width or not height:
            return self.most
        longer = max(width, height)
        if longer > self.side:
            width = max(1, -(-width * self.side // longer))
            height = max(1, -(-height * self.side // longer))
        patches = -(-width // 28) * -(-height // 28)
        return min(self.most, max(patches, -(-width * height // 750)))


class GeminiTiles(NamedTuple):
    """`most` tiles stand for an image of unknown size."""

    tile: int = 258
    most: int = 16

    def __call__(self, width: int | None, height: int | None, detail: object) -> int:
        if not width or not height:
            return self.tile * self.most
        if width <= 384 and height <= 384:
            return self.tile
        return self.tile * max(
            _tiles(width, height, 768), _tiles(width, height, _crop(width, height))
        )


class Fixed(NamedTuple):
    tokens: int

    def __call__(self, width: int | None, height: int | None, detail: object) -> int:
        return self.tokens


_DEAREST_PATCHES: Final = Patches(246)
_OPENAI: Final[tuple[tuple[str, ImageRule], ...]] = (
    (r"gpt-4o-mini", Tiles(2_833, 5_667)),
    (r"(chat)?gpt-4o|gpt-4\.1($|-2|-long)|gpt-4\.5|gpt-4(-|$)", Tiles(85, 170)),
    (r"(gpt-4\.1|gpt-5)-mini", Patches(162)),
    (r"(gpt-4\.1|gpt-5)-nano", Patches(246)),
    (r"o4-mini", Patches(172)),
    (r"gpt-5($|-2|-chat|-pro|-codex($|-2))", Tiles(70, 140)),
    (r"o[13](-|$)", Tiles(75, 150)),
)
_CLAUDE: Final = ClaudePatches(1_568, 1_600)
_LARGE_CLAUDE: Final = ClaudePatches(2_576, 4_784)
_LARGE_FROM: Final = (4, 7)
_CLAUDE_VERSION: Final = re.compile(r"claude-(?:[a-z]+-)?(\d{1,2})(?!\d)(?:[-.](\d{1,2})(?!\d))?")
_GEMINI_VERSION: Final = re.compile(r"gemini-(\d+)")


def image_rule(model: CountedAs) -> ImageRule | None:
    """None for a model whose rule nobody publishes: the estimate of `media_tokens` stands."""
    if model.family == "openai":
        known = (rule for pattern, rule in _OPENAI if re.match(pattern, model.name))
        return next(known, _DEAREST_PATCHES)
    if model.family == "anthropic":
        return _claude_rule(model.name)
    return _gemini_rule(model.name) if model.family == "gemini" else None


def _claude_rule(name: str) -> ImageRule:
    found = _CLAUDE_VERSION.search(name)
    if found is None:
        return _LARGE_CLAUDE
    version = (int(found[1]), int(found[2] or 0))
    return _CLAUDE if version < _LARGE_FROM else _LARGE_CLAUDE


def _gemini_rule(name: str) -> ImageRule:
    found = _GEMINI_VERSION.search(name)
    return Fixed(1_120) if found is not None and int(found[1]) >= 3 else GeminiTiles()


def _tiles(width: int, height: int, side: int) -> int:
    return -(-width // side) * -(-height // side)


def _crop(width: int, height: int) -> int:
    """The side of the squares that an image is cut into, which are then scaled to tiles."""
    return min(max(min(width, height) * 2 // 3, 256), 768)
