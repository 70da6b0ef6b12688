"""The span of a call of a model, by OpenTelemetry's conventions for generative AI.

pydantic-ai's own would record the provider's error with its message, which may quote the prompt.
"""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final
from urllib.parse import urlsplit

from opentelemetry.trace import Span, SpanKind, StatusCode

from durable_context.telemetry.spans import (
    CONVERSATION,
    ERROR_TYPE,
    INPUT_TOKENS,
    MODEL,
    OUTPUT_TOKENS,
    Said,
    say,
    span,
)

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
MAX_TOKENS: Final = "gen_ai.request.max_tokens"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
CHAT: Final = "chat"

_PROVIDERS: Final = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "google": "gcp.gemini",
    "google-cloud": "gcp.vertex_ai",
    "google-gla": "gcp.gemini",
    "google-vertex": "gcp.vertex_ai",
    "grok": "x_ai",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}
"""Those that the conventions call otherwise than pydantic-ai does."""

conversation: Final[ContextVar[str | None]] = ContextVar("conversation", default=None)
"""For which models are asked from here on: its id as it may be shown."""


@contextmanager
def model_call(
    provider: str, model: str, max_tokens: int, base_url: str | None = None
) -> Generator[Span]:
    attributes: dict[str, Said] = {
        OPERATION: CHAT,
        PROVIDER: _PROVIDERS.get(provider, provider),
        MODEL: model,
        MAX_TOKENS: max_tokens,
        CONVERSATION: conversation.get(),
        **_server(base_url),
    }
    with span(f"{CHAT} {model}", attributes, kind=SpanKind.CLIENT) as call:
        yield call


def note_answer(
    call: Span, input_tokens: int, output_tokens: int, finish_reason: str | None
) -> None:
    say(call, {INPUT_TOKENS: input_tokens, OUTPUT_TOKENS: output_tokens})
    if finish_reason is not None:
        call.set_attribute(FINISH_REASONS, [finish_reason])


def note_failure(call: Span, kind: str) -> None:
    """`kind`: the provider's status, or the type of what was raised."""
    call.set_attribute(ERROR_TYPE, kind)
    call.set_status(StatusCode.ERROR)


def _server(base_url: str | None) -> dict[str, Said]:
    if base_url is None:
        return {}
    try:
        url = urlsplit(base_url)
        return {SERVER_ADDRESS: url.hostname, SERVER_PORT: url.port}
    except ValueError:
        return {}
