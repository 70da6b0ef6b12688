"""What providers refuse: their own packages' request types, and the rules that types cannot say.

A request that passes here is one that the provider takes; each check raises AssertionError or
pydantic's ValidationError otherwise.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from anthropic.types import ContentBlockParam
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from google.genai import types as genai
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputItemParam
from pydantic import ConfigDict, TypeAdapter

MODEL = {"model": "any", "max_tokens": 1}
IDS = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ANTHROPIC_NAMES = re.compile(r"[a-zA-Z0-9_-]{1,128}")
GEMINI_NAMES = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
THINKING = ("thinking", "redacted_thinking")
MOST_BREAKPOINTS = 4
GEMINI_DATA = (
    "text",
    "inline_data",
    "file_data",
    "function_call",
    "function_response",
    "executable_code",
    "code_execution_result",
    "tool_call",
    "tool_response",
)


def check_anthropic(request: Mapping[str, Any]) -> None:
    """`anthropic.messages.create(model=, max_tokens=, **request)`."""
    assert set(request) <= {"system", "messages", "tools"}
    _of_type(_adapter("anthropic"), MODEL | dict(request))
    _encodes(request)
    messages = request["messages"]
    for message in messages:  # the request's type takes responses' blocks too, which are open
        _of_type(_adapter("blocks"), list(message["content"]))
    roles = [message["role"] for message in messages]
    assert roles == [("user", "assistant")[n % 2] for n in range(len(roles))], roles
    assert roles[-1:] == ["user"], "it must begin and end with the user"
    for text in _texts([request.get("system", []), messages]):
        assert text.strip(), "a text block without text"
    assert sum(1 for _ in _marked(request)) <= MOST_BREAKPOINTS
    for tool in request.get("tools", ()):
        assert ANTHROPIC_NAMES.fullmatch(tool["name"]), tool["name"]
    ids = [b["id"] for m in messages for b in m["content"] if b["type"] == "tool_use"]
    assert len(set(ids)) == len(ids), f"repeated ids: {ids}"
    for message, following in zip(messages, [*messages[1:], None], strict=True):
        _check_blocks(message, following)


def _check_blocks(message: Mapping[str, Any], following: Mapping[str, Any] | None) -> None:
    blocks = message["content"]
    kinds = [block["type"] for block in blocks]
    assert blocks, "a message without content"
    if message["role"] == "user":
        assert not set(kinds) & {*THINKING, "tool_use", "server_tool_use"}
        results = kinds.count("tool_result")
        assert set(kinds[:results]) <= {"tool_result"}, "results come first"
        return
    assert "tool_result" not in kinds
    assert not set(kinds) & set(THINKING) or kinds[0] in THINKING, "thinking comes first"
    called = [block["id"] for block in blocks if block["type"] == "tool_use"]
    for block in blocks:
        if block["type"] == "tool_use":
            assert IDS.fullmatch(block["id"]), block["id"]
            assert ANTHROPIC_NAMES.fullmatch(block["name"]), block["name"]
    answered = [
        block["tool_use_id"]
        for block in (following or {"content": []})["content"]
        if block["type"] == "tool_result"
    ]
    assert sorted(called) == sorted(answered), f"calls {called}, results {answered}"
    asked = {block["id"] for block in blocks if block["type"] == "server_tool_use"}
    served = {b["tool_use_id"] for b in blocks if b["type"].endswith("_tool_result")}
    assert asked == served, "a server tool without its result, or the other way round"


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, Mapping):
        if value.get("type") == "text" and isinstance(value.get("text"), str):
            yield value["text"]
        if isinstance(value.get("content"), list):
            yield from _texts(value["content"])


def _marked(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, list | tuple):
        for item in value:
            yield from _marked(item)
    elif isinstance(value, Mapping):
        if "cache_control" in value:
            assert value["cache_control"] == {"type": "ephemeral"}
            assert value.get("type") not in THINKING, "thinking cannot be marked"
            yield value
        for key in ("system", "tools", "messages", "content"):
            yield from _marked(value.get(key))


def check_chat(messages: Sequence[Mapping[str, Any]]) -> None:
    """`openai.chat.completions.create(model=, messages=messages)`, parts not loaded."""
    named = {"tool": ("role", "content", "tool_call_id")}  # a tool's name is taken and ignored
    sent = [{k: m[k] for k in named.get(m["role"], m) if k in m} for m in messages]
    _of_type(_adapter("chat"), sent)
    _encodes(messages)
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] in waiting, f"no call waits for {message}"
            waiting.remove(message["tool_call_id"])
            continue
        assert not waiting, f"no results of {waiting}"
        waiting = [call["id"] for call in message.get("tool_calls", ())]
    assert not waiting, f"no results of {waiting}"


def check_responses(items: Sequence[Mapping[str, Any]]) -> None:
    """`openai.responses.create(model=, input=items)`, without previous_response_id."""
    assert items, "no input"
    _of_type(_adapter("responses"), list(items))
    _encodes(items)
    waiting: list[tuple[str, str]] = []
    reasoned = False
    for item, following in zip(items, [*items[1:], None], strict=True):
        kind = item["type"]
        if kind in ("function_call_output", "custom_tool_call_output"):
            waits = (kind.removesuffix("_output"), item["call_id"])
            assert waits in waiting, f"no call waits for {waits}"
            waiting.remove(waits)
            reasoned = False
            continue
        if kind == "message":
            assert item["content"], "a message without content"
            assert not waiting, f"no results of {waiting}"
            if item["role"] != "assistant":
                reasoned = False
        if kind in ("function_call", "custom_tool_call"):
            assert 0 < len(item["call_id"]) <= 64 and item["call_id"] not in [i for _, i in waiting]
            assert IDS.fullmatch(item["name"]), item["name"]
            waiting.append((kind, item["call_id"]))
        if kind == "reasoning":
            reasoned = True
            assert _is_output(following), "reasoning without its following item"
        elif kind in ("message", "function_call", "custom_tool_call") and "id" in item:
            assert reasoned, f"{item['id']} without its reasoning"
    assert not waiting, f"no results of {waiting}"
    roles = [item.get("role") for item in items]
    assert not {"system", "developer"} & set(roles[1:]), "instructions come first"


def _is_output(item: Mapping[str, Any] | None) -> bool:
    """Whether the model made it."""
    if item is None or item["type"].endswith("_call_output"):
        return False
    return item["type"] != "message" or item["role"] == "assistant"


def check_gemini(request: Mapping[str, Any]) -> None:
    """`client.aio.models.generate_content(model=, **request)`."""
    assert set(request) <= {"contents", "config"}
    genai.GenerateContentConfig.model_validate(request["config"])
    contents = request["contents"]
    for content in contents:
        genai.Content.model_validate(content)
        assert content["parts"], "a content without parts"
        for part in content["parts"]:
            _check_part(part)
    roles = [content["role"] for content in contents]
    assert roles[:1] == roles[-1:] == ["user"], "it must begin and end with the user"
    for content, following in zip(contents, [*contents[1:], None], strict=True):
        _check_calls(content, following)
    asked = [part for content in contents for part in content["parts"] if "function_call" in part]
    for part in asked:
        assert GEMINI_NAMES.fullmatch(part["function_call"]["name"]), part


def _check_part(part: Mapping[str, Any]) -> None:
    held = [key for key in GEMINI_DATA if key in part]
    assert len(held) == 1, f"a part holds one thing, not {held}"
    assert part.get("text", "-") or part.get("thought_signature"), "an empty part"
    assert isinstance(part.get("thought_signature", b"-"), bytes)
    if "inline_data" in part:
        assert part["inline_data"]["data"] and isinstance(part["inline_data"]["data"], bytes)
    if "function_call" in part:
        assert isinstance(part["function_call"]["args"], dict)
        _encodes(part["function_call"])
    if "function_response" in part:
        assert isinstance(part["function_response"]["response"], dict)
        _encodes(part["function_response"]["response"])
    if "text" in part:
        _encodes(part["text"])


def _check_calls(content: Mapping[str, Any], following: Mapping[str, Any] | None) -> None:
    """All responses of one message's calls stand in the content after it, and nothing else."""
    parts = content["parts"]
    if content["role"] == "user":
        kinds = {"function_response" in part for part in parts}
        assert len(kinds) == 1, "responses are a content of their own"
        assert not any("function_call" in part for part in parts)
        return
    assert not following or following["role"] == "user", "two contents of the model in a row"
    calls = [part["function_call"] for part in parts if "function_call" in part]
    responses = [
        part["function_response"]
        for part in (following or {"parts": []})["parts"]
        if "function_response" in part
    ]

    def key(one: Mapping[str, Any]) -> tuple[str, str]:
        return (one.get("id") or "", one["name"])

    assert sorted(map(key, calls)) == sorted(map(key, responses)), f"{calls} and {responses}"


@cache
def _adapter(name: str) -> TypeAdapter[Any]:
    """Unknown keys are refused wherever the package's type does not say that it is open."""
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
    if name == "anthropic":
        return TypeAdapter(MessageCreateParamsNonStreaming | None, config=config)
    if name == "blocks":
        return TypeAdapter(list[ContentBlockParam], config=config)
    if name == "chat":
        return TypeAdapter(list[ChatCompletionMessageParam], config=config)
    return TypeAdapter(list[ResponseInputItemParam], config=config)


def _of_type(adapter: TypeAdapter[Any], value: Any) -> None:
    """An Iterable in a type is checked when it is read, so that all of it is."""
    _read(adapter.validate_python(value))


def _read(value: Any) -> None:
    if isinstance(value, Mapping):
        for item in value.values():
            _read(item)
    elif not isinstance(value, str | bytes) and hasattr(value, "__iter__"):
        for item in value:
            _read(item)


def _encodes(value: Any) -> None:
    """JSON in UTF-8, which the packages send."""
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
