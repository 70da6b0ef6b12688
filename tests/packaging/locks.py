"""Reads the lock files."""

import re
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]


def entries(lock: str) -> list[str]:
    """Each requirement of a lock file with its options, on one line."""
    text = (ROOT / lock).read_text().replace("\\\n", " ")
    return [line for line in text.splitlines() if line.strip()]


def pins(lock: str) -> list[Requirement]:
    return [Requirement(re.split(r"\s--hash=", entry, maxsplit=1)[0]) for entry in entries(lock)]
