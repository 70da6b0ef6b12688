"""Replays recorded conversations through the public client: for each turn prepare, then record."""

import time
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any

from durable_context import Branch, Budget, BudgetExceeded, ContextClient, PreparedContext
from durable_context.errors import CompactionTimeout, DurableContextError
from durable_context.models import Compaction, Value
from durable_context.prepared import Block
from durable_context.tokens import REPLY_OVERHEAD
from durable_context.transcripts import Transcript, TranscriptTurn, stretches

_ALL_COMPACTIONS = 1_000_000
_NEW_PARTS = ("instructions", "pending", "user")


class ReplayOptions(Value):
    """`stretch`: record long runs in stretches of so many tool exchanges.

    `pace` bounds the wait, after each turn, for the compaction that is due then: a model's answer
    takes seconds, in which compaction goes on. None replays as fast as the database takes it.
    """

    budget: int
    prefix: str = ""
    stretch: int | None = None
    limit: int | None = None
    pace: timedelta | None = timedelta(seconds=20)

    def conversation_id(self, transcript: Transcript) -> str:
        return f"{self.prefix}{transcript.name}"


class ReplayedTurn(Value):
    """One turn of the replay. `raw_tokens` counts the conversation up to and including it.

    `whole_tokens` is what its prompt would have had with every earlier turn in it. A turn that was
    recorded before (`repeated`) has no prompt; nor has one whose budget was exceeded.
    """

    conversation_id: str
    turn_no: int
    tokens: int
    raw_tokens: int
    prompt_tokens: int | None = None
    whole_tokens: int | None = None
    blocks: tuple[Block, ...] = ()
    exceeded: BudgetExceeded | None = None
    prepare_ms: float | None = None
    compactions: int = 0
    repeated: bool = False


class OtherConversation(DurableContextError):
    """The conversation holds turns that are not of this file."""


async def warm_up(client: ContextClient, transcript: Transcript, options: ReplayOptions) -> None:
    """A process's first prepare loads the vocabulary; what follows is what an agent sees."""
    branch = await client.open_branch(options.conversation_id(transcript))
    await branch.prepare("warm up", budget=Budget(max_tokens=options.budget))


async def replay_conversation(
    client: ContextClient, transcript: Transcript, options: ReplayOptions
) -> AsyncIterator[ReplayedTurn]:
    """Turns as they are recorded; those an earlier replay recorded are only checked."""
    branch = await client.open_branch(options.conversation_id(transcript))
    pieces = [piece for turn in transcript.turns for piece in stretches(turn, options.stretch)]
    pieces = pieces[: options.limit]
    known = await _known_turns(branch, len(pieces))
    pace, raw_tokens, compactions = options.pace, 0, 0
    for number, piece in enumerate(pieces, start=1):
        prepared, milliseconds = None, None
        budget, message = _budget(options.budget, transcript, piece), _user_message(piece)
        # An assistant that speaks first, without instructions, was sent nothing.
        if number > known and (message or number > 1 or budget.instructions):
            prepared, milliseconds = await _timed_prepare(branch, message, budget)
        recorded = await branch.record_turn(
            piece.messages,
            turn_key=_turn_key(number),
            outcome=piece.outcome,
            continues=piece.continues,
            occurred_at=piece.occurred_at,
            prepared=prepared if isinstance(prepared, PreparedContext) else None,
        )
        if pace and not recorded.repeated and not await _caught_up(branch, pace):
            pace = None
        if pace or number == len(pieces):
            compactions = await _completed(branch)
        raw_tokens += recorded.token_count
        yield ReplayedTurn(
            conversation_id=branch.conversation_id,
            turn_no=recorded.turn_no,
            tokens=recorded.token_count,
            raw_tokens=raw_tokens,
            prepare_ms=milliseconds,
            compactions=compactions,
            repeated=recorded.repeated,
            **_prompt_fields(prepared, raw_tokens - recorded.token_count),
        )


async def compactions_of(client: ContextClient, conversation_id: str) -> tuple[Compaction, ...]:
    branch = await client.find_branch(conversation_id)
    return await branch.compactions(_ALL_COMPACTIONS)


async def wait_for_compaction(
    client: ContextClient, conversations: Sequence[str], timeout: timedelta
) -> list[str]:
    """Wait until nothing is due in any; the conversations that were not done in time."""
    deadline = time.monotonic() + timeout.total_seconds()
    late: list[str] = []
    for conversation_id in conversations:
        branch = await client.find_branch(conversation_id)
        left = timedelta(seconds=max(0.0, deadline - time.monotonic()))
        if not await _caught_up(branch, left):
            late.append(conversation_id)
    return late


async def _caught_up(branch: Branch, timeout: timedelta) -> bool:
    try:
        await branch.wait_until_compacted(timeout=timeout)
    except CompactionTimeout:
        return False
    return True


async def _completed(branch: Branch) -> int:
    compactions = await branch.compactions(_ALL_COMPACTIONS)
    return sum(compaction.status == "completed" for compaction in compactions)


async def _known_turns(branch: Branch, count: int) -> int:
    """How many turns an earlier replay recorded. Raises OtherConversation for anyone else's."""
    known = await branch.turns(1, max(count, 1))
    for turn in known:
        if turn.turn_key != _turn_key(turn.turn_no):
            raise OtherConversation(
                f"turn {turn.turn_no} of conversation {branch.conversation_id!r} was recorded under"
                f" the key {turn.turn_key!r}, not by a replay; choose another --conversation prefix"
            )
    return len(known)


def _turn_key(number: int) -> str:
    return f"replay-{number}"


def _budget(max_tokens: int, transcript: Transcript, turn: TranscriptTurn) -> Budget:
    return Budget(max_tokens=max_tokens, instructions=turn.system, tools=transcript.tools or ())


def _user_message(turn: TranscriptTurn) -> dict[str, Any] | None:
    """What the prompt ends in: several user messages in a row as one."""
    messages = turn.user_messages
    if len(messages) < 2:
        return messages[0] if messages else None
    contents = [message.get("content") for message in messages]
    if all(isinstance(content, str) for content in contents):
        return {**messages[0], "content": "\n\n".join(str(content) for content in contents)}
    return {**messages[0], "content": [part for content in contents for part in _parts(content)]}


def _parts(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content or []


async def _timed_prepare(
    branch: Branch, message: dict[str, Any] | None, budget: Budget
) -> tuple[PreparedContext | BudgetExceeded, float]:
    started = time.perf_counter()
    prepared = await branch.prepare(message, budget=budget)
    return prepared, (time.perf_counter() - started) * 1000


def _prompt_fields(
    prepared: PreparedContext | BudgetExceeded | None, tokens_before: int
) -> dict[str, Any]:
    if prepared is None:
        return {}
    exceeded = isinstance(prepared, BudgetExceeded)
    blocks = prepared.blocks if exceeded else prepared.manifest.blocks
    new = sum(block.token_count for block in blocks if block.kind in _NEW_PARTS)
    return {
        "prompt_tokens": None if exceeded else prepared.token_count,
        "whole_tokens": tokens_before + new + REPLY_OVERHEAD,
        "blocks": blocks,
        "exceeded": prepared if exceeded else None,
    }
