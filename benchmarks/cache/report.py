"""What was measured, as tables or as one JSON object."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.cache.checks import example_lines
from benchmarks.cache.measure import Cached
from benchmarks.cache.prefixes import Account
from benchmarks.goals import Goal
from benchmarks.report import empty_table, goals_table

PRICES = (0.5, 0.1)
"""Of a token from the cache, as a part of the price of another."""


def goals(measured: Sequence[Cached]) -> Iterator[Goal]:
    for cached in measured:
        for budget, check in cached.prefixes.items():
            name = f"changed prefixes, {cached.corpus}, {budget:,}"
            yield Goal(name, check.unforced, 0)


def as_json(measured: Sequence[Cached], half: str) -> str:
    return json.dumps(
        {
            "half": half,
            "corpora": [_corpus(cached) for cached in measured],
            "goals": [asdict(goal) | {"met": goal.met} for goal in goals(measured)],
        }
    )


def show(measured: Sequence[Cached], console: Console) -> None:
    for cached in measured:
        console.print(_table(cached))
        console.print(_checks(cached))
        for check in cached.prefixes.values():
            for line in example_lines(check.examples):
                console.print(line, markup=False, soft_wrap=True)
    console.print(goals_table(list(goals(measured)), decimals=0))


def _corpus(cached: Cached) -> dict[str, Any]:
    return {
        "corpus": cached.corpus,
        "branches": cached.branches,
        "calls": cached.calls,
        "seconds": cached.seconds,
        "prompts": [_account(account) for account in cached.accounts.values()],
        "stable_prefixes": [
            {
                "budget": budget,
                "pairs": check.pairs,
                "broken": check.broken,
                "broken_by_budget": check.broken_by_budget,
                "inexact": check.inexact,
            }
            for budget, check in cached.prefixes.items()
        ],
        "checkpoints": {
            "without_merge": cached.checkpoints.plain,
            "broken": cached.checkpoints.broken,
            "with_merge": cached.checkpoints.merges,
            "kept": cached.checkpoints.shares(),
        },
    }


def _account(account: Account) -> dict[str, Any]:
    return {
        "name": account.name,
        "budget": account.budget,
        "prompts": account.prompts,
        "budget_exceeded": account.exceeded,
        "mean_tokens": account.mean_tokens,
        "cached": account.share,
        "cached_in_steps": account.share_in_steps,
        "net_tokens": {str(price): account.net_tokens(price) for price in PRICES},
    }


def _table(cached: Cached) -> Table:
    title = (
        f"{cached.corpus}: {cached.branches} branches, {cached.calls:,} calls,"
        f" {cached.seconds:.0f} s; mean tokens of a prompt"
    )
    prices = (f"at {price:g}" for price in PRICES)
    table = empty_table(title, "prompt", "budget", "cached", "in steps", "tokens", *prices, "over")
    for account in sorted(cached.accounts.values(), key=lambda a: (not a.budget, a.budget or 0)):
        table.add_row(
            account.name,
            f"{account.budget:,}" if account.budget else "",
            f"[bold]{account.share:.3f}[/bold]",
            f"{account.share_in_steps:.3f}",
            f"{account.mean_tokens:,.0f}",
            *(f"{account.net_tokens(price):,.0f}" for price in PRICES),
            str(account.exceeded or ""),
        )
    return table


def _checks(cached: Cached) -> Table:
    columns = ("of", "changed", "by budget", "inexact", "kept")
    table = empty_table(f"{cached.corpus}: what should stay as it is", "", *columns)
    for budget, check in cached.prefixes.items():
        name = f"stable prefix at {budget:,}"
        counts = (check.pairs, check.broken, check.broken_by_budget, check.inexact)
        table.add_row(name, *map(str, counts), "")
    kept = cached.checkpoints.shares()
    plain, merges = cached.checkpoints.plain, cached.checkpoints.merges
    broken = str(cached.checkpoints.broken)
    table.add_row("checkpoint without merge", str(plain), broken, "", "", f"{kept['plain']:.3f}")
    table.add_row("checkpoint with merge", str(merges), "", "", "", f"{kept['merge']:.3f}")
    return table
