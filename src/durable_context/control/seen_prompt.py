"""What the model saw at a turn: the prompt that its manifest tells of, made again from what is
stored.
"""

from typing import Any, Literal, NamedTuple
from uuid import UUID

from pydantic import ValidationError

from durable_context import stored_json
from durable_context.arguments import LARGEST
from durable_context.contracts import CompactionRequest
from durable_context.database import acquired
from durable_context.errors import InvalidArgument, InvalidTurn
from durable_context.models import Message, Value
from durable_context.prompts.manifest import Block, Manifest
from durable_context.prompts.prepared import Budget, PreparedContext
from durable_context.prompts.preparing import NextCall, foresee
from durable_context.resources import Resources
from durable_context.turns.messages import user_message_of

AMPLE = 10**9
"""A budget that shortens nothing."""

_TURN = """
select t.messages, t.manifest, p.parts, b.head_turn from durable_context.branches b
left join durable_context.visible_turns t on t.tenant = b.tenant and t.seen_by = b.branch_uuid
    and t.turn_no = $3
left join durable_context.prompt_parts p on p.tenant = t.tenant and p.hash = t.prompt_parts_hash
where b.tenant = $1 and b.branch_uuid = $2
"""


_NEWEST_PARTS = """
select t.turn_no, t.manifest, p.parts from durable_context.branches b
join durable_context.visible_turns t on t.tenant = b.tenant and t.seen_by = b.branch_uuid
    and t.turn_no between b.head_turn - $3 + 1 and b.head_turn
join durable_context.prompt_parts p on p.tenant = t.tenant and p.hash = t.prompt_parts_hash
where b.tenant = $1 and b.branch_uuid = $2
order by t.turn_no desc limit 1
"""
_LOOKED_AT = 20
"""Newest turns that are looked through for one that was recorded with its prompt."""


class PromptParts(Value):
    """What the prompt that led to a turn was made with."""

    turn_no: int
    instructions: str | None
    tools: tuple[dict[str, Any], ...]
    model: str | None


class SeenPrompt(NamedTuple):
    """`source` as of a `DiffSide`: blocks and tokens are the manifest's where there is one."""

    turn_no: int
    messages: tuple[dict[str, Any], ...]
    blocks: tuple[Block, ...]
    token_count: int
    source: Literal["stored", "similar", "prepared"]


class _Told(NamedTuple):
    """What is stored of a turn and of the prompt that led to it."""

    messages: str
    manifest: Manifest | None
    parts: dict[str, Any]

    @property
    def asked(self) -> Message | str | None:
        """The user's message. None: the turn goes on with a long run."""
        first = stored_json.load_message(stored_json.loads(self.messages)[0])
        if first.role != "user":
            return None
        return first.content if isinstance(first.content, str) else first

    def budget(self, max_tokens: int = AMPLE) -> Budget:
        return Budget(
            max_tokens=max_tokens,
            instructions=self.parts.get("instructions"),
            tools=self.parts.get("tools") or (),
            model=self.manifest.model if self.manifest else None,
        )


async def seen_prompt(
    resources: Resources, request: CompactionRequest, turn_no: int | UUID
) -> SeenPrompt:
    """Of the branch and by the policy of `request`. Raises InvalidArgument."""
    if isinstance(turn_no, bool) or not isinstance(turn_no, int) or not 1 <= turn_no <= LARGEST:
        raise InvalidArgument(f"{turn_no!r:.80}; prompts are compared by the turns they led to")
    told = await _told(resources, request.branch_uuid, turn_no)
    manifest = told.manifest
    prepared = await _prepared(resources, request, told, turn_no)
    if manifest is None:
        blocks, tokens, source = prepared.manifest.blocks, prepared.token_count, "prepared"
    else:
        blocks, tokens = manifest.blocks, manifest.token_count
        source = "stored" if prepared.manifest.blocks == blocks else "similar"
    return SeenPrompt(turn_no, prepared.messages, blocks, tokens, source)


async def newest_parts(resources: Resources, branch_uuid: UUID) -> PromptParts | None:
    """Of the newest turn that tells; None where none of the newest 20 does."""
    async with acquired(resources.pool) as connection:
        row = await connection.fetchrow(_NEWEST_PARTS, resources.tenant, branch_uuid, _LOOKED_AT)
    if row is None:
        return None
    manifest, parts = _manifest(row["manifest"]), stored_json.loads(row["parts"])
    return PromptParts(
        turn_no=row["turn_no"],
        instructions=parts.get("instructions"),
        tools=tuple(parts.get("tools") or ()),
        model=manifest.model if manifest else None,
    )


async def _told(resources: Resources, branch_uuid: UUID, turn_no: int) -> _Told:
    async with acquired(resources.pool) as connection:
        row = await connection.fetchrow(_TURN, resources.tenant, branch_uuid, turn_no)
    if row is None or row["messages"] is None:
        head = row["head_turn"] if row else 0
        raise InvalidArgument(f"there is no turn {turn_no}; allowed are 1 to {head}")
    parts: dict[str, Any] = stored_json.loads(row["parts"]) if row["parts"] else {}
    return _Told(row["messages"], _manifest(row["manifest"]), parts)


def _manifest(text: str | None) -> Manifest | None:
    """None, too, where an import brought something else."""
    try:
        return Manifest.model_validate(stored_json.loads(text)) if text else None
    except ValidationError:
        return None


async def _prepared(
    resources: Resources, request: CompactionRequest, told: _Told, turn_no: int
) -> PreparedContext:
    """Where it was shortened, what it came to is a budget that it is sure to have had."""
    manifest = told.manifest
    at_turn = min(manifest.head_turn if manifest else turn_no - 1, turn_no - 1)
    limits = [manifest.token_count] if manifest and manifest.reductions else []
    try:
        asked = user_message_of(told.asked)
        for limit in (*limits, AMPLE):
            call = NextCall(asked, (), told.budget(limit), at_turn, None, None)
            made = await foresee(resources, request, call)
            if isinstance(made, PreparedContext):
                return made
    except InvalidTurn as error:
        raise InvalidArgument(
            f"the prompt of turn {turn_no} cannot be made again: {error}"
        ) from None
    raise InvalidArgument(f"the prompt of turn {turn_no} cannot be made again: it is too long")
