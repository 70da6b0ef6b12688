"""Virtual environments that see the distributions they are given and nothing else of this one."""

import subprocess
import sys
import venv
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement


def needed_by(requirements: Iterable[str], extra: str = "") -> set[tuple[str, str]]:
    """The names, each with one extra or none, that the requirements lead to on this interpreter."""
    found: set[tuple[str, str]] = set()
    frontier = [(Requirement(requirement), extra) for requirement in requirements]
    while frontier:
        requirement, asked = frontier.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": asked}):
            continue
        for part in {(requirement.name, name) for name in ("", *requirement.extras)} - found:
            found.add(part)
            further = distribution(part[0]).requires or []
            frontier += [(Requirement(each), part[1]) for each in further]
    return found


def make_environment(folder: Path, distributions: Iterable[str], wheel: Path) -> Path:
    """Installs the wheel beside links to the distributions, without a registry."""
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    subprocess.run([*install, "--no-deps", "--no-index", "--no-compile", str(wheel)], check=True)
    (site_packages,) = folder.glob("lib/python*/site-packages")
    for name in distributions:
        link_distribution(name, site_packages)
    return python


def link_distribution(name: str, site_packages: Path) -> None:
    try:
        installed = distribution(name)
    except PackageNotFoundError:  # locked for other platforms
        return
    for top in {file.parts[0] for file in installed.files or []} - {"..", "__pycache__"}:
        link = site_packages / top
        if not link.exists():
            link.symlink_to(Path(str(installed.locate_file(top))))
