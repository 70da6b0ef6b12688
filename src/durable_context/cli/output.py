"""What goes to the terminal: text of users, tools and models as plain text, and JSON that no
terminal wraps.
"""

import json
import os
import re
from datetime import datetime
from typing import Any, TextIO
from uuid import UUID

import typer
from pydantic import BaseModel
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

_WIDTH_OF_A_PIPE = 120
# Escape sequences, and characters that reorder what stands around them.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")


def console(stream: TextIO | None = None) -> Console:
    """On standard output unless told otherwise."""
    made = Console(file=stream, highlight=False)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = _WIDTH_OF_A_PIPE
    return made


def plain(text: object, style: str = "") -> Text:
    """Text that is shown as it is: no markup, no escape sequences."""
    return Text(visible(str(text)), style=style)


def one_line(text: object, style: str = "") -> Text:
    return Text(
        " ".join(visible(str(text)).split()), style=style, no_wrap=True, overflow="ellipsis"
    )


def titled_table(title: str) -> Table:
    return Table(
        title=Text(title, style="bold"),
        title_justify="left",
        box=None,
        pad_edge=False,
        header_style="dim",
    )


class Line:
    """Text on one line of whatever width there is: a cut shows as one ellipsis, never two."""

    def __init__(self, text: Text) -> None:
        self._text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        line = self._text.copy()
        if line.cell_len > options.max_width:
            line.truncate(options.max_width - 1, overflow="crop")
            kept = line[: len(line.plain.rstrip("… "))]
            line = kept.append("…")
        yield line


def visible(text: str) -> str:
    return _UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def print_json(value: object) -> None:
    """On one line, in ASCII: every string survives, lone surrogates included."""
    typer.echo(json.dumps(value, default=_json_value))


def _json_value(value: object) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{value!r:.80} has no JSON form")
