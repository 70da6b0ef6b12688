"""Counts tokens with vocabularies that ship inside the package: verified by hash, loaded once and
lazily, and never fetched. Estimates (tool calls, images, files, tool schemas) err on the high side.
"""

import gzip
import hashlib
import importlib
import json
import re
import threading
from binascii import a2b_base64
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from durable_context.artifacts.media import is_stored_part, part_reference, part_tokens
from durable_context.models import Message, Reasoning, ToolCall

if TYPE_CHECKING:
    import tiktoken

ENCODINGS: Final = ("cl100k_base", "o200k_base")
MESSAGE_OVERHEAD: Final = 3
"""Every message costs this on top of its role, content and name (OpenAI's published rule)."""
REPLY_OVERHEAD: Final = 3
"""Every prompt costs this once: it primes the reply."""
NAME_OVERHEAD: Final = 1
TOOL_CALL_OVERHEAD: Final = 8
"""On top of a call's id, name and arguments: the markers around them. This and the next two were
chosen so that no request with tool calls that people measured needs more than its count
(chrisdinn/tokens; community.openai.com/t/538914).
"""
PARALLEL_CALLS_OVERHEAD: Final = 24
"""Where one message has several calls, which are wrapped together."""
CONTENT_WITH_CALLS_OVERHEAD: Final = 4
REASONING_BYTES: Final = 3
"""Bytes of reasoning's JSON for a token: fewer than any provider is known to put in one."""
TOOL_OVERHEAD: Final = 12
"""On top of a tool's schema as JSON, which is longer than what providers render. OpenAI's own rule
is in `tool_tokens`.
"""

_HASHES: Final = {
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
}
_SPECIAL: Final = {
    "cl100k_base": {
        "<|endoftext|>": 100257,
        "<|fim_prefix|>": 100258,
        "<|fim_middle|>": 100259,
        "<|fim_suffix|>": 100260,
        "<|endofprompt|>": 100276,
    },
    "o200k_base": {"<|endoftext|>": 199999, "<|endofprompt|>": 200018},
}
_CONTRACTION: Final = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_PATTERNS: Final = {
    "cl100k_base": (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
        r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
    ),
    "o200k_base": "|".join(
        [
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
            + _CONTRACTION,
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
            + _CONTRACTION,
            r"\p{N}{1,3}",
            r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
            r"\s*[\r\n]+",
            r"\s+(?!\S)",
            r"\s+",
        ]
    ),
}
_PIECE: Final = 16_384
# The encoder overflows its stack on very long runs of white space, so those are cut: a run is
# looked for from its first character only, which keeps the search linear.
_LONG_SPACE: Final = re.compile(rf"(?<!\s)\s{{{_PIECE}}}\s*")
_loading: Final = threading.Lock()
_loaded: Final[dict[str, "tiktoken.Encoding"]] = {}


