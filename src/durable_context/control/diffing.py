"""What differs between two checkpoints, or between what the model saw at two turns."""

import asyncio
import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple
from uuid import UUID

from durable_context.arguments import LARGEST
from durable_context.compaction.store import CompactionStore
from durable_context.control.seen_prompt import SeenPrompt
from durable_context.database import acquired
from durable_context.errors import CheckpointNotFound, InvalidArgument
from durable_context.models import Checkpoint, Summary, Value
from durable_context.prompts.manifest import Block
from durable_context.resources import Resources
from durable_context.store import (
    CHECKPOINT_COLUMNS,
    SEEN_CHECKPOINT_COLUMNS,
    checkpoint_from_row,
)

_BY_ID = f"""
select {CHECKPOINT_COLUMNS} from durable_context.checkpoints
where tenant = $1 and branch_uuid = $2 and checkpoint_id = $3
union all
select {SEEN_CHECKPOINT_COLUMNS} from durable_context.visible_checkpoints
where tenant = $1 and seen_by = $2 and checkpoint_id = $3 and branch_uuid <> $2
"""
_TURNS = """
select array_agg(turn_no order by turn_no) from durable_context.visible_checkpoints
where tenant = $1 and seen_by = $2
"""


class DiffSide(Value):
    """One of the two. `source` says where its text is from: a checkpoint is `stored`, and so is a
    prompt that is made again exactly as its manifest says. `similar`: the branch has been compacted
    otherwise since the prompt of that manifest, whose blocks and tokens are compared. `prepared`:
    there is no manifest, and this is what a fork made there would prepare.
    """

    turn_no: int
    checkpoint_id: UUID | None
    token_count: int
    source: Literal["stored", "similar", "prepared"]


class DiffChange(Value):
    """`section` is `node` or `ledger` of checkpoints, a block's kind of prompts. `text` is a node's
    headline, or a ledger entry's kind and value.
    """

    change: Literal["added", "removed", "changed"]
    section: str
    text: str = ""
    level: int | None = None
    from_turn: int | None = None
    to_turn: int | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None


class Diff(Value):
    """`lines` is the unified diff of the two texts, without line ends; none if they are equal."""

    before: DiffSide
    after: DiffSide
    changes: tuple[DiffChange, ...]
    lines: tuple[str, ...]


class _Part(NamedTuple):
    """A part: parts with one key are one part, that may have changed."""

    key: tuple[Any, ...]
    said: tuple[Any, ...]
    fields: dict[str, Any]
    tokens: int | None


class Compared(NamedTuple):
    """A side with what is compared of it."""

    side: DiffSide
    parts: list[_Part]
    lines: list[str]


class Diffing:
    """Of one branch as it sees itself, and of all its own checkpoints whatever became of them."""

    def __init__(self, resources: Resources, branch_uuid: UUID) -> None:
        self._resources = resources
        self._branch = branch_uuid
        self._store = CompactionStore(resources.pool, resources.tenant, branch_uuid)

    async def side(self, at: int | UUID) -> Compared:
        """A checkpoint to compare. Turn 0 is the beginning, where nothing was compacted.

        Raises CheckpointNotFound, InvalidArgument.
        """
        found = await self._found(at)
        if found is None:
            side = DiffSide(turn_no=0, checkpoint_id=None, token_count=0, source="stored")
            return Compared(side, [], [])
        nodes = await self._store.summaries(found.frontier)
        side = DiffSide(
            turn_no=found.turn_no,
            checkpoint_id=found.checkpoint_id,
            token_count=found.token_count,
            source="stored",
        )
        return Compared(side, [*_nodes(nodes), *_ledger(found)], found.text.splitlines())

    async def _found(self, at: object) -> Checkpoint | None:
        if isinstance(at, UUID):
            return await self._by_id(at)
        if isinstance(at, bool) or not isinstance(at, int) or not 0 <= at <= LARGEST:
            raise InvalidArgument(f"{at!r:.80}; allowed are the turn of a checkpoint and its id")
        found = await self._store.checkpoint(at) if at else None
        if at and found is None:
            raise CheckpointNotFound(f"there is no checkpoint at turn {at}; {await self._turns()}")
        return found

    async def _by_id(self, checkpoint_id: UUID) -> Checkpoint:
        async with acquired(self._resources.pool) as connection:
            row = await connection.fetchrow(
                _BY_ID, self._resources.tenant, self._branch, checkpoint_id
            )
        if row is None:
            raise CheckpointNotFound(
                f"the branch has no checkpoint {checkpoint_id}; {await self._turns()}"
            )
        return checkpoint_from_row(row)

    async def _turns(self) -> str:
        async with acquired(self._resources.pool) as connection:
            turns = await connection.fetchval(_TURNS, self._resources.tenant, self._branch)
        return f"those of turns {', '.join(map(str, turns))} are there" if turns else "none is"


