"""A checkpoint as the command line names it."""

from uuid import UUID

import typer

_MOST_DIGITS = 10


def checkpoint_of(text: str, parameter: str) -> int | UUID:
    """A turn number or an id. Raises BadParameter."""
    if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS:
        return int(text)
    try:
        return UUID(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r:.80} is neither the turn of a checkpoint nor the id of one",
            param_hint=parameter,
        ) from None
