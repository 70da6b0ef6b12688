"""Values in records of an exported branch, bounded to what the database can hold."""

from datetime import UTC, datetime
from typing import Annotated, Any, Final

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field

from durable_context import stored_json
from durable_context.errors import InvalidTurn
from durable_context.text import clean

TERM_BYTES: Final = 2_046
"""A lexeme of PostgreSQL has no more."""
LONGEST_REASON: Final = 200


def _storable(text: str) -> str:
    if "\x00" in text:
        raise ValueError("text here cannot hold NUL")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("text here cannot hold lone surrogates") from None
    return text


def _harmless(text: str) -> str:
    if clean(text) != text:
        raise ValueError("text here cannot hold a delimiter of our blocks")
    return text


def _utc(time: datetime) -> datetime:
    if not 1 < time.year < 9999:
        raise ValueError("allowed are the years 2 to 9998")
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise ValueError("there is no such time in UTC") from None


def bounded_json(value: object) -> object:
    try:
        stored_json.check_json(value, "it")
    except InvalidTurn as error:
        raise ValueError(str(error)[-LONGEST_REASON:]) from None
    return value


Text = Annotated[str, AfterValidator(_storable)]
Filled = Annotated[Text, Field(min_length=1)]
Shown = Annotated[Text, AfterValidator(_harmless)]
"""Stands in prompts as it is."""
FilledShown = Annotated[Shown, Field(min_length=1)]
Term = Annotated[Filled, Field(max_length=TERM_BYTES)]
Count = Annotated[int, Field(ge=0, le=2**31 - 1)]
Positive = Annotated[int, Field(ge=1, le=2**31 - 1)]
Figure = Annotated[int, Field(ge=0, le=2**63 - 1)]
Small = Annotated[int, Field(ge=1, le=2**15 - 1)]
Time = Annotated[AwareDatetime, AfterValidator(_utc)]
Sha256 = Annotated[str, Field(pattern=r"\A[0-9a-f]{64}\z")]
Places = Annotated[str, Field(pattern=r"\A([0-9a-f]{4})*\z", max_length=4 * 32_767)]
"""Bytes in hexadecimal."""
Handle = Annotated[str, Field(pattern=r"\Aart_[A-Za-z0-9_-]{22}\z")]
Free = Annotated[dict[str, Any], BeforeValidator(bounded_json)]
