"""One call of one model over pydantic-ai. Imported when a model is first asked, because the import
takes a second.

No client retries, since Temporal does, and every client is closed by who opened it.
"""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import NamedTuple

from openai import AsyncOpenAI, OpenAIError
from pydantic import BaseModel, Field
from pydantic_ai import Agent
from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model, infer_model
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RunUsage

from durable_context.errors import SummarizerError, SummarizerRejected
from durable_context.summarizers.failures import error_kind, failure
from durable_context.summarizers.model import CHAT_COMPLETIONS
from durable_context.telemetry.model_calls import model_call, note_answer, note_failure


class Answer(BaseModel):
    """The summary."""

    headline: str = Field(description="One line: what the record is about.")
    text: str = Field(description="The summary itself.")


class Question(NamedTuple):
    """What one call asks. `timeout`, in seconds, bounds the call as a whole."""

    instructions: str
    prompt: str
    max_tokens: int
    timeout: float


class Reply(NamedTuple):
    """An answer or a failure; what was spent is known of either."""

    answer: Answer | None
    failure: SummarizerError | None
    input_tokens: int
    output_tokens: int


@asynccontextmanager
async def open_model(name: str, base_url: str | None, api_key: str | None) -> AsyncGenerator[Model]:
    """The model of a pydantic-ai name such as `openai:gpt-4o-mini`, closed with the block."""
    provider, _, model = name.partition(":")
    if provider not in CHAT_COMPLETIONS:
        async with _inferred(name) as inferred:
            yield inferred
        return
    async with _client(name, base_url, api_key) as client:
        yield OpenAIChatModel(model, provider=OpenAIProvider(openai_client=client))


async def ask(model: Model, name: str, question: Question) -> Reply:
    with model_call(model.system, model.model_name, question.max_tokens, model.base_url) as call:
        reply, finish_reason = await _asked(model, name, question)
        note_answer(call, reply.input_tokens, reply.output_tokens, finish_reason)
        if reply.failure is not None:
            note_failure(call, error_kind(reply.failure))
    return reply


async def _asked(model: Model, name: str, question: Question) -> tuple[Reply, str | None]:
    """The reply, and why the model ended it."""
    used = RunUsage()
    settings = ModelSettings(
        max_tokens=question.max_tokens, timeout=question.timeout, max_retries=0
    )
    agent = Agent(model, output_type=Answer, instructions=question.instructions, retries=0)
    agent.instrument = False  # what a program wants told of its own agents is not told of ours
    answer, failed, finish_reason = None, None, None
    try:
        async with asyncio.timeout(question.timeout):
            run = await agent.run(question.prompt, model_settings=settings, usage=used)
        answer, finish_reason = run.output, run.response.finish_reason
    except Exception as error:
        failed = failure(error, name, question.timeout)
        failed.__cause__ = error
    return Reply(answer, failed, used.input_tokens, used.output_tokens), finish_reason


def _inferred(name: str) -> Model:
    try:
        return infer_model(name)
    except (UserError, ImportError) as error:
        reason = str(error).partition("\n")[0][:200]
        raise SummarizerRejected(f"{name!r} cannot be asked: {reason}") from error


def _client(name: str, base_url: str | None, api_key: str | None) -> AsyncOpenAI:
    if api_key is None and base_url is not None and "OPENAI_API_KEY" not in os.environ:
        api_key = "none"  # a server of one's own needs no key, but the client insists on one
    try:
        return AsyncOpenAI(base_url=base_url, api_key=api_key, max_retries=0)
    except OpenAIError as error:
        raise SummarizerRejected(f"{name!r} has no API key: set OPENAI_API_KEY") from error
