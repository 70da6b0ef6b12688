"""An event on the terminal, on one line."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

from rich.text import Text

from durable_context import ContextEvent
from durable_context.cli.output import one_line
from durable_context.cli.times import moment

_STYLES = {
    "compaction_failed": "red",
    "over_budget": "red",
    "damaged": "red",
    "compaction_skipped": "yellow",
}


def event_line(event: ContextEvent, *, iso: bool) -> Text:
    """Cursor, time, turn, kind, and the data but for ids that name what is named already."""
    turn = "" if event.turn_no is None else str(event.turn_no)
    kind = event.kind.replace("_", " ")
    text = Text(f"{event.cursor:>5}  {moment(event.at, iso=iso)}  {turn:>5}  ")
    text.append(f"{kind:<20} ", style=_STYLES.get(event.kind, "bold"))
    return text.append_text(one_line(" · ".join(_facts(event.data)), style="dim"))


def _facts(data: Mapping[str, Any]) -> Iterator[str]:
    for name, value in data.items():
        word = name.removesuffix("_id").replace("_", " ")
        if name.endswith("_uuid") or name == "compaction_id" or value in (None, False, 0, {}):
            continue
        if value is True:
            yield word
        elif isinstance(value, dict):
            parts = cast(dict[str, Any], value)
            yield f"{word}: {', '.join(f'{kind} {_shown(part)}' for kind, part in parts.items())}"
        elif isinstance(value, list):
            yield f"{word} {', '.join(map(_shown, cast(list[object], value)))}"
        else:
            yield f"{word} {_shown(value)}"


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
