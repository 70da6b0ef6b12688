"""A prepared prompt as a page shows it: each message of the request with what it holds, where the
stable prefix ends, and which words led to what was retrieved.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, cast

from durable_context import PreparedContext
from durable_context.prompts.manifest import Manifest
from durable_context.prompts.rendering import (
    CHECKPOINT_HEAD,
    DIGEST_HEAD,
    LEDGER_TAIL_HEAD,
    PINNED_HEAD,
    RETRIEVED_HEAD,
    is_record,
)
from durable_context.search_queries import search_query
from durable_context.summarizers.stop_words import STOP_WORDS

Format = Literal["openai", "anthropic", "gemini"]

_RECORDS: Final = (
    (CHECKPOINT_HEAD, "checkpoint"),
    (PINNED_HEAD, "pinned"),
    (DIGEST_HEAD, "digest"),
    (LEDGER_TAIL_HEAD, "ledger"),
    (RETRIEVED_HEAD, "retrieved"),
)
_FOOT_TOKENS: Final = 16
"""More than the end of a record takes, which is no part of the prefix."""
_MOST_WORDS: Final = 40
_SHORTEST_WORD: Final = 3
_ENDING: Final = r"\w{0,3}"
"""Retrieval compares stems: `shipment` is found by `shipments`."""


class ShownPart(NamedTuple):
    """`label` says what it is where it is no plain text. `handle` is the artifact it stands for."""

    text: str
    label: str = ""
    handle: str | None = None


class ShownMessage(NamedTuple):
    """`block` is the kind of block it is of, `turns` where it is raw; `ends_prefix` where the
    stable prefix ends with it.
    """

    number: int
    role: str
    about: str
    block: str
    parts: tuple[ShownPart, ...]
    ends_prefix: bool = False

    @property
    def length(self) -> int:
        return sum(len(part.text) for part in self.parts)


def shown_messages(prepared: PreparedContext, provider: Format) -> tuple[ShownMessage, ...]:
    if provider == "anthropic":
        return tuple(_numbered(_of_anthropic(prepared.to_anthropic())))
    if provider == "gemini":
        return tuple(_numbered(_of_gemini(prepared.to_gemini())))
    return tuple(_of_openai(prepared))


def request_of(prepared: PreparedContext, provider: Format) -> dict[str, Any]:
    """What is sent but for the model's name and the settings of the call."""
    if provider == "anthropic":
        return prepared.to_anthropic()
    if provider == "gemini":
        return prepared.to_gemini()
    tools = list(prepared.budget.tools)
    return {"messages": list(prepared.messages), **({"tools": tools} if tools else {})}


def words_asked(message: str | None) -> tuple[str, ...]:
    """Words and terms that retrieval looks for; without those that say nothing."""
    if not message:
        return ()
    query = search_query(message)
    words = re.findall(r"[\w-]+", query.text.casefold())
    terms = [term for term in query.terms if re.fullmatch(r"\w[\w./:@-]*", term)]
    asked = [word for word in (*words, *terms) if len(word) >= _SHORTEST_WORD]
    return tuple(dict.fromkeys(word for word in asked if word not in STOP_WORDS))[:_MOST_WORDS]


