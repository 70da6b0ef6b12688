"""What the command says of itself: completion in shells, its version, its help."""

import asyncio
import re
import shlex
import sys
from importlib.metadata import version
from pathlib import Path

from tests.cli.running import Ended, Run, run_process

COMMAND = Path(sys.executable).with_name("durable-context")


async def completed(line: str, shell: str) -> Ended:
    """What the shell gets when somebody presses the tab key after this line."""
    words = {
        "bash": {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)},
        "zsh": {"_TYPER_COMPLETE_ARGS": line},
    }
    environment = words[shell] | {"_DURABLE_CONTEXT_COMPLETE": f"complete_{shell}"}
    return await run_process([str(COMMAND)], environment)


async def test_bash_completes_commands_and_options():
    for line, found in (
        ("durable-context pau", ["pause"]),
        ("durable-context br", ["branches"]),
        ("durable-context compact --fo", ["--focus"]),
        ("durable-context show orders --is", ["--iso"]),
        ("durable-context show ", []),
    ):
        ended = await completed(line, "bash")
        assert (ended.code, ended.out.split(), ended.errors) == (0, found, "")


async def test_zsh_completes_them_with_what_they_do():
    ended = await completed("durable-context paus", "zsh")
    assert (ended.code, ended.errors) == (0, "")
    assert re.fullmatch(
        r"_arguments '\*: :\(\(\"pause\":\"Compact nothing of a branch.*\"\)\)'\s*", ended.out
    )


async def test_bash_takes_the_completion_that_is_shown(tmp_path: Path):
    script = tmp_path / "completion.bash"
    asked = await run_process([str(COMMAND), "--show-completion", "bash"], {"SHELL": "/bin/bash"})
    assert asked.code == 0, asked.errors
    script.write_text(asked.out)
    press = (
        f"source {shlex.quote(str(script))}; COMP_WORDS=(durable-context resu); COMP_CWORD=1;"
        f' _durable_context_completion {shlex.quote(str(COMMAND))}; echo "${{COMPREPLY[@]}}"'
    )
    process = await asyncio.create_subprocess_exec(
        *("bash", "--norc", "-c", press), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert out.decode() == "resume\n"


async def test_it_says_its_version(durable_context: Run):
    ended = await durable_context("--version")
    assert (ended.code, ended.out) == (0, f"durable-context {version('durable-context')}\n")


async def test_commands_are_listed_in_groups(durable_context: Run):
    ended = await durable_context("--help")
    assert ended.code == 0
    groups = re.findall(r"─ (\w+) ─", ended.out)
    assert groups == ["Options", "Look", "Control", "Move"]
    assert ended.out.index(" show ") < ended.out.index("─ Control ─") < ended.out.index(" pause ")
