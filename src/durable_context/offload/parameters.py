"""What steers an offload, checked: nothing unknown is ignored and nothing senseless accepted."""

from contextlib import suppress
from typing import Any, get_args

from durable_context.contracts import OffloadMode, OffloadParameters, SummaryRole
from durable_context.errors import InvalidArgument
from durable_context.showing import shown
from durable_context.tokens import ENCODINGS


def checked_parameters(**given: Any) -> OffloadParameters:
    """Raises InvalidArgument, which names the value and what is allowed."""
    for name in ("max_total_tokens", "max_tool_message_tokens"):
        _check_number(name, given[name], 1)
    if given["group_token_threshold"] is not None:
        _check_number("group_token_threshold", given["group_token_threshold"], 0, " or None")
    if given["keep_recent_count"] is not None:
        _check_number("keep_recent_count", given["keep_recent_count"], 1, " or None")
    _check_number("preview_chars", given["preview_chars"], 0)
    _check_share("compact_ratio_threshold", given["compact_ratio_threshold"])
    _check_choice("context_manage_mode", given["context_manage_mode"], get_args(OffloadMode))
    _check_choice("summary_role", given["summary_role"], get_args(SummaryRole))
    _check_choice("encoding", given["encoding"], ENCODINGS)
    return OffloadParameters(**given)


def check_chat_id(chat_id: object) -> None:
    """Any text will do: no path is ever made of it."""
    if isinstance(chat_id, str) and chat_id:
        with suppress(UnicodeEncodeError):
            chat_id.encode()
            return
    raise InvalidArgument(f"chat_id={shown(chat_id)}; allowed is text that is not empty, or None")


def _check_number(name: str, value: object, least: int, more: str = "") -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InvalidArgument(
            f"{name}={shown(value)}; allowed are whole numbers from {least}{more}"
        )


def _check_share(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidArgument(f"{name}={shown(value)}; allowed are numbers from 0 to 1")


def _check_choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in allowed:
        raise InvalidArgument(f"{name}={shown(value)}; allowed are {', '.join(allowed)}")
