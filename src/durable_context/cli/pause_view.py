"""A pause on the terminal."""

from rich.text import Text

from durable_context.cli.output import visible
from durable_context.cli.times import moment
from durable_context.models import Pause


def pause_text(pause: Pause, *, iso: bool) -> Text:
    """Since when nothing is compacted, and why."""
    whose = "paused" if pause.of == "branch" else "paused with all of its tenant"
    why = f": {' '.join(visible(pause.because).split())}" if pause.because else ""
    return Text(f"{whose} since {moment(pause.since, iso=iso)}{why}", style="yellow")
