"""One turn in each provider's format, with all that the format can hold, and prompts of it."""

from collections.abc import Sequence
from typing import Any

from durable_context import Message
from durable_context.models import Reasoning
from durable_context.providers.outgoing.anthropic import to_anthropic
from durable_context.providers.outgoing.gemini import to_gemini
from durable_context.providers.outgoing.responses import to_responses_input
from durable_context.turns.messages import turn_messages
from durable_context.turns.sendable import sendable, to_openai

PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PDF = "JVBERi0xLjQKJSBhIGRvY3VtZW50Cg=="

ANTHROPIC: list[dict[str, Any]] = [
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is on this?"},
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": PNG},
            },
            {"type": "image", "source": {"type": "url", "url": "https://example.org/b.png"}},
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
                "title": "plan.pdf",
                "context": "The plan of the house.",
                "citations": {"enabled": True},
            },
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": "100 % plain"},
            },
            {"type": "container_upload", "file_id": "file_011C"},
        ],
    },
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "First I look.", "signature": "c2lnbmVk"},
            {"type": "redacted_thinking", "data": "ZW5jcnlwdGVk"},
            {"type": "text", "text": "Let me see."},
            {"type": "thinking", "thinking": "Both at once.", "signature": "YWdhaW4="},
            {"type": "tool_use", "id": "toolu_1", "name": "find", "input": {"q": "é", "n": 1.5}},
            {"type": "tool_use", "id": "toolu_2", "name": "find", "input": {}},
        ],
    },
    {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "toolu_1",
                "content": "no such thing",
                "is_error": True,
            },
            {
                "type": "tool_result",
                "tool_use_id": "toolu_2",
                "content": [
                    {"type": "text", "text": "this one"},
                    {
                        "type": "image",
                        "source": {"type": "base64", "media_type": "image/png", "data": PNG},
                    },
                ],
            },
        ],
    },
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "I need the web.", "signature": "Zmlyc3Q="},
            {"type": "text", "text": "I search the web."},
            {
                "type": "server_tool_use",
                "id": "srvtoolu_1",
                "name": "web_search",
                "input": {"query": "red square"},
            },
            {
                "type": "web_search_tool_result",
                "tool_use_id": "srvtoolu_1",
                "content": [
                    {
                        "type": "web_search_result",
                        "title": "Squares",
                        "url": "https://example.org/squares",
                        "encrypted_content": "b3BhcXVl",
                    }
                ],
            },
            {"type": "thinking", "thinking": "That is it.", "signature": "bGFzdA=="},
            {"type": "text", "text": "A red square."},
        ],
    },
]
"""The last message thinks in the middle, as models with interleaved thinking do."""

RESPONSES: list[dict[str, Any]] = [
    {
        "type": "message",
        "role": "user",
        "content": [
            {"type": "input_text", "text": "What is on this?"},
            {
                "type": "input_image",
                "image_url": f"data:image/png;base64,{PNG}",
                "detail": "low",
            },
            {"type": "input_image", "file_id": "file-7", "detail": "auto"},
            {
                "type": "input_file",
                "filename": "plan.pdf",
                "file_data": f"data:application/pdf;base64,{PDF}",
            },
            {"type": "input_file", "file_id": "file-8"},
            {"type": "input_file", "file_url": "https://example.org/plan.pdf"},
        ],
    },
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "b3BhcXVl"},
    {
        "type": "message",
        "role": "assistant",
        "id": "msg_1",
        "status": "completed",
        "phase": "commentary",
        "content": [
            {"type": "output_text", "text": "Let me", "annotations": []},
            {"type": "output_text", "text": " see.", "annotations": []},
        ],
    },
    {
        "type": "reasoning",
        "id": "rs_2",
        "summary": [{"type": "summary_text", "text": "Both at once."}],
    },
    {
        "type": "function_call",
        "call_id": "call_1",
        "name": "find",
        "arguments": '{"q":"é"}',
        "id": "fc_1",
        "status": "completed",
    },
    {
        "type": "function_call",
        "call_id": "call_2",
        "name": "find",
        "arguments": "{}",
        "id": "fc_2",
        "status": "completed",
    },
    {"type": "function_call_output", "call_id": "call_1", "output": "nothing"},
    {
        "type": "function_call_output",
        "call_id": "call_2",
        "output": [
            {"type": "input_text", "text": "this one"},
            {
                "type": "input_image",
                "image_url": f"data:image/png;base64,{PNG}",
                "detail": "auto",
            },
        ],
    },
    {"type": "reasoning", "id": "rs_3", "summary": [], "encrypted_content": "bW9yZQ=="},
    {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "red square"},
    },
    {
        "type": "message",
        "role": "assistant",
        "id": "msg_2",
        "status": "completed",
        "phase": "final_answer",
        "content": [
            {"type": "output_text", "text": "A red square.", "annotations": []},
            {"type": "refusal", "refusal": "I say no more."},
        ],
    },
]

GEMINI: list[dict[str, Any]] = [
    {
        "role": "user",
        "parts": [
            {"text": "What is on this?"},
            {"inline_data": {"mime_type": "image/png", "data": b"\x89PNG\r\n\x1a\n\x00\xff"}},
            {"inline_data": {"mime_type": "application/pdf", "data": b"%PDF-1.4\n"}},
            {"file_data": {"mime_type": "video/mp4", "file_uri": "gs://bucket/clip.mp4"}},
        ],
    },
    {
        "role": "model",
        "parts": [
            {"text": "First I look.", "thought": True},
            {"text": "Let me see.", "thought_signature": b"text"},
            {
                "function_call": {"name": "find", "args": {"q": "é"}, "id": "7"},
                "thought_signature": b"\x00signed\xff",
            },
            {"function_call": {"name": "find", "args": {}}},
            {"function_call": {"name": "find", "args": {}}},
        ],
    },
    {
        "role": "user",
        "parts": [
            {"function_response": {"name": "find", "id": "7", "response": {"output": "none"}}},
            {"function_response": {"name": "find", "response": {"found": [1, 2.5, None]}}},
            {
                "function_response": {
                    "name": "find",
                    "response": {"output": '{"a": 1}'},
                    "parts": [{"inline_data": {"mime_type": "image/png", "data": b"\x89PNG\r\n"}}],
                }
            },
        ],
    },
    {
        "role": "model",
        "parts": [
            {"executable_code": {"language": "PYTHON", "code": "1 + 1"}},
            {"code_execution_result": {"outcome": "OUTCOME_OK", "output": "2"}},
            {"text": "A red square."},
            {"text": "", "thought_signature": b"stream"},
        ],
    },
]


def recorded(*messages: object) -> tuple[Message, ...]:
    return turn_messages(messages, "complete")


def chat_of(messages: Sequence[Message]) -> list[dict[str, Any]]:
    return [to_openai(sendable(message)) for message in messages]


def blocks_of(messages: Sequence[Message]) -> dict[int, tuple[Reasoning, ...]]:
    return {n: message.reasoning for n, message in enumerate(messages) if message.reasoning}


def anthropic(messages: Sequence[Message], **more: Any) -> dict[str, Any]:
    return to_anthropic(chat_of(messages), blocks=blocks_of(messages), **more)


def responses(messages: Sequence[Message]) -> list[dict[str, Any]]:
    return to_responses_input(chat_of(messages), blocks=blocks_of(messages))


def gemini(messages: Sequence[Message], **more: Any) -> dict[str, Any]:
    return to_gemini(chat_of(messages), blocks=blocks_of(messages), **more)
