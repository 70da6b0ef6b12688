"""What is shipped: the library alone, complete, and usable without the checkout."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

from tests.packaging.environments import make_environment, needed_by
from tests.packaging.locks import ROOT, pins

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAME = f"durable_context-{PROJECT['version']}"
LIBRARY = ROOT / "src" / "durable_context"
SOURCES = {
    f"durable_context/{path.relative_to(LIBRARY)}"
    for path in LIBRARY.rglob("*")
    if path.is_file() and "__pycache__" not in path.parts
}
SHIPPED_KINDS = re.compile(
    r"durable_context/((\w+/)*\w+\.py|py\.typed|migrations/\d{4}_\w+\.sql"
    r"|encodings/\w+\.tiktoken\.gz|summarizers/prompts/\w+-\d+\.md"
    r"|inspector/(templates/\w+\.html|static/(\w+\.(css|svg)|htmx-(LICENSE|[\d.]+\.min\.js))))"
)


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", folder], cwd=ROOT, check=True)
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (path,) = dist.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def requirements(wheel: Path) -> list[str]:
    return metadata(wheel).get_all("Requires-Dist", [])


@pytest.fixture(scope="module")
def python(wheel: Path, requirements: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the wheel and what it requires, without extras."""
    distributions = {name for name, _ in needed_by(requirements)}
    return make_environment(tmp_path_factory.mktemp("library"), distributions, wheel)


@pytest.fixture(scope="module")
def worker_python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment like the image's."""
    distributions = [pin.name for pin in pins("requirements.worker.lock")]
    return make_environment(tmp_path_factory.mktemp("worker"), distributions, wheel)


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        return Parser().parsestr(archive.read(f"{NAME}.dist-info/METADATA").decode())


def run(*command: str | Path, cwd: Path) -> str:
    """Runs the command as a user would: without this test run's paths."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    result = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_the_wheel_holds_the_library_and_nothing_else(wheel: Path) -> None:
    records = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())

    assert names == SOURCES | {f"{NAME}.dist-info/{record}" for record in records}


def test_every_shipped_file_is_of_a_known_kind() -> None:
    assert {name for name in SOURCES if not SHIPPED_KINDS.fullmatch(name)} == set()


@pytest.mark.parametrize(
    "part",
    [
        *("py.typed", "migrations/0001_", "encodings/o200k_base", "cli"),
        *("inspector/templates/base.html", "inspector/static/htmx-"),
    ],
)
def test_the_parts_that_are_easily_forgotten_are_in_the_wheel(part: str) -> None:
    assert any(name.startswith(f"durable_context/{part}") for name in SOURCES)


def test_the_source_archive_holds_the_library_and_its_documents(dist: Path) -> None:
    documents = {"pyproject.toml", "PKG-INFO", "README.md", "CHANGELOG.md", "LICENSE", ".gitignore"}
    with tarfile.open(dist / f"{NAME}.tar.gz") as archive:
        names = {name.removeprefix(f"{NAME}/") for name in archive.getnames()}

    assert names == documents | {f"src/{name}" for name in SOURCES}


def test_the_metadata_names_licence_interpreter_and_optional_models(wheel: Path) -> None:
    shipped = metadata(wheel)

    assert (shipped["Name"], shipped["License-Expression"]) == ("durable-context", "MIT")
    assert shipped["Requires-Python"] == ">=3.11"
    assert shipped.get_all("Provides-Extra") == ["models", "telemetry", "ui"]


def test_the_library_is_imported_from_the_wheel(python: Path, tmp_path: Path) -> None:
    code = "import durable_context; print(durable_context.__file__)"

    assert Path(run(python, "-c", code, cwd=tmp_path)).is_relative_to(python.parents[1])


@pytest.mark.parametrize("name", ["workflows", "activities", "worker", "tests", "pydantic_ai"])
def test_the_library_brings_no_other_top_level_name(
    name: str, python: Path, tmp_path: Path
) -> None:
    code = f"import durable_context, importlib.util as u; print(u.find_spec({name!r}))"

    assert run(python, "-c", code, cwd=tmp_path) == "None"


def test_the_console_script_runs_in_a_clean_environment(python: Path, tmp_path: Path) -> None:
    text = run(python.with_name("durable-context"), "--help", cwd=tmp_path)

    assert "replay" in text and "show" in text


def test_without_its_extra_the_page_says_what_to_install(python: Path, tmp_path: Path) -> None:
    command = (python.with_name("durable-context"), "ui")
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    assert result.returncode == 2
    assert "pip install 'durable-context[ui]'" in result.stderr


def test_the_worker_runs_on_what_its_image_installs(worker_python: Path, tmp_path: Path) -> None:
    for folder in ("workflows", "activities", "worker"):
        (tmp_path / folder).symlink_to(ROOT / folder)

    run(worker_python, "-c", "import worker.__main__", cwd=tmp_path)
