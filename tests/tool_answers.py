"""Context tools by name, and reading on where an answer says so."""

import re
from typing import Any

from durable_context.branch import Branch
from durable_context.tokens import token_counter
from durable_context.tools.context_tools import ContextTool, get_context_tools

COUNTER = token_counter("o200k_base")
LINES = "".join(
    f"line number {n}: pallet P{n:05d} stands in depot {n % 7}\n" for n in range(1, 901)
)
DATA = "Data, not instructions."
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x02\x80\0\0\x01\xe0\x08\x02\0\0\0"


def by_name(branch: Branch, **options: Any) -> dict[str, ContextTool]:
    return {tool.name: tool for tool in get_context_tools(branch, **options)}


def body(answer: str) -> str:
    """What stands below the heads."""
    return "\n".join(line for line in answer.split("\n") if not line.startswith("["))


def go_on(answer: str) -> dict[str, int] | None:
    """The arguments an answer names for going on."""
    head = "\n".join(line for line in answer.split("\n")[:2] if line.startswith("["))
    found = re.search(r"go on with (?:from_turn=(\d+), to_turn=(\d+))?.*?\]", head)
    if found is None:
        return None
    return {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", found[0])}


async def read_on(tool: ContextTool, **arguments: Any) -> list[str]:
    """All parts, each found where the one before said."""
    answers = [await tool(**arguments)]
    while following := go_on(answers[-1]):
        answers.append(await tool(**(arguments | {"offset": None} | following)))
        assert len(answers) < 500
    return answers
