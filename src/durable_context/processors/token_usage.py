"""The check of token counts that contexts, checkpoints and trackers are given."""

from collections.abc import Mapping
from typing import cast

from durable_context.errors import ContextError
from durable_context.showing import shown


def check_usage(usage: object, error: type[ContextError] = ContextError) -> None:
    """Raises the error unless it maps names to counts that are whole and not negative."""
    if not isinstance(usage, Mapping):
        raise error(f"token_usage={shown(usage)}; it must be a dict of counts")
    for key, count in cast("Mapping[object, object]", usage).items():
        if not isinstance(key, str):
            raise error(f"token_usage has a key {shown(key)}; keys must be text")
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise error(f"{key}={shown(count)}; it must be a whole number, from 0")
