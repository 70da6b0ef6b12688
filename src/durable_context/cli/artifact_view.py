"""Artifacts on the terminal."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from durable_context.artifacts.reading import ArtifactContent
from durable_context.cli.output import one_line, titled_table
from durable_context.models import Artifact

_NEWEST = 10


def artifact_table(artifacts: Sequence[Artifact]) -> Table:
    """The newest ones, newest last."""
    newest = artifacts[-_NEWEST:]
    shown = f"newest {len(newest)} of " if len(newest) < len(artifacts) else ""
    table = titled_table(f"artifacts: {shown}{len(artifacts)}, newest last")
    table.add_column("handle", no_wrap=True)
    table.add_column("name", max_width=30)
    table.add_column("type", max_width=24)
    for name in ("bytes", "turn"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("headline", ratio=1)
    for artifact in newest:
        table.add_row(
            artifact.handle,
            artifact_name(artifact),
            one_line(artifact.media_type),
            f"{artifact.size:,}",
            str(artifact.turn_no),
            one_line(artifact.headline or "", style="dim"),
        )
    return table


def artifact_name(artifact: Artifact) -> Text:
    """The name, with its version where it has one."""
    name = one_line(artifact.name or "")
    return name if artifact.version is None else name.append(f" v{artifact.version}")


def artifact_text(read: ArtifactContent) -> Text:
    """What was read of which artifact, in a line."""
    artifact = read.artifact
    text = Text(artifact.handle, style="bold")
    if artifact.name:
        text.append(" · ", style="not bold").append_text(artifact_name(artifact))
    text.append(" · ", style="not bold").append_text(one_line(artifact.media_type))
    text.append(f" · {artifact.size:,} bytes, {artifact.token_count:,} tokens", style="not bold")
    if read.line_count is not None:
        text.append(f" · {_lines(read)} of {read.line_count:,} lines", style="not bold")
    return text


def _lines(read: ArtifactContent) -> str:
    if read.matches is not None:
        return f"{read.matches:,}"
    if read.from_line is None or read.to_line is None:
        return "none"
    return f"{read.from_line:,}–{read.to_line:,}"
