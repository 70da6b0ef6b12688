"""The real model summarizer, pointed at the tests' own model server."""

# Loaded before any test: the first call would take longer than the tests' heartbeats may be late.
import durable_context.summarizers.providers  # noqa: F401
from durable_context.summarizers import Summarizer
from durable_context.summarizers.model import ModelSummarizer


def model_summarizer(base_url: str) -> Summarizer:
    return ModelSummarizer("openai:made-up", base_url=base_url, api_key="made-up")
