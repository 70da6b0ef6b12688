"""Where originals are kept, under names that follow from their content."""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Final, Literal, NamedTuple, Protocol

from durable_context.artifacts.contents import encoded
from durable_context.models import Value
from durable_context.text import clean, one_line

Kind = Literal["tool_message", "message_group"]

SUFFIXES: Final[Mapping[Kind, str]] = {"tool_message": ".txt", "message_group": ".json"}
_FOLDER_DIGITS: Final = 32
_LONGEST_LABEL: Final = 80


class StoredFile(Value):
    """An original. `reference` is what messages show, and what `load` takes; `size` is in bytes.

    `name` is that of the tool, or of the roles of a group, where it is known.
    """

    reference: str
    kind: Kind
    sha256: str
    size: int
    name: str | None
    created_at: datetime


class NewFile(NamedTuple):
    """An original about to be stored."""

    kind: Kind
    data: bytes
    sha256: str
    name: str | None

    @property
    def file_name(self) -> str:
        """Hash and kind: nothing from outside gets into it."""
        return f"{self.sha256}{SUFFIXES[self.kind]}"


class OffloadStore(Protocol):
    """Keeps the originals of one chat."""

    def placeholder(self, new: NewFile) -> str:
        """A reference no shorter than the one that `put` would return."""
        ...

    async def put(self, new: NewFile) -> StoredFile:
        """It is there for good when this returns. The same content again is the same file.

        Raises OSError or a DurableContextError.
        """
        ...

    async def load(self, reference: str) -> str:
        """The whole content, verified. Raises ArtifactNotFound, ArtifactDamaged."""
        ...

    async def files(self) -> tuple[StoredFile, ...]:
        """All of the chat, oldest first."""
        ...


def label(name: object) -> str:
    """A name from outside, as it is stored and shown."""
    return one_line(clean(str(name)))[:_LONGEST_LABEL]


def new_file(kind: Kind, content: str, name: str | None) -> NewFile:
    """CPU only."""
    data = encoded(content)
    return NewFile(kind, data, hashlib.sha256(data).hexdigest(), name)


def folder_of(chat_id: str) -> str:
    """The folder of a chat: hexadecimal digits, whatever the id holds."""
    return hashlib.sha256(encoded(chat_id)).hexdigest()[:_FOLDER_DIGITS]
