"""Copies of messages and their parts that differ in one field. What is copied stays as it is."""

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any, cast

from pydantic import BaseModel

from durable_context.errors import ProcessorError
from durable_context.showing import shown


def with_field(original: Any, name: str, value: Any) -> Any:
    """A copy is of the same class, which may be frozen; that of a mapping is a dict. Raises
    ProcessorError where it lets no one set the field.
    """
    if isinstance(original, dict):
        changed = copy.copy(cast("dict[str, Any]", original))  # of its class, too
        changed[name] = value
        return changed
    if isinstance(original, Mapping):
        return {**cast("Mapping[str, Any]", original), name: value}
    if isinstance(original, BaseModel):
        return original.model_copy(update={name: value})
    try:
        if isinstance(original, tuple):
            return cast(Any, original)._replace(**{name: value})
        return _changed(original, name, value)
    except (AttributeError, TypeError, ValueError) as error:
        what = shown(cast(object, original))
        raise ProcessorError(f"{what} has a {name!r} that cannot be replaced") from error


def _changed(original: Any, name: str, value: Any) -> Any:
    changed = copy.copy(original)
    try:
        setattr(changed, name, value)
    except dataclasses.FrozenInstanceError:
        return dataclasses.replace(original, **{name: value})
    return changed
