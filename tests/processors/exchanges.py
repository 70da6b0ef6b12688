"""Histories with tool exchanges, and a summarizer whose words are made up."""

from typing import Any

from durable_context.processors.context import Context
from durable_context.processors.dialogue_compressor import DialogueCompressor

SYSTEM = {"role": "system", "content": "You are helpful."}
ASKED = {"role": "user", "content": "go"}
DONE = {"role": "assistant", "content": "done"}
FOUND = "found it on the third page of the second drawer " * 12


class Asked:
    """A summarizer that remembers what it was asked; only its words are made up."""

    def __init__(self, *answers: Any) -> None:
        self.chains: list[list[dict[str, Any]]] = []
        self._answers = answers or ("it was done",)

    async def __call__(self, chain: list[dict[str, Any]]) -> Any:
        self.chains.append(chain)
        answer = self._answers[min(len(self.chains), len(self._answers)) - 1]
        if isinstance(answer, BaseException):
            raise answer
        return answer


def call(call_id: str, name: str = "search") -> dict[str, Any]:
    inner = {"name": name, "arguments": '{"q": "it"}'}
    return {"id": call_id, "type": "function", "function": inner}


def calling(*call_ids: str, name: str = "search") -> dict[str, Any]:
    calls = [call(call_id, name) for call_id in call_ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(call_id: str, content: Any = FOUND) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def over(*history: Any, task_id: str = "task-1") -> Context:
    ctx = Context(task_id)
    ctx.state.set("history", list(history))
    return ctx


def said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


async def compress(ctx: Context, summarizer: Any = None, **options: Any) -> list[Any]:
    await DialogueCompressor(summarizer=summarizer, **options).process(ctx, {})
    history: list[Any] = ctx.state.get("history")
    return history