class TokenCounter:
    """Counts in one encoding. Cheap to make; the vocabulary is loaded by the first count."""

    def __init__(self, encoding: str) -> None:
        if encoding not in ENCODINGS:
            raise ValueError(f"unknown encoding {encoding!r}: use one of {', '.join(ENCODINGS)}")
        self.encoding = encoding

    def count(self, text: str) -> int:
        """Special-token text such as <|endoftext|> counts as the ordinary text it is."""
        return len(self._encode(text)) if text else 0

    def count_message(self, message: Message) -> int:
        total = MESSAGE_OVERHEAD + self.count(message.role) + self._count_content(message.content)
        if message.name:
            total += self.count(message.name) + NAME_OVERHEAD
        if message.tool_call_id:
            total += self.count(message.tool_call_id)
        total += sum(map(reasoning_tokens, message.reasoning))
        return total + self._count_calls(message) if message.tool_calls else total

    def count_tools(self, tools: Sequence[Mapping[str, Any]]) -> int:
        return sum(
            TOOL_OVERHEAD + self.count(json.dumps(tool, ensure_ascii=False, default=str))
            for tool in tools
        )

    def fits(self, text: str, max_tokens: int) -> bool:
        """Whether the text is at most `max_tokens`, without counting all of a long one."""
        return self.count_to(text, max_tokens) <= max_tokens

    def count_to(self, text: str, limit: int) -> int:
        """Tokens of a text, or `limit + 1` when it has more."""
        return min(len(self._first_tokens(text, limit)), limit + 1)

    def truncate(self, text: str, max_tokens: int) -> str:
        """The longest beginning that is at most `max_tokens`, never half a character."""
        if max_tokens <= 0:
            return ""
        tokens = self._first_tokens(text, max_tokens)
        if len(tokens) <= max_tokens:
            return text
        for end in range(max_tokens, 0, -1):
            kept = encoding_of(self.encoding).decode_bytes(tokens[:end]).decode(errors="ignore")
            if self.count(kept) <= max_tokens:
                return kept
        return ""

    def _first_tokens(self, text: str, wanted: int) -> list[int]:
        """More than `wanted` tokens of the text's beginning, or all of them."""
        wanted = max(wanted, 0)
        size = 8 * wanted + 64
        while True:
            tokens = self._encode(text[:size])
            if size >= len(text) or len(tokens) > wanted + 1:
                return tokens
            size *= 4

    def _encode(self, text: str) -> list[int]:
        encoding = encoding_of(self.encoding)
        if len(text) <= _PIECE:
            return encoding.encode_ordinary(text)
        return [token for piece in _pieces(text) for token in encoding.encode_ordinary(piece)]

    def _count_content(self, content: str | tuple[dict[str, Any], ...] | None) -> int:
        if content is None or isinstance(content, str):
            return self.count(content or "")
        return sum(self._count_part(part) for part in content)

    def _count_part(self, part: Mapping[str, Any]) -> int:
        if is_stored_part(part):
            return max(self.count(part_reference(part)), part_tokens(part))
        for key in ("text", "refusal"):
            if isinstance(part.get(key), str):
                return self.count(part[key])
        return part_tokens(part)

    def _count_calls(self, message: Message) -> int:
        several, said = len(message.tool_calls) > 1, bool(message.content)
        total = several * PARALLEL_CALLS_OVERHEAD + said * CONTENT_WITH_CALLS_OVERHEAD
        return total + sum(self._count_call(call) for call in message.tool_calls)

    def _count_call(self, call: ToolCall) -> int:
        counted = self.count(call.id) + self.count(call.name) + self.count(call.arguments)
        return TOOL_CALL_OVERHEAD + counted


def reasoning_tokens(reasoning: Reasoning) -> int:
    """An estimate: much of it is encrypted."""
    dumped = json.dumps(reasoning.block, ensure_ascii=False, default=str)
    return -(-len(dumped.encode(errors="surrogatepass")) // REASONING_BYTES)


@cache
def token_counter(encoding: str) -> TokenCounter:
    return TokenCounter(encoding)


def loaded_encodings() -> tuple[str, ...]:
    return tuple(_loaded)


def encoding_of(name: str) -> "tiktoken.Encoding":
    """The encoding itself, loaded on first use. Blocks for up to 0.3 s then."""
    loaded = _loaded.get(name)
    if loaded is not None:
        return loaded
    with _loading:
        if name not in _loaded:
            _loaded[name] = _built(name)
        return _loaded[name]


def vocabulary(name: str) -> bytes:
    """The vocabulary file as OpenAI publishes it."""
    packed = (files("durable_context") / "encodings" / f"{name}.tiktoken.gz").read_bytes()
    return verified(gzip.decompress(packed), _HASHES[name])


def verified(raw: bytes, expected: str) -> bytes:
    found = hashlib.sha256(raw).hexdigest()
    if found != expected:
        raise ValueError(f"the vocabulary is damaged: its SHA-256 is {found!r}, not {expected!r}")
    return raw


def require_tiktoken() -> None:
    """Raises ImportError, which says what to install."""
    try:
        importlib.import_module("tiktoken")
    except ImportError as error:
        raise ImportError(
            "counting tokens needs tiktoken, which is not installed: pip install tiktoken"
        ) from error


def _built(name: str) -> "tiktoken.Encoding":
    require_tiktoken()
    import tiktoken

    return tiktoken.Encoding(
        name=name,
        pat_str=_PATTERNS[name],
        mergeable_ranks=_ranks(vocabulary(name)),
        special_tokens=_SPECIAL[name],
    )


def _ranks(raw: bytes) -> dict[bytes, int]:
    words = raw.split()
    return dict(zip(map(a2b_base64, words[::2]), map(int, words[1::2]), strict=True))


def _pieces(text: str) -> Iterator[str]:
    """The text, cut only inside very long runs of white space."""
    start = 0
    for run in _LONG_SPACE.finditer(text):
        for cut in range(run.start() + _PIECE, run.end(), _PIECE):
            yield text[start:cut]
            start = cut
    yield text[start:]
