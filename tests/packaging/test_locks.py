"""The lock files are complete, hashed, free of addresses, and agree with pyproject.toml."""

import re
import tomllib
from collections.abc import Iterator
from itertools import product

import pytest
from packaging.requirements import Requirement

from tests.packaging.locks import ROOT, entries, pins

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKS = ["requirements.lock", "requirements.worker.lock", "requirements.build.lock"]
PYTHONS = ["3.11", "3.12", "3.13"]

EXTRAS = PYPROJECT["project"]["optional-dependencies"]
WORKER = [*PYPROJECT["project"]["dependencies"], *EXTRAS["models"], *EXTRAS["telemetry"]]
BUILD = PYPROJECT["build-system"]["requires"]
DEVELOPMENT = [each for each in PYPROJECT["dependency-groups"]["dev"] if isinstance(each, str)]


@pytest.mark.parametrize("lock", LOCKS)
def test_every_entry_is_one_exact_version_with_hashes(lock: str) -> None:
    pattern = re.compile(r"[a-z0-9-]+==[\w.]+( ; [^-]+?)?\s+(--hash=sha256:[0-9a-f]{64}\s*)+")

    assert [entry for entry in entries(lock) if not pattern.fullmatch(entry)] == []


@pytest.mark.parametrize("lock", LOCKS[1:])
def test_the_smaller_locks_pin_what_the_full_one_pins(lock: str) -> None:
    """Where each is needed may differ: of two that need a package one may need it everywhere."""
    assert set(_pinned(lock)) <= set(_pinned("requirements.lock"))


def _pinned(lock: str) -> Iterator[str]:
    return (re.sub(r" ; .+?(?= --hash)", "", " ".join(entry.split())) for entry in entries(lock))


@pytest.mark.parametrize(
    ("lock", "requirements", "python"),
    [
        (lock, requirements, python)
        for (lock, requirements), python in product(
            [
                ("requirements.lock", [*WORKER, *EXTRAS["ui"], *BUILD, *DEVELOPMENT]),
                ("requirements.worker.lock", WORKER),
                ("requirements.build.lock", BUILD),
            ],
            PYTHONS,
        )
    ],
)
def test_every_declared_requirement_is_locked(
    lock: str, requirements: list[str], python: str
) -> None:
    environment = {"python_version": python, "python_full_version": f"{python}.0"}
    locked = {
        pin.name: next(iter(pin.specifier)).version
        for pin in pins(lock)
        if pin.marker is None or pin.marker.evaluate(environment)
    }

    for requirement in map(Requirement, requirements):
        assert requirement.specifier.contains(locked[requirement.name.lower()]), requirement


def test_the_build_group_is_the_build_system() -> None:
    assert PYPROJECT["dependency-groups"]["build"] == BUILD


def test_every_supported_interpreter_is_declared() -> None:
    declared = {
        line.rpartition(" ")[2]
        for line in PYPROJECT["project"]["classifiers"]
        if re.search(r":: 3\.\d+$", line)
    }

    assert declared == set(PYTHONS)
