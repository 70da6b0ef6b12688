"""Makes the summarizer chain that the settings name."""

from durable_context.summarizers import Summarizer
from durable_context.summarizers.extractive import ExtractiveSummarizer
from worker.settings import EXTRACTIVE, Settings


def make_summarizer(settings: Settings) -> Summarizer:
    assert settings.summarizers == (EXTRACTIVE,)
    return ExtractiveSummarizer()
