"""One branch of a conversation while it is replayed: for each turn prepare, check, then record."""

import time
from typing import Any, Self

from durable_context import Branch, Budget, BudgetExceeded, PreparedContext
from durable_context.cli.branch_reading import caught_up
from durable_context.cli.prompt_check import problems_of
from durable_context.cli.replay_model import ReplayedTurn, ReplayOptions
from durable_context.errors import DurableContextError
from durable_context.models import Turn
from durable_context.tokens import REPLY_OVERHEAD
from durable_context.transcripts import Transcript, TranscriptTurn

ALL_COMPACTIONS = 1_000_000
_NEW_PARTS = ("instructions", "pending", "user")


class OtherConversation(DurableContextError):
    """The conversation holds turns that are not of this file."""


class BranchReplay:
    """Made by `of` and `forked`, which look for what an earlier replay recorded."""

    def __init__(
        self, branch: Branch, transcript: Transcript, options: ReplayOptions, raw_tokens: int = 0
    ) -> None:
        self._branch = branch
        self._transcript = transcript
        self._options = options
        self._pace = options.pace
        self._raw_tokens = raw_tokens
        self._known = self._compactions = 0

    @classmethod
    async def of(
        cls, branch: Branch, transcript: Transcript, options: ReplayOptions, raw_tokens: int = 0
    ) -> Self:
        """Raises OtherConversation if anyone but a replay recorded turns in it."""
        replay = cls(branch, transcript, options, raw_tokens)
        replay._known = await replay._known_turns()
        return replay

    async def forked(self, at_turn: int) -> Self:
        """A branch that goes on from there. Named by the turn: a replay with another limit forks
        elsewhere.
        """
        fork = await self._branch.fork(f"fork-at-{at_turn}", at_turn=at_turn)
        return await self.of(fork, self._transcript, self._options, self._raw_tokens)

    async def replay(self, number: int, piece: TranscriptTurn, *, last: bool) -> ReplayedTurn:
        """Turns that an earlier replay recorded are only checked."""
        prepared, milliseconds = await self._prepare(number, piece)
        recorded = await self._branch.record_turn(
            piece.messages,
            turn_key=self._turn_key(number),
            outcome=piece.outcome,
            continues=piece.continues,
            occurred_at=piece.occurred_at,
            prepared=prepared if isinstance(prepared, PreparedContext) else None,
        )
        await self._keep_pace(recorded, last=last)
        self._raw_tokens += recorded.token_count
        return ReplayedTurn(
            conversation_id=self._branch.conversation_id,
            branch_id=self._branch.branch_id,
            turn_no=recorded.turn_no,
            tokens=recorded.token_count,
            raw_tokens=self._raw_tokens,
            prepare_ms=milliseconds,
            compactions=self._compactions,
            repeated=recorded.repeated,
            **_prompt_fields(prepared, self._raw_tokens - recorded.token_count, number - 1),
        )

    async def _prepare(
        self, number: int, piece: TranscriptTurn
    ) -> tuple[PreparedContext | BudgetExceeded | None, float | None]:
        budget = Budget(
            max_tokens=self._options.budget,
            instructions=piece.system,
            tools=self._transcript.tools or (),
        )
        message = _user_message(piece)
        # An assistant that speaks first, without instructions, was sent nothing.
        if number <= self._known or not (message or number > 1 or budget.instructions):
            return None, None
        started = time.perf_counter()
        prepared = await self._branch.prepare(message, budget=budget)
        return prepared, (time.perf_counter() - started) * 1000

    async def _keep_pace(self, recorded: Turn, *, last: bool) -> None:
        if self._pace and not recorded.repeated and not await caught_up(self._branch, self._pace):
            self._pace = None
        if self._pace or last:
            compactions = await self._branch.compactions(ALL_COMPACTIONS)
            self._compactions = sum(one.status == "completed" for one in compactions)

    async def _known_turns(self) -> int:
        branch = self._branch
        known = await branch.turns(1, max(len(self._options.pieces(self._transcript)), 1))
        for turn in known:
            if turn.turn_key != self._turn_key(turn.turn_no):
                raise OtherConversation(
                    f"turn {turn.turn_no} of conversation {branch.conversation_id!r} was recorded"
                    f" under the key {turn.turn_key!r}, not by a replay; choose another"
                    " --conversation prefix"
                )
        return len(known)

    def _turn_key(self, number: int) -> str:
        inherited = number <= (self._branch.fork_turn or 0)
        of_root = inherited or self._branch.parent_id is None
        return f"replay-{number}" if of_root else f"fork-replay-{number}"


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


def _prompt_fields(
    prepared: PreparedContext | BudgetExceeded | None, tokens_before: int, head_turn: int
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
        "problems": () if exceeded else problems_of(prepared, head_turn),
    }
