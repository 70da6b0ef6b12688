"""`python -m benchmarks.pipeline`: recorded agents with all processors in the recommended order.

The history stays in one context per branch, as a runtime keeps it: `post_tool_call` is fired for
each result, `pre_llm_call` before each message of the agent. Every prompt is checked as a provider
would, and must be within the budget unless the processor said that it cannot be.
"""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks.baselines import tokens_of
from benchmarks.report import empty_table
from benchmarks.sizes import sizes_of
from benchmarks.traces import DEFAULT_DATA, Half, Trace, swe, taubench
from durable_context.errors import DurableContextError, InvalidTurn
from durable_context.processors import (
    Context,
    ContextConfig,
    DialogueCompressor,
    MessageOffloader,
    ProcessorPipeline,
    RoundWindowProcessor,
    SummarizeProcessor,
    TokenBudgetProcessor,
    ToolResultOffloader,
)
from durable_context.summarizers.extractive import ExtractiveSummarizer
from durable_context.tokens import REPLY_OVERHEAD, token_counter
from durable_context.turns.messages import parse_message
from durable_context.turns.pairing import with_results

JsonObject = dict[str, Any]
ENCODING = "o200k_base"


@dataclass
class Prompts:
    """What became of the prompts of one corpus at one budget.

    `told_over`: what must stay is larger than the budget, and the processor said so.
    `changed_again`: a second run changed something. `kept` and `whole` are tokens.
    """

    corpus: str
    budget: int
    prompts: int = 0
    invalid: int = 0
    over_budget: int = 0
    told_over: int = 0
    system_lost: int = 0
    changed_again: int = 0
    kept: int = 0
    whole: int = 0
    milliseconds: list[float] = field(default_factory=list[float])

    @property
    def wrong(self) -> int:
        return self.invalid + self.over_budget + self.system_lost + self.changed_again


def main(
    data: Annotated[
        Path, typer.Option(help="Folder with the recorded traces.", show_default="../shared/data")
    ] = DEFAULT_DATA,
    half: Annotated[Half, typer.Option(help="Of tau-bench.")] = Half.DEV,
    budgets: Annotated[str, typer.Option(help="Tokens, with commas.")] = "4000,8000,32000",
    limit: Annotated[int | None, typer.Option(help="First branches of each corpus.", min=1)] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Count what is wrong with prompts that went through all processors."""
    try:
        corpora = {"tau-bench": taubench(data, half)[:limit], "coding": swe(data)[:limit]}
        found = asyncio.run(_measured(corpora, sizes_of(budgets)))
    except KeyboardInterrupt:
        raise typer.Exit(128 + signal.SIGINT) from None
    except DurableContextError as error:
        Console(stderr=True).print(str(error), markup=False, soft_wrap=True)
        raise typer.Exit(1) from error
    if json:
        Console(soft_wrap=True).print_json(data=[asdict(each) for each in found])
    else:
        _show(found, Console(highlight=False))
    if any(each.wrong for each in found):
        raise typer.Exit(1)


async def _measured(corpora: dict[str, list[Trace]], sizes: Sequence[int]) -> list[Prompts]:
    return [
        await measure(corpus, traces, budget)
        for corpus, traces in corpora.items()
        for budget in sizes
    ]


async def measure(corpus: str, traces: Sequence[Trace], budget: int) -> Prompts:
    """Play all traces and look at each prompt."""
    found = Prompts(corpus, budget)
    for trace in traces:
        async for ctx, pipeline, whole in _played(trace, budget):
            await _look(found, ctx, pipeline, whole)
    return found


def recommended(budget: int) -> ProcessorPipeline:
    """The order that the design of the processors recommends."""
    return (
        ProcessorPipeline()
        .register(MessageOffloader(max_message_size=10_000))
        .register(DialogueCompressor(summarizer=ExtractiveSummarizer()))
        .register(RoundWindowProcessor())
        .register(SummarizeProcessor())
        .register(TokenBudgetProcessor(max_tokens=budget, encoding=ENCODING))
        .register(ToolResultOffloader(max_size=5000))
    )


async def _played(
    trace: Trace, budget: int
) -> AsyncIterator[tuple[Context, ProcessorPipeline, int]]:
    """The context before each model call, with the tokens of all that was said until then."""
    ctx = Context(trace.name, config=ContextConfig(history_rounds=20))
    system = {"role": "system", "content": trace.tasks[0].system or "You are an agent."}
    history = [system]
    ctx.state["history"] = history
    pipeline = recommended(budget)
    counter, names = token_counter(ENCODING), dict[str, str]()
    whole = REPLY_OVERHEAD + tokens_of(system, counter)
    for message in (message for task in trace.tasks for message in task.messages):
        whole += tokens_of(message, counter)
        if message["role"] == "assistant":
            yield ctx, pipeline, whole
            names |= {c["id"]: c["function"]["name"] for c in message.get("tool_calls") or ()}
        if message["role"] == "tool":
            message = await _processed(message, names, ctx, pipeline)
        history.append(message)


async def _processed(
    message: JsonObject, names: dict[str, str], ctx: Context, pipeline: ProcessorPipeline
) -> JsonObject:
    call_id = message["tool_call_id"]
    payload = {
        "tool_result": message["content"],
        "tool_name": names.get(call_id, "unknown"),
        "tool_call_id": call_id,
    }
    await pipeline.fire("post_tool_call", ctx, payload)
    return message | {"content": payload["tool_result"]}


async def _look(found: Prompts, ctx: Context, pipeline: ProcessorPipeline, whole: int) -> None:
    started = time.perf_counter()
    await pipeline.fire("pre_llm_call", ctx)
    found.milliseconds.append((time.perf_counter() - started) * 1_000)
    history = list(ctx.state["history"])
    counter = token_counter(ENCODING)
    tokens = REPLY_OVERHEAD + sum(tokens_of(message, counter) for message in history)
    fits = ctx.state["token_budget_trimmed"]["fits"]
    found.prompts += 1
    found.invalid += not is_valid(history)
    found.over_budget += fits and tokens > found.budget
    found.told_over += not fits
    found.system_lost += history[0]["role"] != "system"
    found.kept += tokens
    found.whole += whole
    await pipeline.fire("pre_llm_call", ctx)
    found.changed_again += ctx.state["history"] != history


def is_valid(history: Sequence[JsonObject]) -> bool:
    """Whether each call is followed by its result, and each result follows its call."""
    said = [message for message in history if message["role"] != "system"]
    try:
        with_results([parse_message(message, n) for n, message in enumerate(said)], "complete")
    except InvalidTurn:
        return False
    return bool(said)


def _show(found: Sequence[Prompts], console: Console) -> None:
    table = empty_table("All processors in the recommended order")
    table.add_column("corpus")
    for name in ("budget", "prompts", "wrong", "cannot fit", "tokens", "of", "p50 ms", "p99 ms"):
        table.add_column(name, justify="right")
    for each in found:
        times = sorted(each.milliseconds)
        counts = (each.budget, each.prompts, each.wrong, each.told_over)
        means = (each.kept // each.prompts, each.whole // each.prompts)
        table.add_row(
            each.corpus,
            *(f"{count:,}" for count in (*counts, *means)),
            f"{times[len(times) // 2]:.1f}",
            f"{times[len(times) * 99 // 100]:.1f}",
        )
    console.print(table)


if __name__ == "__main__":
    typer.run(main)
