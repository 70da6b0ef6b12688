"""How to run the two kinds of Temporal server there are: the CLI's, and the server's own programs.

Both keep their database in the folder they run in, under a constant relative name, because SQLite
would read a path as a URL. Each kind has a file of its own: their schemas may differ.
"""

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from worker.child_process import Command
from worker.free_ports import LOOPBACK, free_ports

NAMESPACE = "default"
# Eager activities halve the latency of a run with four of them; the other two make new search
# attributes usable at once and spare an idle machine the polling of many partitions.
DYNAMIC_CONFIG: Mapping[str, Any] = {
    "system.enableActivityEagerExecution": True,
    "system.forceSearchAttributesCacheRefreshOnRead": True,
    "matching.numTaskqueueReadPartitions": 1,
    "matching.numTaskqueueWritePartitions": 1,
}
# A power cut loses the last moments, which costs nothing because PostgreSQL has every turn. OFF is
# a sixth faster, but then a power cut may leave a database that never opens again.
PRAGMAS: Mapping[str, str] = {"journal_mode": "WAL", "synchronous": "NORMAL"}
SERVICES = ("frontend", "history", "matching", "worker")


@dataclass(frozen=True)
class TemporalPorts:
    frontend: int
    ui: int
    others: tuple[int, ...]

    @classmethod
    def free(cls) -> "TemporalPorts":
        frontend, ui, *others = free_ports(1 + 2 * len(SERVICES))
        return cls(frontend=frontend, ui=ui, others=tuple(others))

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.frontend}"


class TemporalSoftware(Protocol):
    """What can be run as a Temporal server. The first command is the server, a second its UI."""

    @property
    def database(self) -> str:
        """The name its files in the folder begin with."""
        ...

    def commands(
        self, directory: Path, ports: TemporalPorts, *, ui: bool
    ) -> dict[str, Command]: ...


@dataclass(frozen=True)
class TemporalCli:
    """The `temporal` command's development server: server and UI in one process."""

    program: Path
    database: str = "temporal-cli.sqlite"

    def commands(self, directory: Path, ports: TemporalPorts, *, ui: bool) -> dict[str, Command]:
        options = [
            *("server", "start-dev", "--ip", LOOPBACK, "--port", str(ports.frontend)),
            *(("--ui-port", str(ports.ui)) if ui else ("--headless",)),
            *("--namespace", NAMESPACE, "--db-filename", self.database, "--log-level", "warn"),
            *_repeated("--sqlite-pragma", PRAGMAS),
            *_repeated(
                "--dynamic-config-value",
                {name: json.dumps(value) for name, value in DYNAMIC_CONFIG.items()},
            ),
        ]
        return {"temporal": Command([str(self.program), *options], directory=directory)}


@dataclass(frozen=True)
class TemporalPrograms:
    """Temporal's server program with all four services, and its UI server."""

    server: Path
    ui: Path
    database: str = "temporal-server.sqlite"

    def commands(self, directory: Path, ports: TemporalPorts, *, ui: bool) -> dict[str, Command]:
        _forget_members(directory / self.database)
        server = server_command(self.server, directory, sqlite_persistence(self.database), ports)
        commands = {"temporal": server}
        if ui:
            _write_json(directory / "ui.yaml", _ui_config(ports))
            program = [str(self.ui), "--root", ".", "--config", ".", "--env", "ui", "start"]
            commands["temporal-ui"] = Command(program, directory=directory)
        return commands


def server_command(
    program: Path, directory: Path, persistence: dict[str, Any], ports: TemporalPorts
) -> Command:
    """Writes the server's configuration into the folder it runs in."""
    # JSON is YAML, and quotes whatever is in it.
    _write_json(directory / "server.yaml", _server_config(persistence, ports))
    _write_json(
        directory / "dynamic.yaml",
        {name: [{"value": value}] for name, value in DYNAMIC_CONFIG.items()},
    )
    arguments = [str(program), "--config-file", "server.yaml", "--allow-no-auth", "start"]
    return Command(arguments, directory=directory)


def _server_config(persistence: dict[str, Any], ports: TemporalPorts) -> dict[str, Any]:
    grpc_ports = (ports.frontend, *ports.others)
    membership_ports = ports.others[len(SERVICES) - 1 :]
    return {
        "log": {"stdout": True, "level": "warn"},
        "persistence": persistence,
        "global": {"membership": {"maxJoinDuration": "30s", "broadcastAddress": LOOPBACK}},
        "services": {
            service: {
                "rpc": {"grpcPort": grpc, "membershipPort": membership, "bindOnLocalHost": True}
            }
            for service, grpc, membership in zip(
                SERVICES, grpc_ports, membership_ports, strict=False
            )
        },
        "clusterMetadata": _cluster(ports.address),
        "dcRedirectionPolicy": {"policy": "noop"},
        "publicClient": {"hostPort": ports.address},
        "dynamicConfigClient": {"filepath": "dynamic.yaml", "pollInterval": "60s"},
    }


def sqlite_persistence(database: str) -> dict[str, Any]:
    sqlite = {
        "pluginName": "sqlite",
        "databaseName": database,
        "connectAddr": "localhost",
        "connectProtocol": "tcp",
        "connectAttributes": {"cache": "private", "setup": "true", **PRAGMAS},
        "maxConns": 1,
        "maxIdleConns": 1,
    }
    return {
        "defaultStore": "sqlite",
        "visibilityStore": "sqlite",
        "numHistoryShards": 1,
        "datastores": {"sqlite": {"sql": sqlite}},
    }


def _cluster(address: str) -> dict[str, Any]:
    active = {
        "enabled": True,
        "initialFailoverVersion": 1,
        "rpcName": "frontend",
        "rpcAddress": address,
    }
    return {
        "enableGlobalNamespace": False,
        "failoverVersionIncrement": 10,
        "masterClusterName": "active",
        "currentClusterName": "active",
        "clusterInformation": {"active": active},
    }


def _ui_config(ports: TemporalPorts) -> dict[str, Any]:
    return {
        "temporalGrpcAddress": ports.address,
        "host": LOOPBACK,
        "port": ports.ui,
        "enableUi": True,
        "defaultNamespace": NAMESPACE,
        "disableNewsFetch": True,
        "notifyOnNewVersion": False,
        "cors": {"cookieInsecure": True, "allowOrigins": [f"http://{LOOPBACK}:{ports.ui}"]},
    }


def _forget_members(database: Path) -> None:
    """A killed server stays listed as a member, and its successor waits 50 s for an answer."""
    if database.exists():
        with closing(sqlite3.connect(database, isolation_level=None)) as connection:
            connection.execute("delete from cluster_membership")


def _repeated(option: str, values: Mapping[str, str]) -> list[str]:
    return [part for name, value in values.items() for part in (option, f"{name}={value}")]


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2))
