"""Ids that come from outside: any text that an index can hold."""

from secrets import token_hex

from durable_context.errors import InvalidId

LONGEST_BYTES = 500
OFFLOADED_HANDLE = r"off_[0-9a-f]{12}"
"""Form of the handles by which markers of processors name a content."""


def check_ids(**ids: str) -> None:
    """Raises InvalidId, which names the id and what is allowed."""
    for name, value in ids.items():
        if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidId(f"{name}={value!r:.80} must be text, not {type(value).__name__}")
        if not value or "\x00" in value:
            raise InvalidId(f"{name}={value!r:.80} must be non-empty text without NUL")
        try:
            size = len(value.encode())
        except UnicodeEncodeError:
            raise InvalidId(f"{name}={value!r:.80} has characters that UTF-8 cannot hold") from None
        if size > LONGEST_BYTES:
            raise InvalidId(
                f"{name}={value!r:.40}... is {size} bytes long, {LONGEST_BYTES} are allowed"
            )


def derived_id(branch_id: str, turn_no: int) -> str:
    """A new id for a branch that goes on from a turn of another."""
    ending = f"@{turn_no}-{token_hex(4)}"
    room = LONGEST_BYTES - len(ending)
    return branch_id.encode()[:room].decode(errors="ignore") + ending
