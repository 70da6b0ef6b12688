"""An OpenAI-compatible chat-completions server on loopback: real HTTP, only the words are made up.

A request is answered by the next scripted `Reply`, or sensibly when none is left.
"""

import asyncio
import hashlib
import json
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

HEADLINE = "Made-up summary of the conversation"
_WORD = re.compile(r"[^\W\d_]{5,}")


@dataclass(frozen=True)
class ReceivedRequest:
    """One request as it came in. `body` is the parsed JSON."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def text(self) -> str:
        """All message contents in order, as the model would read them."""
        return "\n".join(_content_text(message) for message in self.body["messages"])


@dataclass(frozen=True)
class Reply:
    """What one request gets. `body` may be made from the request; `held` waits for `release()`."""

    body: str | Callable[[ReceivedRequest], str]
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])
    held: bool = False
    dropped: bool = False


class ModelServer:
    """`async with ModelServer() as server:` listens on a free port until the block ends."""

    def __init__(self, answer: "Callable[[ReceivedRequest], Reply] | None" = None) -> None:
        self.requests: list[ReceivedRequest] = []
        self._answer = answer or (lambda _: answers())
        self._script: deque[Reply] = deque()
        self._holding = False
        self._held: list[asyncio.Event] = []
        self._arrived = asyncio.Condition()
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def base_url(self) -> str:
        assert self._server is not None, "the server is not started"
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    @property
    def count(self) -> int:
        return len(self.requests)

    def script(self, *replies: Reply) -> None:
        """The next requests get these, in order of arrival; later ones are answered again."""
        self._script.extend(replies)

    def always(self, reply: Reply) -> None:
        """Every request that finds no scripted reply gets this one."""
        self._answer = lambda _: reply

    def hold(self) -> None:
        """Requests wait, read but unanswered, until `release()`."""
        self._holding = True

    def release(self) -> None:
        """Answers what is held, also by a `held()` reply, and holds nothing more."""
        self._holding = False
        while self._held:
            self._held.pop().set()

    async def request_arrived(self, count: int = 1) -> ReceivedRequest:
        """Waits until `count` requests came in all, and returns the one that made it so."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.requests) >= count)
        return self.requests[count - 1]

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client went away, which crash tests do on purpose
        finally:
            self._connections.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await _read_request(reader)
        reply = self._script.popleft() if self._script else self._answer(request)
        gate = asyncio.Event()
        if reply.held or self._holding:
            self._held.append(gate)
        else:
            gate.set()
        async with self._arrived:
            self.requests.append(request)
            self._arrived.notify_all()
        await gate.wait()
        await _send(writer, reply, request)


async def _read_request(reader: asyncio.StreamReader) -> ReceivedRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in head[1:] if line)
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return ReceivedRequest(head[0].split(" ")[1], headers, json.loads(body) if body else {})


async def _send(writer: asyncio.StreamWriter, reply: Reply, request: ReceivedRequest) -> None:
    text = reply.body if isinstance(reply.body, str) else reply.body(request)
    body = text.encode()
    headers = {
        "content-type": "application/json",
        "content-length": str(len(body)),
        "connection": "close",
        **reply.headers,
    }
    lines = [f"HTTP/1.1 {reply.status} Made Up", *(f"{k}: {v}" for k, v in headers.items())]
    sent = body[: len(body) // 2] if reply.dropped else body
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + sent)
    await writer.drain()


def answers(headline: str | None = None, text: str | None = None) -> Reply:
    """A valid summary: the given words, or some made from the input alone."""

    def body(request: ReceivedRequest) -> str:
        made_headline, made_text = _made_up(request)
        arguments = {"headline": headline or made_headline, "text": text or made_text}
        return _completion(request, json.dumps(arguments, ensure_ascii=False))

    return Reply(body)


def held() -> Reply:
    """A valid summary, but only after `release()`: the client runs into its own timeout."""
    return replace(answers(), held=True)


def dropped() -> Reply:
    """The connection breaks in the middle of the body."""
    return replace(answers(), dropped=True)


def rate_limited(**headers: str) -> Reply:
    """429. `retry_after="2"` and `retry_after_ms="1500"` become headers."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return replace(failed(429, "rate_limit_exceeded", "Rate limit reached"), headers=sent)


def out_of_quota() -> Reply:
    return failed(429, "insufficient_quota", "You exceeded your current quota")


def unauthorized() -> Reply:
    return failed(401, "invalid_api_key", "Incorrect API key provided")


def too_long() -> Reply:
    message = "This model's maximum context length is 8192 tokens. Please reduce the length."
    return failed(400, "context_length_exceeded", message)


def failed(status: int, code: str | None = None, message: str = "The server had an error") -> Reply:
    error = {"message": message, "type": "made_up_error", "param": None, "code": code}
    return Reply(json.dumps({"error": error}), status=status)


def bad_json() -> Reply:
    """A completion whose structured output is not JSON."""
    return Reply(lambda request: _completion(request, '{"headline": "half a'))


def wrong_schema() -> Reply:
    return Reply(lambda request: _completion(request, '{"title": "no headline", "body": 3}'))


def empty() -> Reply:
    """A completion that says nothing at all."""
    return Reply(lambda request: _envelope(request, {"role": "assistant", "content": ""}, "stop"))


def html() -> Reply:
    """A gateway's error page with status 200."""
    page = "<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body></body></html>"
    return Reply(page, headers={"content-type": "text/html"})


def refusal() -> Reply:
    message = {"role": "assistant", "content": None, "refusal": "I can't help with that."}
    return Reply(lambda request: _envelope(request, message, "stop"))


def filtered() -> Reply:
    message = {"role": "assistant", "content": None}
    return Reply(lambda request: _envelope(request, message, "content_filter"))


def cut_by_length() -> Reply:
    """The output limit fell in the middle of the structured output."""
    return Reply(lambda request: _completion(request, '{"headline": "cut', finish="length"))


def no_choices() -> Reply:
    return Reply(
        lambda request: json.dumps({**json.loads(_completion(request, "")), "choices": []})
    )


def _completion(request: ReceivedRequest, output: str, finish: str | None = None) -> str:
    """`output` in the form the request asked for: a call of its output tool, or plain content."""
    tools = request.body.get("tools") or []
    if not tools:
        message = {"role": "assistant", "content": output}
        return _envelope(request, message, finish or "stop")
    function = {"name": tools[0]["function"]["name"], "arguments": output}
    call = {"id": "call_made_up", "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return _envelope(request, message, finish or "tool_calls")


def _envelope(request: ReceivedRequest, message: dict[str, Any], finish: str) -> str:
    prompt, completion = len(request.text) // 4, len(json.dumps(message)) // 4
    return json.dumps(
        {
            "id": "chatcmpl-made-up",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": request.body.get("model", "made-up"),
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {
                "prompt_tokens": prompt,
                "completion_tokens": completion,
                "total_tokens": prompt + completion,
            },
        }
    )


def _made_up(request: ReceivedRequest) -> tuple[str, str]:
    """Same input, same words: what the last message names most, and a mark of the whole input."""
    said = _content_text(request.body["messages"][-1])
    counts: dict[str, int] = {}
    for word in _WORD.findall(said):
        counts[word] = counts.get(word, 0) + 1
    words = sorted(counts, key=lambda word: (-counts[word], word))[:6]
    mark = hashlib.sha256(request.text.encode()).hexdigest()[:8]
    topics = ", ".join(words) or "nothing much"
    return f"{HEADLINE} {mark}", f"The user and the assistant spoke of {topics}. Mark {mark}."


def _content_text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content or [])
