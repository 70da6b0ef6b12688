"""The commands that the README and continuous integration use are those the Makefile has."""

import re

import pytest

from tests.packaging.locks import ROOT

TARGETS = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))

BENCHMARKS = ("bench", "bench-recall", "bench-cache")


def commands_in(text: str) -> list[str]:
    return re.findall(r"^(?:\$ )?(make [a-z-]+)", text, re.MULTILINE)


def shell_blocks(document: str) -> str:
    blocks = re.findall(r"^```(?:sh|bash|shell|console)\n(.*?)^```", document, re.M | re.S)
    return "".join(blocks)


def test_continuous_integration_checks_and_then_runs_the_test_command_of_the_readme() -> None:
    in_readme = commands_in(shell_blocks((ROOT / "README.md").read_text()))
    script = (ROOT / ".ci" / "run").read_text()

    assert commands_in(script) == ["make check", "make test"]
    assert "make test" in in_readme


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_every_make_command_in_the_documents_exists(document: str) -> None:
    named = commands_in(shell_blocks((ROOT / document).read_text()))

    assert {command.removeprefix("make ") for command in named} <= TARGETS


def test_the_stated_targets_exist() -> None:
    assert {"demo", "test", "test-production", "check", "up", "down", *BENCHMARKS} <= TARGETS
