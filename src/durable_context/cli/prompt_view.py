"""A prepared prompt on the terminal: its manifest, then every message as it would be sent."""

from typing import Any

from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from durable_context import BudgetExceeded, PreparedContext
from durable_context.cli.output import plain
from durable_context.cli.replay_view import turn_range
from durable_context.prompts.manifest import Block, Manifest, Reduction


def print_prompt(out: Console, prepared: PreparedContext | BudgetExceeded) -> None:
    if isinstance(prepared, BudgetExceeded):
        out.print(
            f"No prompt fits: the smallest has {prepared.smallest:,} of {prepared.limit:,} tokens,"
            f" the full one {prepared.required:,}."
        )
        out.print(_block_table(prepared.blocks))
        return
    manifest = prepared.manifest
    out.print(
        f"prompt of {prepared.token_count:,} of {prepared.budget.limit:,} tokens, the first"
        f" {manifest.stable_prefix_tokens:,} stable, made at turn {manifest.head_turn:,}"
    )
    if manifest.model is not None:
        out.print(plain(_counting_text(manifest), style="dim"))
    out.print(_block_table(manifest.blocks))
    for reduction in manifest.reductions:
        out.print(_reduction_text(reduction))
    for omitted in manifest.omitted:
        out.print(plain(f"omitted: {omitted}", style="dim"))
    for message in prepared.messages:
        _print_message(out, message)


def _counting_text(manifest: Manifest) -> str:
    if manifest.token_factor == 1:
        return f"tokens of {manifest.model}"
    return (
        f"tokens of {manifest.model}, estimated as {manifest.token_factor:g} for each of the"
        f" {manifest.counted_tokens:,} of {manifest.encoding} below"
    )


def _block_table(blocks: tuple[Block, ...]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("block", "turns"):
        table.add_column(name)
    table.add_column("tokens", justify="right")
    table.add_column("sources", overflow="fold", ratio=1)
    for block in blocks:
        turns = ""
        if block.from_turn is not None and block.to_turn is not None:
            turns = turn_range(block.from_turn, block.to_turn)
        sources = plain(" ".join(block.source_ids), style="dim")
        table.add_row(block.kind, turns, f"{block.token_count:,}", sources)
    return table


def _reduction_text(reduction: Reduction) -> Text:
    turns = ""
    if reduction.from_turn is not None and reduction.to_turn is not None:
        turns = f" turns {turn_range(reduction.from_turn, reduction.to_turn)}"
    return Text(
        f"reduced: {reduction.kind}{turns}, {reduction.tokens_saved:,} tokens saved", style="yellow"
    )


def _print_message(out: Console, message: dict[str, Any]) -> None:
    title = Text(str(message["role"]), style="bold")
    if call_id := message.get("tool_call_id"):
        title.append(" ").append_text(plain(call_id, style="not bold dim"))
    out.print(Rule(title, align="left", style="dim"))
    content: Any = message.get("content")
    if content is not None:
        out.print(plain(content), soft_wrap=True)
    for call in message.get("tool_calls") or ():
        function = call["function"]
        text = plain(f"→ {function['name']}({function['arguments']}) ")
        out.print(text.append_text(plain(call["id"], style="dim")), soft_wrap=True)
