"""That every provider takes a prompt."""

from typing import Any

from durable_context import PreparedContext
from tests.provider_requests import check_anthropic, check_chat, check_gemini, check_responses


def requests_of(prepared: PreparedContext) -> dict[str, Any]:
    """The prompt in every form it can be sent in."""
    return {
        "messages": prepared.messages,
        "anthropic": prepared.to_anthropic(),
        "gemini": prepared.to_gemini(),
        "responses": prepared.to_responses_input(),
    }


def check_providers(prepared: PreparedContext) -> None:
    check_chat(prepared.messages)
    check_anthropic(prepared.to_anthropic())
    check_gemini(prepared.to_gemini())
    check_responses(prepared.to_responses_input())
