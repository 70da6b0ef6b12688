"""Lines of an exported branch: records as JSON, none longer than 2 MiB, and a last line by which a
stream that was cut or altered is told from a whole one.
"""

import hashlib
from collections.abc import Iterator
from typing import IO, Any, Final, NamedTuple, TypeVar, cast

from pydantic import BaseModel, ValidationError

from durable_context import stored_json
from durable_context.errors import InvalidExport
from durable_context.exports import older
from durable_context.exports.format import (
    FORMAT,
    PIECE,
    RECORD,
    VERSION,
    BranchRecord,
    EndRecord,
    PieceRecord,
    Record,
)

LONGEST: Final = 1_048_576
"""Characters of a record that is written on one line."""
LONGEST_LINE: Final = 4_194_304
"""Bytes of a line that is read."""
MOST_PIECES: Final = 512
"""Pieces of a record that is read: 256 Mi characters."""
BATCH: Final = 1_048_576
"""Characters of records that are read before they are written."""

# Ends of lines to str.splitlines(), though JSON need not escape them.
_LINE_ENDS: Final = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}

_Model = TypeVar("_Model", bound=BaseModel)


class Numbered(NamedTuple):
    """A record with the number of its line, or of its last piece's."""

    line: int
    record: Record


class LineWriter:
    """Makes the lines of one stream, and counts and hashes them on the way."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._records = 0

    def lines(self, record: dict[str, Any]) -> Iterator[str]:
        text = _dumped(record)
        if len(text) <= LONGEST:
            yield self._line(text)
            return
        for start in range(0, len(text), PIECE):
            last = start + PIECE >= len(text)
            piece = {"kind": "piece", "text": text[start : start + PIECE], "last": last}
            yield self._line(_dumped(piece))

    def end(self) -> str:
        fields = {"kind": "end", "records": self._records, "sha256": self._hash.hexdigest()}
        return self._line(_dumped(fields))

    def _line(self, text: str) -> str:
        line = f"{text}\n"
        self._hash.update(line.encode())
        self._records += 1
        return line


def _dumped(record: dict[str, Any]) -> str:
    text = stored_json.dumps(record)
    return text if text.isascii() else text.translate(_LINE_ENDS)


class Received:
    """Lines as they come in, kept in a file until the last one has proved them whole."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self._lines = 0
        self._blank = 0
        self._last = b""

    def add(self, lines: list[object]) -> None:
        """Lines with or without their ends. Raises InvalidExport."""
        for line in lines:
            self._add(self._encoded(line))

    def _add(self, line: bytes) -> None:
        if not line:
            self._blank += 1
            return
        if self._blank:
            raise InvalidExport(f"line {self._lines + 1} is empty")
        self._hash.update(self._last)
        self._last = line + b"\n"
        self._file.write(self._last)
        self._lines += 1

    def _encoded(self, line: object) -> bytes:
        where = f"line {self._lines + self._blank + 1}"
        if not isinstance(line, str):
            raise InvalidExport(f"{where} is {type(line).__name__}; lines must be text")
        try:
            data = line.rstrip("\r\n").encode()
        except UnicodeEncodeError:
            raise InvalidExport(f"{where} is not UTF-8") from None
        if len(data) > LONGEST_LINE:
            raise InvalidExport(f"{where} is longer than {LONGEST_LINE:,} bytes")
        return data

    def check(self) -> None:
        """Raises InvalidExport unless the last line says that all lines before it are here, as
        they were written.
        """
        number = self._lines
        if not number:
            raise InvalidExport("line 1 is missing: the stream is empty")
        fields = _fields(self._last.decode(), number)
        if fields.get("kind") != "end":
            raise InvalidExport(f"line {number} is the last and no end record: the stream was cut")
        end = _validated(EndRecord, fields, number)
        if end.records != number - 1:
            raise InvalidExport(
                f"line {number} ends {end.records} records, but {number - 1} lines are before it"
            )
        if end.sha256 != self._hash.hexdigest():
            self._find_fault()
            raise InvalidExport(f"line {number}: a line before it was altered: the hash differs")

    def _find_fault(self) -> None:
        for _ in self.batches():
            pass

    def header(self) -> BranchRecord:
        """The first record. Raises InvalidExport."""
        self._file.seek(0)
        return read_header(self._file.readline().decode())

    def _version(self) -> object:
        """The stream's own. Leaves the file behind the first line. Raises InvalidExport."""
        self.header()
        self._file.seek(0)
        return _fields(self._file.readline().decode(), 1).get("version")

    def batches(self) -> Iterator[list[Numbered]]:
        """The records between the first and the last, some of one kind at a time.

        Raises InvalidExport.
        """
        version = self._version()
        batch: list[Numbered] = []
        size = 0
        for number, length, found in self._objects():
            fields = older.record(found, version)
            if fields is None:
                continue
            record = _record(fields, number)
            if batch and (size > BATCH or record.kind != batch[0].record.kind):
                yield batch
                batch, size = [], 0
            batch.append(Numbered(number, record))
            size += length
        if batch:
            yield batch

    def _objects(self) -> Iterator[tuple[int, int, dict[str, Any]]]:
        """Line, length and fields of each record, put together from its pieces."""
        pieces: list[str] = []
        for number in range(2, self._lines):
            line = self._file.readline().decode()
            fields = _fields(line, number)
            if fields.get("kind") == "piece":
                piece = _validated(PieceRecord, fields, number)
                pieces.append(piece.text)
                if len(pieces) > MOST_PIECES:
                    raise InvalidExport(f"line {number}: a record has up to {MOST_PIECES} pieces")
                if piece.last:
                    text = "".join(pieces)
                    pieces = []
                    yield number, len(text), _fields(text, number)
            elif pieces:
                raise InvalidExport(f"line {number}: the record before it has no last piece")
            else:
                yield number, len(line), fields
        if pieces:
            raise InvalidExport(f"line {self._lines}: the record before it has no last piece")