async def diff_checkpoints(before: Compared, after: Compared) -> Diff:
    return await _diff(before, after, name="checkpoint")


async def diff_prompts(before: SeenPrompt, after: SeenPrompt) -> Diff:
    return await _diff(_prompt(before), _prompt(after), name="prompt")


def _prompt(seen: SeenPrompt) -> Compared:
    checkpoints = [block for block in seen.blocks if block.kind == "checkpoint"]
    ids = [UUID(source) for block in checkpoints for source in block.source_ids[:1]]
    side = DiffSide(
        turn_no=seen.turn_no,
        checkpoint_id=ids[0] if ids else None,
        token_count=seen.token_count,
        source=seen.source,
    )
    return Compared(side, list(_blocks(seen.blocks)), list(_message_lines(seen.messages)))


def _nodes(nodes: Iterable[Summary]) -> Iterator[_Part]:
    for node in nodes:
        place = {"level": node.level, "from_turn": node.from_turn, "to_turn": node.to_turn}
        yield _Part(
            ("node", *place.values()),
            (node.headline, node.text),
            {"section": "node", "text": node.headline, **place},
            node.token_count,
        )


def _ledger(checkpoint: Checkpoint) -> Iterator[_Part]:
    for entry in checkpoint.ledger:
        fields = {"section": "ledger", "text": f"{entry.kind}: {entry.value}"}
        yield _Part(("ledger", entry.kind, entry.value), (), fields, None)


def _blocks(blocks: Iterable[Block]) -> Iterator[_Part]:
    """Each checkpoint stands where the one before did; other blocks are told by their turns."""
    for block in blocks:
        place = {"from_turn": block.from_turn, "to_turn": block.to_turn}
        key = () if block.kind in ("checkpoint", "ledger") else tuple(place.values())
        said = (block.token_count, block.source_ids, *place.values())
        fields = {"section": block.kind, **place}
        yield _Part((block.kind, *key), said, fields, block.token_count)


def _message_lines(messages: Iterable[dict[str, Any]]) -> Iterator[str]:
    for message in messages:
        yield f"{message['role']}:"
        content = message.get("content")
        parts: Sequence[Any] = [content] if isinstance(content, str) else content or ()
        for part in parts:
            yield from (part if isinstance(part, str) else _part_text(part)).splitlines()
        for call in message.get("tool_calls", ()):
            yield f"{call['function']['name']}({call['function']['arguments']})"


def _part_text(part: dict[str, Any]) -> str:
    text = part.get("text")
    return text if isinstance(text, str) else f"[{part.get('type')}]"


async def _diff(before: Compared, after: Compared, *, name: str) -> Diff:
    # Long texts take a while.
    lines = await asyncio.to_thread(_unified, before, after, name)
    return Diff(
        before=before.side,
        after=after.side,
        changes=tuple(_changes(before.parts, after.parts)),
        lines=lines,
    )


def _unified(before: Compared, after: Compared, name: str) -> tuple[str, ...]:
    return tuple(
        difflib.unified_diff(
            before.lines,
            after.lines,
            fromfile=f"{name} at turn {before.side.turn_no}",
            tofile=f"{name} at turn {after.side.turn_no}",
            lineterm="",
        )
    )


def _changes(before: Sequence[_Part], after: Sequence[_Part]) -> Iterator[DiffChange]:
    """What is gone, then what is there in its order."""
    old, new = ({part.key: part for part in parts} for parts in (before, after))
    for part in before:
        if part.key not in new:
            yield DiffChange(change="removed", tokens_before=part.tokens, **part.fields)
    for part in after:
        was = old.get(part.key)
        if was is None:
            yield DiffChange(change="added", tokens_after=part.tokens, **part.fields)
        elif was.said != part.said:
            yield DiffChange(
                change="changed",
                tokens_before=was.tokens,
                tokens_after=part.tokens,
                **part.fields,
            )
