"""Which Temporal is used, and what a machine without one is told."""

import asyncio
import os
from pathlib import Path

import pytest

from worker.errors import TemporalNotFound
from worker.settings import EmbeddedSettings
from worker.temporal_binary import (
    SERVER_MODULE,
    ExternalTemporal,
    build_temporal_programs,
    find_temporal,
)
from worker.temporal_programs import TemporalCli, TemporalPorts, TemporalPrograms

# Takes long enough for two to overlap, and leaves a mark for each time it runs.
GO = """#!/bin/sh
[ "$1" = build ] || { echo "cannot reach the module proxy" >&2; exit 1; }
echo "$*" >> "$GO_CALLS"
sleep 0.2
for argument; do
  case "$argument" in */) printf '#!/bin/sh\\n' > "${argument}server"; chmod +x "${argument}server"
  esac
done
"""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EmbeddedSettings:
    """A machine with nothing on PATH, nothing cached, and no way to Temporal's download."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("GO_CALLS", str(tmp_path / "calls"))
    for proxy in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(proxy, "http://127.0.0.1:1")
    return EmbeddedSettings(data_directory=tmp_path / "data", temporal_cache=tmp_path / "cache")


def program(path: Path, content: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    path.chmod(0o755)
    return path


async def test_an_address_wins_over_a_named_cli_over_path_over_what_is_cached(
    settings: EmbeddedSettings, tmp_path: Path
) -> None:
    told: list[str] = []
    downloaded = program(settings.temporal_cache / "download" / "temporal-sdk-python-1")
    assert await find_temporal(settings, told.append) == TemporalCli(downloaded)
    on_path = program(tmp_path / "bin" / "temporal")
    assert await find_temporal(settings, told.append) == TemporalCli(on_path)
    named = program(tmp_path / "named")
    settings = settings.model_copy(update={"temporal_cli": named})
    assert await find_temporal(settings, told.append) == TemporalCli(named)
    settings = settings.model_copy(
        update={"temporal_address": "there:7233", "temporal_ui_url": "http://ui"}
    )
    assert await find_temporal(settings, told.append) == ExternalTemporal("there:7233", "http://ui")
    assert told == []


async def test_a_named_cli_that_is_no_program_is_refused(settings: EmbeddedSettings) -> None:
    settings = settings.model_copy(update={"temporal_cli": Path("/nowhere/temporal")})
    with pytest.raises(TemporalNotFound, match="DURABLE_CONTEXT_TEMPORAL_CLI is '/nowhere"):
        await find_temporal(settings, print)


async def test_a_machine_without_any_is_told_exactly_what_to_do(
    settings: EmbeddedSettings,
) -> None:
    told: list[str] = []
    with pytest.raises(TemporalNotFound) as failure:
        await find_temporal(settings, told.append)
    message = str(failure.value)
    for advice in ("https://docs.temporal.io/cli", "TEMPORAL_ADDRESS", "https://go.dev/dl"):
        assert advice in message
    assert "Temporal's download: " in message
    assert told == ["Looking for a Temporal server: Temporal's download"]


async def test_with_go_it_is_built_once_for_all_who_wait(
    settings: EmbeddedSettings, tmp_path: Path
) -> None:
    program(tmp_path / "bin" / "go", GO)
    os.environ["PATH"] += ":/usr/bin:/bin"
    builds = (build_temporal_programs(settings.temporal_cache, print) for _ in range(3))
    programs = await asyncio.gather(*builds)
    assert len(set(programs)) == 1
    assert os.access(programs[0].server, os.X_OK)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [call.split()[-1] for call in calls] == [
        "go.temporal.io/server/cmd/server",
        "github.com/temporalio/ui-server/v2/cmd/server",
    ]
    assert await find_temporal(settings, print) == programs[0]


async def test_a_build_that_fails_leaves_nothing_and_says_why(
    settings: EmbeddedSettings, tmp_path: Path
) -> None:
    program(tmp_path / "bin" / "go", '#!/bin/sh\necho "go: module not found"\nexit 1\n')
    with pytest.raises(TemporalNotFound, match=r"the server with Go: .*module not found"):
        await find_temporal(settings, lambda line: None)
    assert not [path for path in settings.temporal_cache.glob("temporal-*") if path.suffix == ""]


def test_other_pins_are_another_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from worker import temporal_binary

    module = tmp_path / "module"
    module.mkdir()
    (module / "go.mod").write_bytes((SERVER_MODULE / "go.mod").read_bytes())
    (module / "go.sum").write_bytes(b"other")
    before = temporal_binary._programs_in(tmp_path)
    monkeypatch.setattr(temporal_binary, "SERVER_MODULE", module)
    after = temporal_binary._programs_in(tmp_path)
    assert before.server != after.server
    assert before.ui == after.ui


def test_the_cli_is_asked_for_loopback_a_file_and_eager_activities(tmp_path: Path) -> None:
    ports = TemporalPorts(frontend=1111, ui=2222, others=())
    [command] = TemporalCli(Path("/bin/temporal")).commands(tmp_path, ports, ui=True).values()
    text = " ".join(command.arguments)
    assert text.startswith("/bin/temporal server start-dev --ip 127.0.0.1 --port 1111")
    assert "--ui-port 2222" in text
    assert "--db-filename temporal-cli.sqlite" in text
    assert "--sqlite-pragma journal_mode=WAL --sqlite-pragma synchronous=NORMAL" in text
    assert "--dynamic-config-value system.enableActivityEagerExecution=true" in text
    [command] = TemporalCli(Path("/bin/temporal")).commands(tmp_path, ports, ui=False).values()
    assert "--headless" in command.arguments


def test_the_server_opens_no_port_beyond_loopback(tmp_path: Path) -> None:
    import json

    programs = TemporalPrograms(Path("/bin/server"), Path("/bin/ui"))
    programs.commands(tmp_path, TemporalPorts.free(), ui=True)
    config = json.loads((tmp_path / "server.yaml").read_text())
    ports: list[int] = []
    for service in config["services"].values():
        assert service["rpc"].pop("bindOnLocalHost") is True
        ports += service["rpc"].values()
    assert len(set(ports)) == 8
    assert set(config["global"]) == {"membership"}
    assert json.loads((tmp_path / "ui.yaml").read_text())["host"] == "127.0.0.1"
