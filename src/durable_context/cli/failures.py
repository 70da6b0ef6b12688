"""Errors as a user of the command line sees them: one line that says what to do, and an exit
code.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

import asyncpg
import typer

from durable_context.cli.output import visible
from durable_context.client import DATABASE_URL
from durable_context.compaction.connection_errors import without_rust
from durable_context.errors import (
    ArtifactNotFound,
    CheckpointNotFound,
    CompactionPaused,
    CompactionUnavailable,
    DatabaseUnavailable,
    DurableContextError,
    InvalidArgument,
    TurnKeyConflict,
    UnknownBranch,
)
from durable_context.transcripts import TranscriptError

FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130

_ADVICE: tuple[tuple[type[Exception], str], ...] = (
    (
        DatabaseUnavailable,
        f"Name a running one with --database-url or {DATABASE_URL}; `python -m worker dev` starts"
        " one and prints its URL.",
    ),
    (
        TurnKeyConflict,
        "The conversation was recorded from another file or with another --stretch: choose another"
        " --conversation prefix.",
    ),
    (UnknownBranch, "Ids are exact; see --tenant."),
    (CompactionPaused, "`durable-context resume` ends the pause."),
)
_NOT_JSON = "Allowed are JSON and JSON Lines (.jsonl) in OpenAI or Anthropic format."


def run(command: Coroutine[Any, Any, int]) -> None:
    """Run a command to its exit code; an error ends it with one line on standard error."""
    try:
        code = asyncio.run(command)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except (TranscriptError, InvalidArgument, CheckpointNotFound, ArtifactNotFound) as error:
        raise _failure(error, BAD_INPUT) from error
    except (DurableContextError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise _failure(error, FAILED) from error
    raise typer.Exit(code)


def complain(message: str) -> None:
    typer.echo(f"durable-context: {' '.join(visible(message).split())}", err=True)


def _failure(error: Exception, code: int) -> typer.Exit:
    message = str(error) or type(error).__name__
    if isinstance(error, CompactionUnavailable):
        message = without_rust(message)
    advice = _advice(error)
    end = "" if message.endswith((".", "!", "?")) or not advice else "."
    complain(f"{message}{end} {advice}".strip())
    return typer.Exit(code)


def _advice(error: Exception) -> str:
    if isinstance(error, TranscriptError) and ": not JSON: " in str(error):
        return _NOT_JSON
    return next((text for kind, text in _ADVICE if isinstance(error, kind)), "")
