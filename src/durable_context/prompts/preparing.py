"""One call of `Branch.prepare`: a read and pure functions, twice if a compaction was awaited."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

from durable_context.compaction.within import compacted_within
from durable_context.contracts import CompactionRequest
from durable_context.models import Message
from durable_context.prompts.assembly import assemble, fit
from durable_context.prompts.prepared import Budget, BudgetExceeded, PartLoader, PreparedContext
from durable_context.prompts.processing import Processing, assemble_processed
from durable_context.prompts.state import THREAD_TURNS, PromptState, Search, read_prompt_state
from durable_context.resources import Resources
from durable_context.search_queries import search_query
from durable_context.turns.messages import characters
from durable_context.turns.recorder import THREAD_CHARACTERS

_UNCUT = ("instructions", "pinned", "task", "pending", "user")


class NextCall(NamedTuple):
    """What a prompt is for: sendable messages and a budget. `at_turn`: of a fork made there.
    `vector`: the message's embedding. `processing`: the pipeline it goes through.
    """

    message: Message | None
    pending: tuple[Message, ...]
    budget: Budget
    at_turn: int | None = None
    vector: Sequence[float] | None = None
    processing: Processing | None = None


async def prepare(
    shared: Resources, request: CompactionRequest, call: NextCall, within: timedelta | None
) -> PreparedContext | BudgetExceeded:
    """The prompt for a call. Where it does not fit whole, `request` is made first and waited for,
    up to `within`.
    """
    state, prepared = await _prepared(shared, request, call)
    if within is not None and _may_gain(prepared):
        behind = state.checkpoint.turn_no if state.checkpoint else 0
        last = state.head_turn - request.policy.keep_raw_turns
        if await compacted_within(shared, request, behind, last, within):
            before, first = state.head_turn, prepared
            state, prepared = await _prepared(shared, request, call)
            if first and not prepared and state.head_turn == before:
                prepared = first  # joined digests take less room than the newest headlines
    if isinstance(prepared, PreparedContext):
        return _loading(prepared, shared, request)
    shared.pending_events.add(
        request.branch_uuid,
        "over_budget",
        state.head_turn,
        {"limit": prepared.limit, "required": prepared.required, "smallest": prepared.smallest},
    )
    return prepared


async def foresee(
    shared: Resources, request: CompactionRequest, call: NextCall
) -> PreparedContext | BudgetExceeded:
    """What `prepare` would return now, for those who only look: a refusal leaves no event."""
    _, prepared = await _prepared(shared, request, call)
    if isinstance(prepared, PreparedContext):
        return _loading(prepared, shared, request)
    return prepared


def _loading(
    prepared: PreparedContext, shared: Resources, request: CompactionRequest
) -> PreparedContext:
    return prepared.loading_with(PartLoader(partial(_load, shared, request)))


async def _prepared(
    shared: Resources, request: CompactionRequest, call: NextCall
) -> tuple[PromptState, PreparedContext | BudgetExceeded]:
    message, pending, budget, at_turn, vector, processing = call
    query = search_query(_asked(message)) if message else None
    state = await read_prompt_state(
        shared.pool,
        shared.tenant,
        request.branch_uuid,
        Search(query, vector),
        request.policy,
        at_turn,
        budget.model,
    )
    build = assemble if processing is None else fit
    asked = characters([*pending, *([message] if message else ())])
    large = asked > THREAD_CHARACTERS or len(state.tail) > THREAD_TURNS

    async def built(within: Budget) -> Any:
        given = partial(build, state, message, pending, budget=within, policy=request.policy)
        return await asyncio.to_thread(given) if large else given()

    if processing is None:
        return state, await built(budget)
    return state, await assemble_processed(built, state, budget, processing)


def _asked(message: Message) -> str:
    """What it says itself: a picture says nothing that could be searched for."""
    if isinstance(message.content, tuple):
        return "\n".join(part["text"] for part in message.content if part["type"] == "text")
    return message.content or ""


def _may_gain(prepared: PreparedContext | BudgetExceeded) -> bool:
    """Whether a checkpoint could make it better: it lost something else than what cannot be cut."""
    if isinstance(prepared, PreparedContext):
        return bool(prepared.manifest.reductions)
    uncut = sum(block.token_count for block in prepared.blocks if block.kind in _UNCUT)
    return uncut * prepared.token_factor < prepared.limit


async def _load(
    shared: Resources, request: CompactionRequest, handles: Sequence[str]
) -> Mapping[str, bytes]:
    return await shared.artifacts.contents_of(request.branch_uuid, handles)
