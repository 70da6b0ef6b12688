"""From the stored state of a branch and a new message to a prompt: pure functions, the same bytes
for the same input.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import NamedTuple

from durable_context.artifacts.offloading import is_pointer, pointers
from durable_context.calibration import WHOLE
from durable_context.errors import InvalidTurn
from durable_context.model_tokens import counted_as
from durable_context.models import Message
from durable_context.policy import CompactionPolicy
from durable_context.prompts.block_tokens import message_overhead
from durable_context.prompts.blocks import (
    Exchange,
    Parts,
    digest_line,
)
from durable_context.prompts.checkpoint_block import Checkpointed
from durable_context.prompts.excerpts import heaviest_of
from durable_context.prompts.ledger_parts import show_ledger
from durable_context.prompts.manifest import Reduction
from durable_context.prompts.model_counting import (
    ModelCount,
    count_for_model,
    factor_as_shown,
)
from durable_context.prompts.pinned import Kept, beside_pinned, kept_turns, pinned_sections
from durable_context.prompts.prepared import Budget, BudgetExceeded, PreparedContext
from durable_context.prompts.reductions import reduce_to
from durable_context.prompts.retrieved import Retrieved, RetrievedArtifact
from durable_context.prompts.retrieved_blocks import RetrievedBlock, retrieved_blocks
from durable_context.prompts.state import PromptState, TailTurn, View
from durable_context.prompts.text import blocks_of, prompt, shown_texts
from durable_context.text import clean
from durable_context.tokens import REPLY_OVERHEAD, TokenCounter, token_counter
from durable_context.tool_tokens import count_tools
from durable_context.turns.row import is_shown_as_view, message_view


class Fitted(NamedTuple):
    """Parts of a prompt within its budget, what gave way for that, and how the model counts."""

    parts: Parts
    reductions: tuple[Reduction, ...]
    counting: ModelCount


def assemble(
    state: PromptState,
    user_message: Message | None,
    pending: Sequence[Message] = (),
    *,
    budget: Budget,
    policy: CompactionPolicy,
) -> PreparedContext | BudgetExceeded:
    """The prompt for the next model call, from sendable messages. Raises InvalidTurn if there is
    nothing to send.
    """
    fitted = fit(state, user_message, pending, budget=budget, policy=policy)
    if isinstance(fitted, BudgetExceeded):
        return fitted
    return prompt(fitted.parts, fitted.reductions, state, budget, fitted.counting)


def fit(
    state: PromptState,
    user_message: Message | None,
    pending: Sequence[Message] = (),
    *,
    budget: Budget,
    policy: CompactionPolicy,
) -> Fitted | BudgetExceeded:
    """What the prompt is made of. Raises InvalidTurn if there is nothing to send."""
    counter = token_counter(state.encoding)
    if not (user_message or pending or state.head_turn or budget.instructions):
        raise InvalidTurn("there is nothing to send: the branch is empty and so is the message")
    user = [(user_message, counter.count_message(user_message))] if user_message else []
    waiting = _pending(pending, policy, counter)
    factor = WHOLE
    while True:
        parts = _parts(state, user, waiting, budget, policy, counter)
        count = count_for_model(parts, state, budget, factor)
        required, limit = parts.tokens, count.limit(budget.limit)
        reductions = reduce_to(parts, limit, policy, counter)
        factor = factor_as_shown(parts, shown_texts(parts, budget), count, state)
        if not reductions or factor <= count.factor:
            break
    if parts.tokens > limit:
        return BudgetExceeded(
            limit=budget.limit,
            required=count.tokens(required),
            smallest=count.tokens(parts.tokens),
            blocks=tuple(blocks_of(parts)),
            token_factor=count.token_factor,
        )
    return Fitted(parts, tuple(reductions), count)


def _parts(
    state: PromptState,
    user: Sequence[tuple[Message, int]],
    pending: Exchange | None,
    budget: Budget,
    policy: CompactionPolicy,
    counter: TokenCounter,
) -> Parts:
    encoding = state.encoding
    checkpoint = None
    if state.checkpoint is not None:
        checkpoint = Checkpointed(state.checkpoint, encoding)
    raw = [_raw(turn, policy) for turn in state.tail if turn.raw]
    task = _task(state, raw)
    kept = kept_turns(state.pinned, raw, partial(_raw, policy=policy))
    digested = [turn for turn in state.tail if not turn.raw]
    parts = Parts(
        encoding=encoding,
        policy=policy,
        instructions=budget.instructions,
        instruction_tokens=_instruction_tokens(encoding, budget),
        checkpoint=checkpoint,
        digested=digested,
        lines=[digest_line(turn, encoding) for turn in digested],
        facts=[],
        raw=raw,
        retrieved=_retrieved(state, raw, kept, checkpoint, policy, counter),
        task=task,
        pending=replace(pending, viewed=set(), views=dict(pending.views)) if pending else None,
        user=list(user),
        reply_tokens=REPLY_OVERHEAD,
        open_run_turn=state.open_run_turn,
        newest_turn=state.head_turn + 1,
        pinned=pinned_sections(kept, state.open_run_turn, encoding),
    )
    show_ledger(parts)
    return parts


def _raw(turn: TailTurn, policy: CompactionPolicy) -> Exchange:
    exchange = Exchange(turn, turn.messages, turn.message_tokens, turn.views)
    return _large_results_as_views(exchange, policy)


def _large_results_as_views(exchange: Exchange, policy: CompactionPolicy) -> Exchange:
    exchange.viewed.update(
        position
        for position, message in enumerate(exchange.messages)
        if position in exchange.views
        and (
            is_pointer(message)  # its content did not come along
            or is_shown_as_view(message, exchange.message_tokens[position], policy)
        )
    )
    return exchange


def _pending(
    messages: Sequence[Message], policy: CompactionPolicy, counter: TokenCounter
) -> Exchange | None:
    if not messages:
        return None
    tokens = tuple(counter.count_message(message) for message in messages)
    views: dict[int, View] = {}
    for position, (message, count) in enumerate(zip(messages, tokens, strict=True)):
        view = message_view(message, count, policy, counter)
        if view is not None:
            views[position] = View(*view)
    # Whole as far as the budget allows: the model has not read them, and no handle stands for them.
    return Exchange(None, tuple(messages), tokens, views, encoding=counter.encoding)


def _task(state: PromptState, raw: Sequence[Exchange]) -> list[tuple[Message, int]]:
    """What the user asked for in the open run's first turn.

    Where that turn is raw, what it begins with is taken out of there, and the rest left in it.
    """
    asked = [(message, tokens) for message, tokens in state.run_start if message.role == "user"]
    for exchange in raw:
        if exchange.turn is not None and exchange.turn.turn_no == state.open_run_turn:
            roles = [message.role for message in exchange.messages]
            exchange.skip = next((n for n, role in enumerate(roles) if role != "user"), len(roles))
            return asked[: exchange.skip]
    return asked


def _retrieved(
    state: PromptState,
    raw: Sequence[Exchange],
    kept: Sequence[Kept],
    checkpoint: Checkpointed | None,
    policy: CompactionPolicy,
    counter: TokenCounter,
) -> list[RetrievedBlock]:
    if not state.retrieved:
        return []
    pinned = [one.shown for one in kept if one.shown is not None]
    shown = [*raw, *pinned]
    found = (one for one in state.retrieved if not _stands_whole(one, shown))
    return retrieved_blocks(
        beside_pinned(found, pinned),
        heaviest_of(state.terms),
        checkpoint.whole_nodes() if checkpoint else set(),
        blocks=policy.retrieved_blocks,
        max_tokens=policy.retrieved_tokens,
        counter=counter,
    )


def _stands_whole(found: Retrieved, shown: Sequence[Exchange]) -> bool:
    """Whether a raw or pinned turn shows the artifact itself."""
    if not isinstance(found, RetrievedArtifact) or found.source in ("put", "offloaded"):
        return False
    return any(
        exchange.turn is not None
        and exchange.turn.turn_no == found.turn_no
        and not any(found.handle in pointers(message) for message in exchange.messages)
        for exchange in shown
    )


def _instruction_tokens(encoding: str, budget: Budget) -> int:
    if not budget.instructions and not budget.tools:
        return 0
    return _count_instructions(
        encoding, budget.model, budget.instructions, json.dumps(budget.tools)
    )


@lru_cache(maxsize=256)
def _count_instructions(
    encoding: str, model: str | None, instructions: str | None, tools: str
) -> int:
    """Cached: a runtime sends the same instructions with every call."""
    counter = token_counter(encoding)
    count = count_tools(json.loads(tools), counter, counted_as(model) if model else None)
    if instructions:
        count += message_overhead(encoding) + counter.count(clean(instructions))
    return count
