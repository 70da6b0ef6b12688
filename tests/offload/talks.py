"""Small conversations to offload, and summarizers whose words are made up."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from durable_context.offload import ContextOffloadOp, OffloadResult
from durable_context.processors.history import count_history, count_message, tool_exchanges
from durable_context.summarizers import SummaryDraft, SummaryRequest
from durable_context.tokens import token_counter
from tests.turns import exchange

Messages = list[dict[str, Any]]
SYSTEM = {"role": "system", "content": "You look after shipments."}


def rows(count: int, mark: str = "row") -> str:
    return "\n".join(f"{mark} {number}: value-{number * 7}" for number in range(count))


def talk(rounds: int = 6, large: int = 400, mark: str = "row") -> Messages:
    """Rounds of a question, a tool exchange with a result of `large` rows, and an answer."""
    messages: Messages = [SYSTEM]
    for number in range(rounds):
        messages.append({"role": "user", "content": f"Where is shipment SHP-{number:04d} now?"})
        messages += exchange(f"call_{number}", rows(large, f"{mark} {number}"), "find", q=number)
        messages.append({"role": "assistant", "content": f"SHP-{number:04d} is in Rotterdam."})
    return [*messages, {"role": "user", "content": "And all the others?"}]


def tokens(message: dict[str, Any]) -> int:
    return count_message(message, token_counter("o200k_base"))


def total(messages: Sequence[dict[str, Any]]) -> int:
    return count_history(messages, token_counter("o200k_base"))


def places(messages: Sequence[dict[str, Any]], role: str) -> list[int]:
    return [place for place, message in enumerate(messages) if message["role"] == role]


def done(result: OffloadResult, step: str) -> list[tuple[str, str]]:
    return [(action.done, action.reason) for action in result.actions if action.step == step]


def blocks(result: OffloadResult) -> list[str]:
    """Messages that the run has added."""
    texts = [str(message.get("content")) for message in result.messages]
    return [text for text in texts if "[Compressed conversation history - Part" in text]


def stored(directory: Path) -> list[str]:
    """Names of all files and folders below it."""
    return sorted(path.name for path in directory.rglob("*"))


def check_exchanges(before: Sequence[Any], after: Sequence[Any]) -> None:
    """No call lost a result, and no result its call."""
    answered = {
        tuple(m.get("tool_call_id") for m in before[e.start + 1 : e.stop] if m["role"] == "tool")
        for e in tool_exchanges(before)
    }
    free = _outside(before)
    assert _outside(after) <= free
    for one in tool_exchanges(after):
        ids = [
            m.get("tool_call_id") for m in after[one.start + 1 : one.stop] if m["role"] == "tool"
        ]
        assert tuple(ids) in answered


def _outside(messages: Sequence[Any]) -> set[Any]:
    """Results without a call."""
    inside = {n for one in tool_exchanges(messages) for n in range(one.start, one.stop)}
    return {
        message.get("tool_call_id")
        for place, message in enumerate(messages)
        if message["role"] == "tool" and place not in inside
    }


class Short:
    """An async function that a caller passes. Keeps what it was given."""

    def __init__(self, text: str = "They asked for shipments; all are in Rotterdam.") -> None:
        self.text = text
        self.groups: list[Messages] = []

    async def __call__(self, messages: Messages) -> str:
        self.groups.append(messages)
        return self.text


class Scripted:
    """A Summarizer. Keeps its requests."""

    recipe = "scripted/1"

    def __init__(self, text: str = "The user asked for shipments.") -> None:
        self.text = text
        self.requests: list[SummaryRequest] = []

    async def summarize(self, request: SummaryRequest) -> SummaryDraft:
        self.requests.append(request)
        return SummaryDraft(headline="Shipments", text=self.text, made_by=self.recipe)


async def offload(messages: Sequence[dict[str, Any]], **parameters: Any) -> OffloadResult:
    return await ContextOffloadOp(**parameters).run(list(messages))


async def compress(messages: Any, tmp_path: Path, **parameters: Any) -> OffloadResult:
    given: dict[str, Any] = {
        "max_total_tokens": 1_000,
        "store_dir": tmp_path,
        "chat_id": "chat",
        "summarizer": Short(),
    }
    return await offload(messages, **{"context_manage_mode": "compress"} | given | parameters)