def read_header(line: str) -> BranchRecord:
    """The first record of a stream. Raises InvalidExport."""
    fields = _fields(line, 1)
    if fields.get("kind") != "branch" or fields.get("format") != FORMAT:
        raise InvalidExport(f"line 1 is not the first one of an exported branch ({FORMAT})")
    version = fields.get("version")
    if version not in (*older.VERSIONS, VERSION):
        raise InvalidExport(
            f"line 1: version {version!r:.40} of {FORMAT} is not known here, {older.VERSIONS[0]} to"
            f" {VERSION} are: import it with the release that wrote it, or a newer one"
        )
    if version != VERSION:
        fields = older.header(fields) | {"version": VERSION}
    return _validated(BranchRecord, fields, 1)


def _record(fields: dict[str, Any], number: int) -> Record:
    try:
        return RECORD.validate_python(fields)
    except (ValidationError, RecursionError) as error:
        raise _invalid(error, number) from None


def _validated(model: type[_Model], fields: object, number: int) -> _Model:
    try:
        return model.model_validate(fields)
    except (ValidationError, RecursionError) as error:
        raise _invalid(error, number) from None


def _fields(text: str, number: int) -> dict[str, Any]:
    try:
        value = stored_json.loads(text)
    except TypeError:  # lone surrogates
        raise InvalidExport(f"line {number} is not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise InvalidExport(f"line {number}: not JSON: {error!s:.200}") from None
    if not isinstance(value, dict):
        raise InvalidExport(f"line {number} is no JSON object")
    return cast(dict[str, Any], value)


def _invalid(error: Exception, number: int) -> InvalidExport:
    if not isinstance(error, ValidationError):
        return InvalidExport(f"line {number} is nested too deep")
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return InvalidExport(f"line {number}: {place or 'record'}: {first['msg']:.300}")
