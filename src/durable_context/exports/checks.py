"""What must hold between the records of a stream where no constraint of the database says it."""

import binascii
import hashlib
from binascii import a2b_base64
from collections.abc import Iterable
from typing import Final
from uuid import UUID

from durable_context.artifacts.offloading import pointers
from durable_context.errors import InvalidExport, InvalidTurn
from durable_context.exports.control_records import PinRecord
from durable_context.exports.format import ORDER, BranchRecord, ContentRecord, Counts, Record
from durable_context.exports.lines import Numbered
from durable_context.exports.records import (
    ArtifactRecord,
    ArtifactSummaryRecord,
    CheckpointRecord,
    DocumentRecord,
    PromptPartsRecord,
    SummaryRecord,
    TurnRecord,
)
from durable_context.pins import MOST_PINS
from durable_context.prompts.rendering import CHECKPOINT_HEAD, FOOT
from durable_context.text import clean
from durable_context.turns.pairing import with_results

_COUNTED: Final = {
    "content": "contents",
    "artifact": "artifacts",
    "artifact_summary": "artifact_summaries",
    "prompt_parts": "prompt_parts",
    "turn": "turns",
    "summary": "summaries",
    "checkpoint": "checkpoints",
    "document": "documents",
    "compaction": "compactions",
    "pin": "pins",
}


class _Fault(Exception):
    """What is wrong with a record."""


