"""What a prepared prompt's manifest tells of it: figures of its size, its parts and its cache."""

from collections.abc import Sequence

from durable_context.prompts.manifest import Block, Manifest
from durable_context.prompts.prepared import BudgetExceeded, PreparedContext
from durable_context.telemetry import instruments, spans


def measure_prompt(prepared: PreparedContext | BudgetExceeded) -> None:
    if isinstance(prepared, BudgetExceeded):
        return
    manifest = prepared.manifest
    instruments.prepare_tokens.record(prepared.token_count)
    instruments.prepare_stable_share.record(_stable_share(manifest))
    instruments.prepare_tail.record(_tail(manifest))


def prompt_attributes(prepared: PreparedContext | BudgetExceeded) -> dict[str, spans.Said]:
    if isinstance(prepared, BudgetExceeded):
        return _of_none(prepared)
    manifest, checkpoint = prepared.manifest, _checkpoint_turn(prepared.manifest.blocks)
    return {
        spans.PROMPT_TOKENS: prepared.token_count,
        spans.PROMPT_LIMIT: prepared.budget.limit,
        spans.PROMPT_BLOCKS: len(manifest.blocks),
        spans.PROMPT_REDUCTIONS: len(manifest.reductions),
        spans.PROMPT_STABLE: manifest.stable_prefix_tokens,
        spans.HEAD_TURN: manifest.head_turn,
        spans.TAIL: _tail(manifest),
        spans.MODEL: manifest.model,
        **_compacted(checkpoint),
    }


def _of_none(exceeded: BudgetExceeded) -> dict[str, spans.Said]:
    return {
        spans.PROMPT_LIMIT: exceeded.limit,
        spans.PROMPT_REQUIRED: exceeded.required,
        spans.PROMPT_SMALLEST: exceeded.smallest,
        spans.PROMPT_BLOCKS: len(exceeded.blocks),
        **_compacted(_checkpoint_turn(exceeded.blocks)),
    }


def _compacted(checkpoint_turn: int | None) -> dict[str, spans.Said]:
    """By the convention the attribute is true or absent, never false."""
    if checkpoint_turn is None:
        return {}
    return {spans.COMPACTED: True, spans.CHECKPOINT_TURN: checkpoint_turn}


def _checkpoint_turn(blocks: Sequence[Block]) -> int | None:
    return next((block.to_turn for block in blocks if block.kind == "checkpoint"), None)


def _tail(manifest: Manifest) -> int:
    return manifest.head_turn - (_checkpoint_turn(manifest.blocks) or 0)


def _stable_share(manifest: Manifest) -> float:
    return manifest.stable_prefix_tokens / manifest.counted_tokens
