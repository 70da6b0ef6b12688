"""`python -m examples.tool_loop "Which tracking number was it?"`: an agent that looks up what its
prompt no longer shows, over any OpenAI-compatible server.

OPENAI_BASE_URL and OPENAI_API_KEY name the server, DURABLE_CONTEXT_DATABASE_URL the database.
"""

from typing import Annotated, Any

import typer
from openai import AsyncOpenAI

from durable_context import (
    Branch,
    Budget,
    BudgetExceeded,
    ContextClient,
    get_context_tools,
    run_tool_call,
)
from durable_context.cli.failures import FAILED, run
from durable_context.cli.output import console, plain

INSTRUCTIONS = (
    "Answer from this conversation. Its older part is in short form: look up what you need with"
    " the tools before you answer, and say so if it cannot be found."
)
MOST_STEPS = 20

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def tool_loop(
    question: str,
    conversation: Annotated[str, typer.Option(help="Its id; made if absent.")] = "tool-loop",
    model: Annotated[str, typer.Option(envvar="MODEL")] = "gpt-4o-mini",
    budget: Annotated[int, typer.Option(min=1, help="Tokens a prompt may have.")] = 16_000,
) -> None:
    """Ask an agent something in a conversation."""
    run(_tool_loop(question, conversation, model, budget))


async def _tool_loop(question: str, conversation: str, model: str, budget: int) -> int:
    async with await ContextClient.connect() as client, AsyncOpenAI() as server:
        branch = await client.open_branch(conversation)
        answer = await ask(branch, server, model, question, budget)
    console().print(plain(answer or "No answer: the budget or the steps did not do."))
    return 0 if answer else FAILED


async def ask(
    branch: Branch, server: AsyncOpenAI, model: str, question: str, max_tokens: int
) -> str | None:
    """The answer. Each step is recorded, so that a crash loses none and compaction keeps up."""
    tools = get_context_tools(branch)
    definitions: list[Any] = [tool.to_openai() for tool in tools]
    budget = Budget(max_tokens=max_tokens, instructions=INSTRUCTIONS, tools=tuple(definitions))
    said: list[Any] = [{"role": "user", "content": question}]
    for step in range(MOST_STEPS):
        prepared = await branch.prepare(None if step else question, budget=budget)
        if isinstance(prepared, BudgetExceeded):
            return None
        messages: list[Any] = list(prepared.messages)
        completion = await server.chat.completions.create(
            model=model, messages=messages, tools=definitions
        )
        reply = completion.choices[0].message
        said.append(reply)
        if not reply.tool_calls:
            await branch.record_turn(said, prepared=prepared)
            return reply.content
        said += [await run_tool_call(tools, call) for call in reply.tool_calls]
        await branch.record_turn(said, prepared=prepared, continues=True)
        said = []
    return None


if __name__ == "__main__":
    app()