class Checks:
    """Sees every record of one stream, in order. Keeps hashes and ids, no content."""

    def __init__(self, header: BranchRecord) -> None:
        self._header = header
        self._counts = dict.fromkeys(Counts.model_fields, 0)
        self._kind = ORDER[0]
        self._open: tuple[ContentRecord, bytearray] | None = None
        self._sizes: dict[str, int] = {}
        self._unused: set[str] = set()
        self._parts: set[str] = set()
        self._pointers: set[tuple[str, int, int]] = set()
        self._head_tokens = 0
        self._open_run: int | None = None
        self._nodes: dict[UUID, tuple[int, int]] = {}
        self._checkpoint_turn = 0
        self._leaves = 0
        self._leaves_length = 0

    def check(self, batch: Iterable[Numbered]) -> list[bytes]:
        """Contents that are whole now. Raises InvalidExport."""
        whole: list[bytes] = []
        for line, record in batch:
            try:
                self._check_order(record)
                if isinstance(record, ContentRecord):
                    whole += self._content(record)
                else:
                    self._check(record)
                    self._counts[_COUNTED[record.kind]] += 1
            except _Fault as fault:
                raise InvalidExport(f"line {line}: {record.kind}: {fault}") from None
        return whole

    def check_end(self) -> None:
        """Raises InvalidExport unless all that the first line tells of was there."""
        header = self._header
        told = header.counts.model_dump()
        figures = {name: (told[name], count) for name, count in self._counts.items()}
        figures["head_turn"] = header.head_turn, self._counts["turns"]
        figures["head_tokens"] = header.head_tokens, self._head_tokens
        figures["open_run_turn"] = header.open_run_turn or 0, self._open_run or 0
        figures["checkpoint_turn"] = header.checkpoint_turn, self._checkpoint_turn
        for name, (expected, found) in figures.items():
            if expected != found:
                raise InvalidExport(f"line 1: {name} is {expected}, the lines after it say {found}")
        if self._open is not None:
            raise InvalidExport(f"content {self._open[0].sha256} is not whole")
        if self._pointers:
            handle, turn_no, message_no = min(self._pointers)
            raise InvalidExport(
                f"message {message_no} of turn {turn_no} points to artifact {handle!r:.80}, which"
                " the stream does not have there"
            )
        if self._unused:
            raise InvalidExport(f"content {min(self._unused)} is of no artifact")

    def _check_order(self, record: Record) -> None:
        if ORDER.index(record.kind) < ORDER.index(self._kind):
            raise _Fault(f"it comes after a {self._kind!r} record")
        self._kind = record.kind

    def _content(self, record: ContentRecord) -> list[bytes]:
        if record.offset == 0 and self._open is None and record.sha256 not in self._sizes:
            self._open = record, bytearray()
        if self._open is None or record.sha256 != self._open[0].sha256:
            raise _Fault("it is not the beginning of a new content")
        first, data = self._open
        if record.offset != len(data) or record.size != first.size:
            raise _Fault(f"offset {record.offset} of {record.size} bytes does not follow")
        data += _decoded(record.data)
        if len(data) < first.size:
            return []
        if len(data) > first.size or hashlib.sha256(data).hexdigest() != first.sha256:
            raise _Fault(f"it is not the content of {first.size} bytes with hash {first.sha256}")
        self._open = None
        self._sizes[first.sha256] = first.size
        self._unused.add(first.sha256)
        self._counts["contents"] += 1
        return [bytes(data)]

    def _check(self, record: Record) -> None:
        if isinstance(record, ArtifactRecord):
            self._artifact(record)
        elif isinstance(record, ArtifactSummaryRecord):
            self._known_content(record.sha256)
        elif isinstance(record, PromptPartsRecord):
            self._prompt_parts(record)
        elif isinstance(record, TurnRecord):
            self._turn(record)
        elif isinstance(record, SummaryRecord):
            self._range(record.from_turn, record.to_turn)
            self._nodes[record.summary_id] = record.from_turn, record.to_turn
        elif isinstance(record, CheckpointRecord):
            self._checkpoint(record)
        elif isinstance(record, DocumentRecord):
            self._document(record)
        elif isinstance(record, PinRecord):
            self._pin(record)

    def _artifact(self, record: ArtifactRecord) -> None:
        if record.artifact_no != self._counts["artifacts"] + 1:
            raise _Fault(f"artifact_no {record.artifact_no} does not follow")
        if self._known_content(record.sha256) != record.size:
            raise _Fault(f"size {record.size} is not that of its content")
        if record.turn_no > self._header.head_turn:
            raise _Fault(f"there is no turn {record.turn_no}")
        self._unused.discard(record.sha256)
        if record.message_no is not None:
            self._pointers.discard((record.handle, record.turn_no, record.message_no))

    def _known_content(self, sha256: str) -> int:
        """Its size. Contents from outside the stream are nobody's here."""
        if sha256 not in self._sizes:
            raise _Fault(f"the stream has no content {sha256}")
        return self._sizes[sha256]

    def _prompt_parts(self, record: PromptPartsRecord) -> None:
        if hashlib.sha256(record.parts.encode()).hexdigest() != record.hash:
            raise _Fault(f"the parts do not have the hash {record.hash}")
        self._parts.add(record.hash)

    def _turn(self, record: TurnRecord) -> None:
        if record.turn_no != self._counts["turns"] + 1:
            raise _Fault(f"turn {record.turn_no} does not follow turn {self._counts['turns']}")
        if record.turn_no > self._header.head_turn:
            raise _Fault(f"the branch ends with turn {self._header.head_turn}")
        self._head_tokens += record.stored_tokens
        if record.head_tokens != self._head_tokens:
            raise _Fault(f"head_tokens is {record.head_tokens}, expected is {self._head_tokens}")
        if record.prompt_parts_hash and record.prompt_parts_hash not in self._parts:
            raise _Fault(f"the stream has no prompt parts {record.prompt_parts_hash}")
        self._open_run = record.open_run_turn
        self._exchanges(record)
        for message_no, message in enumerate(record.messages):
            self._pointers |= {(handle, record.turn_no, message_no) for handle in pointers(message)}

    def _exchanges(self, record: TurnRecord) -> None:
        try:
            paired = with_results(record.messages, "complete")
        except InvalidTurn as error:
            raise _Fault(str(error)) from None
        assert len(paired) == len(record.messages)

    def _range(self, from_turn: int, to_turn: int) -> None:
        if not from_turn <= to_turn <= self._header.head_turn:
            raise _Fault(f"there are no turns {from_turn}-{to_turn}")

    def _checkpoint(self, record: CheckpointRecord) -> None:
        if not self._checkpoint_turn < record.turn_no <= self._header.head_turn:
            raise _Fault(f"turn {record.turn_no} is not after {self._checkpoint_turn}")
        covered = 0
        for node in record.frontier:
            from_turn, to_turn = self._nodes.get(node, (0, 0))
            if from_turn != covered + 1:
                raise _Fault(f"node {node} of the frontier does not begin at turn {covered + 1}")
            covered = to_turn
        if covered != record.turn_no:
            raise _Fault(f"its frontier ends at turn {covered}, not at turn {record.turn_no}")
        inside = record.text.removeprefix(CHECKPOINT_HEAD).removesuffix(FOOT)
        if clean(inside) != inside or len(inside) + len(CHECKPOINT_HEAD + FOOT) != len(record.text):
            raise _Fault("its text is no block of ours")
        self._checkpoint_turn = record.turn_no

    def _document(self, record: DocumentRecord) -> None:
        if record.artifact_no > self._counts["artifacts"]:
            raise _Fault(f"there is no artifact {record.artifact_no}")
        if not record.from_turn <= record.to_turn <= self._header.head_turn:
            raise _Fault(f"there are no turns {record.from_turn}-{record.to_turn}")
        if record.is_leaf:
            self._leaves += 1
            self._leaves_length += record.length
        figures = (self._leaves, self._leaves_length) if record.is_leaf else (0, 0)
        if (record.nth, record.total_length) != figures:
            raise _Fault(f"nth and total_length are to be {figures[0]} and {figures[1]}")

    def _pin(self, record: PinRecord) -> None:
        if record.turn_no > self._header.head_turn:
            raise _Fault(f"there is no turn {record.turn_no}")
        if self._counts["pins"] >= MOST_PINS:
            raise _Fault(f"a branch has up to {MOST_PINS} pins")


def _decoded(data: str) -> bytes:
    try:
        return a2b_base64(data, strict_mode=True)
    except (binascii.Error, ValueError):
        raise _Fault("data is not base64") from None