def marked(text: str, words: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """The text in pieces, and whether each is one of the words."""
    if not words:
        yield text, False
        return
    longest_first = sorted(words, key=lambda word: (-len(word), word))
    pattern = "|".join(map(re.escape, longest_first))
    end = 0
    for found in re.finditer(rf"(?<!\w)(?:{pattern}){_ENDING}(?!\w)", text, re.IGNORECASE):
        yield text[end : found.start()], False
        yield found[0], True
        end = found.end()
    yield text[end:], False


def _of_openai(prepared: PreparedContext) -> Iterator[ShownMessage]:
    kinds = _kinds(prepared)
    last = _end_of_prefix(prepared.manifest, kinds)
    handles = {(part.message, part.part): part.handle for part in prepared.parts}
    for number, (message, kind) in enumerate(zip(prepared.messages, kinds, strict=True)):
        about = message.get("tool_call_id") or message.get("name") or ""
        parts = tuple(_openai_parts(message, number, handles))
        yield ShownMessage(number, message["role"], about, kind, parts, number == last)


def _kinds(prepared: PreparedContext) -> list[str]:
    """Records say what they are; of the others the newest are the user's, where there is one."""
    blocks = [block.kind for block in prepared.manifest.blocks]
    kinds = [_kind(message) for message in prepared.messages]
    if "user" in blocks and kinds and kinds[-1] == "raw":
        kinds[-1] = "user"
    return kinds


def _kind(message: Mapping[str, Any]) -> str:
    if message["role"] == "system":
        return "instructions"
    content: object = message.get("content")
    if not is_record(content):
        return "raw"
    return next(kind for head, kind in _RECORDS if str(content).startswith(head))


def _end_of_prefix(manifest: Manifest, kinds: Sequence[str]) -> int | None:
    """The last message of the stable prefix."""
    left = manifest.stable_prefix_tokens
    stable: set[str] = set()
    for block in manifest.blocks:
        if block.token_count - _FOOT_TOKENS > left:
            break
        left -= block.token_count
        stable.add(block.kind)
    end = None
    for number, kind in enumerate(kinds):
        if kind not in stable:
            break
        end = number
    return end if manifest.stable_prefix_tokens else None


def _openai_parts(
    message: Mapping[str, Any], number: int, handles: Mapping[tuple[int, int], str]
) -> Iterator[ShownPart]:
    content: Any = message.get("content")
    if isinstance(content, str):
        yield ShownPart(content)
    parts = cast("Sequence[Mapping[str, Any]]", content)
    for place, part in enumerate(() if isinstance(content, str | None) else parts):
        handle = handles.get((number, place))
        text = part.get("text")
        if isinstance(text, str):
            yield ShownPart(text, "" if handle is None else "stands for", handle)
        else:
            yield ShownPart(_json(part), str(part.get("type")))
    for call in message.get("tool_calls") or ():
        function = call["function"]
        yield ShownPart(str(function["arguments"]), f"calls {function['name']} ({call['id']})")


class _Said(NamedTuple):
    role: str
    parts: tuple[ShownPart, ...]


def _numbered(said: Iterator[_Said]) -> Iterator[ShownMessage]:
    for number, one in enumerate(said):
        block = _of_block([part.text for part in one.parts], one.role)
        yield ShownMessage(number, one.role, "", block, one.parts)


def _of_block(texts: Sequence[str], role: str) -> str:
    """Neighbours are merged for these providers, so that a message may be of several blocks."""
    if role == "system":
        return "instructions"
    joined = "".join(texts)
    found = [kind for head, kind in _RECORDS if head in joined]
    return " + ".join(found)


def _of_anthropic(request: Mapping[str, Any]) -> Iterator[_Said]:
    if request.get("system"):
        yield _Said("system", tuple(map(_anthropic_part, request["system"])))
    for message in request["messages"]:
        yield _Said(message["role"], tuple(map(_anthropic_part, message["content"])))


def _anthropic_part(block: Mapping[str, Any]) -> ShownPart:
    mark = "the cache may end here" if "cache_control" in block else ""
    rest = {name: value for name, value in block.items() if name != "cache_control"}
    if rest.get("type") == "text":
        return ShownPart(rest["text"], mark)
    if rest.get("type") == "tool_result" and isinstance(rest.get("content"), str):
        return ShownPart(rest["content"], _labels(f"result of {rest['tool_use_id']}", mark))
    if rest.get("type") == "tool_use":
        return ShownPart(
            _json(rest["input"]), _labels(f"calls {rest['name']} ({rest['id']})", mark)
        )
    return ShownPart(_json(rest), _labels(str(rest.get("type")), mark))


def _of_gemini(request: Mapping[str, Any]) -> Iterator[_Said]:
    system = request["config"].get("system_instruction")
    if system:
        yield _Said("system", (ShownPart(system),))
    for content in request["contents"]:
        yield _Said(content["role"], tuple(map(_gemini_part, content["parts"])))


def _gemini_part(part: Mapping[str, Any]) -> ShownPart:
    if set(part) == {"text"}:
        return ShownPart(part["text"])
    return ShownPart(_json(part), ", ".join(sorted(part)).replace("_", " "))


def _labels(*labels: str) -> str:
    return ", ".join(label for label in labels if label)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2, default=_bytes)


def _bytes(value: object) -> str:
    return f"<{len(value):,} bytes>" if isinstance(value, bytes) else str(value)
