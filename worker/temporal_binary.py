"""Finds a Temporal server to use, in a fixed order, and installs one as a last resort.

What an earlier start installed is used before anything is asked of a network again.
"""

import asyncio
import hashlib
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from temporalio.testing import WorkflowEnvironment

from worker.errors import BuildFailed, TemporalNotFound
from worker.go_build import Report, build_program, install_program, is_program
from worker.settings import EmbeddedSettings
from worker.temporal_programs import TemporalCli, TemporalPrograms

CLI_VERSION = "v1.5.1"
CLI_PACKAGE = f"github.com/temporalio/cli/cmd/temporal@{CLI_VERSION}"
SERVER_MODULE = Path(__file__).with_name("temporal_module")
SERVER_PACKAGE = "go.temporal.io/server/cmd/server"
SQL_TOOL_PACKAGE = "go.temporal.io/server/cmd/tools/sql"
UI_MODULE = Path(__file__).with_name("temporal_ui_module")
UI_PACKAGE = "github.com/temporalio/ui-server/v2/cmd/server"
DOWNLOAD_SECONDS = 180.0


@dataclass(frozen=True)
class ExternalTemporal:
    """A server somebody else runs; how to connect to it is for Temporal's own environment."""

    address: str
    ui_url: str | None


TemporalSource = ExternalTemporal | TemporalCli | TemporalPrograms


async def find_temporal(settings: EmbeddedSettings, report: Report) -> TemporalSource:
    """The address in the environment, else a CLI or server that is here, else one installed now."""
    if settings.temporal_address is not None:
        return ExternalTemporal(settings.temporal_address, settings.temporal_ui_url)
    return _named(settings) or _on_path() or _cached(settings) or await _installed(settings, report)


async def build_temporal_programs(cache: Path, report: Report) -> TemporalPrograms:
    """The server and its UI from the modules pinned beside this file."""
    programs = _programs_in(cache)
    await build_program(SERVER_PACKAGE, SERVER_MODULE, programs.server, report)
    await build_program(UI_PACKAGE, UI_MODULE, programs.ui, report)
    return programs


async def build_sql_tool(cache: Path, report: Report) -> Path:
    """The tool that makes the schemas of a server on PostgreSQL; same version as the server."""
    tool = _pinned(cache, "temporal-sql-tool", SERVER_MODULE)
    return await build_program(SQL_TOOL_PACKAGE, SERVER_MODULE, tool, report)


def _named(settings: EmbeddedSettings) -> TemporalCli | None:
    if settings.temporal_cli is None:
        return None
    if not is_program(settings.temporal_cli):
        raise TemporalNotFound(
            f"DURABLE_CONTEXT_TEMPORAL_CLI is {str(settings.temporal_cli)!r}, which is not a "
            "program; it must be the path of the `temporal` command"
        )
    return TemporalCli(settings.temporal_cli)


def _on_path() -> TemporalCli | None:
    found = shutil.which("temporal")
    return None if found is None else TemporalCli(Path(found))


def _cached(settings: EmbeddedSettings) -> TemporalCli | TemporalPrograms | None:
    cache = settings.temporal_cache
    for program in (*_downloads(cache), _installed_cli(cache)):
        if is_program(program):
            return TemporalCli(program)
    programs = _programs_in(cache)
    return programs if is_program(programs.server) and is_program(programs.ui) else None


async def _installed(settings: EmbeddedSettings, report: Report) -> TemporalCli | TemporalPrograms:
    cache = settings.temporal_cache
    cache.mkdir(parents=True, exist_ok=True)
    ways: list[tuple[str, Callable[[], Awaitable[TemporalCli | TemporalPrograms]]]] = [
        ("Temporal's download", lambda: _download(cache, report)),
    ]
    if shutil.which("go") is not None:
        ways.append(("the CLI with Go", lambda: _install_cli(cache, report)))
        ways.append(("the server with Go", lambda: build_temporal_programs(cache, report)))
    failures: list[str] = []
    for what, install in ways:
        try:
            report(f"Looking for a Temporal server: {what}")
            return await install()
        except (RuntimeError, TimeoutError, BuildFailed) as error:
            failures.append(f"{what}: {_first_line(error)}")
    raise TemporalNotFound(_advice(failures))


async def _download(cache: Path, report: Report) -> TemporalCli:
    """Let the SDK fetch the CLI: it knows where from, and leaves it in the folder it is given."""
    folder = cache / "download"
    folder.mkdir(exist_ok=True)
    async with asyncio.timeout(DOWNLOAD_SECONDS):
        environment = await WorkflowEnvironment.start_local(  # pyright: ignore[reportUnknownMemberType]
            download_dest_dir=str(folder), dev_server_log_level="error"
        )
        await environment.shutdown()
    for program in _downloads(cache):
        return TemporalCli(program)
    raise RuntimeError(f"the download left no program in {str(folder)!r}")


async def _install_cli(cache: Path, report: Report) -> TemporalCli:
    return TemporalCli(await install_program(CLI_PACKAGE, _installed_cli(cache), report))


def _downloads(cache: Path) -> list[Path]:
    found = [path for path in (cache / "download").glob("temporal*") if is_program(path)]
    return sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)


def _installed_cli(cache: Path) -> Path:
    return cache / f"temporal-cli-{CLI_VERSION}"


def _programs_in(cache: Path) -> TemporalPrograms:
    return TemporalPrograms(
        server=_pinned(cache, "temporal-server", SERVER_MODULE),
        ui=_pinned(cache, "temporal-ui", UI_MODULE),
    )


def _pinned(cache: Path, name: str, module: Path) -> Path:
    """Other pins make another file: an upgrade is built, not mistaken for the old program."""
    pins = (module / "go.mod").read_bytes() + (module / "go.sum").read_bytes()
    return cache / f"{name}-{hashlib.sha256(pins).hexdigest()[:12]}"


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


def _advice(failures: list[str]) -> str:
    tried = "\n".join(f"  - {failure}" for failure in failures)
    return (
        "no Temporal server was found and none could be installed. Do one of these:\n"
        "  - install the Temporal CLI, https://docs.temporal.io/cli#install, so that `temporal` is "
        "on PATH\n"
        "  - set DURABLE_CONTEXT_TEMPORAL_CLI to the path of the `temporal` command\n"
        "  - set TEMPORAL_ADDRESS to the host:port of a server that runs already\n"
        "  - install Go, https://go.dev/dl, and start again: the server is built once\n"
        f"What was tried:\n{tried}"
    )
