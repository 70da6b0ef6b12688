"""Recorded conversations in files, read for replay: in a format of OpenAI, Anthropic or Gemini, or
as plain question and answer turns.
"""

from durable_context.transcripts.files import read_transcripts
from durable_context.transcripts.model import Transcript, TranscriptError, TranscriptTurn
from durable_context.transcripts.splitting import stretches

__all__ = ["Transcript", "TranscriptError", "TranscriptTurn", "read_transcripts", "stretches"]
