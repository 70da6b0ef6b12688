"""The real Temporal server with its persistence in PostgreSQL, as a cluster would run it."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from worker.child_process import Command
from worker.postgres_server import PostgresServer
from worker.temporal_programs import TemporalPorts, server_command

DEFAULT, VISIBILITY = "temporal", "temporal_visibility"
SCHEMAS = {DEFAULT: "postgresql/v12/temporal", VISIBILITY: "postgresql/v12/visibility"}
HISTORY_SHARDS = 16


@dataclass(frozen=True)
class TemporalOnPostgres:
    """Run by `TemporalServer`, like the kinds of server that the embedded stack uses."""

    server: Path
    postgres: PostgresServer
    database: str = DEFAULT

    def commands(self, directory: Path, ports: TemporalPorts, *, ui: bool) -> dict[str, Command]:
        assert not ui
        return {"temporal": server_command(self.server, directory, self._persistence(), ports)}

    def _persistence(self) -> dict[str, Any]:
        return {
            "defaultStore": DEFAULT,
            "visibilityStore": VISIBILITY,
            "numHistoryShards": HISTORY_SHARDS,
            "datastores": {name: {"sql": self._sql(name)} for name in SCHEMAS},
        }

    def _sql(self, database: str) -> dict[str, Any]:
        url = urlsplit(self.postgres.url_of(database))
        return {
            "pluginName": "postgres12",
            "databaseName": database,
            "connectAddr": f"{url.hostname}:{url.port}",
            "connectProtocol": "tcp",
            "user": url.username,
            "password": url.password,
            "maxConns": 20,
            "maxIdleConns": 20,
            "maxConnLifetime": "1h",
        }


async def make_schemas(sql_tool: Path, postgres: PostgresServer) -> None:
    """What the admin tools' container does before a server first starts."""
    for database, schema in SCHEMAS.items():
        await _run(sql_tool, postgres, database, "create")
        await _run(sql_tool, postgres, database, "setup-schema", "--version", "0.0")
        await _run(sql_tool, postgres, database, "update-schema", "--schema-name", schema)


async def _run(sql_tool: Path, postgres: PostgresServer, database: str, *command: str) -> None:
    url = urlsplit(postgres.url_of(database))
    process = await asyncio.create_subprocess_exec(
        sql_tool,
        *("--plugin", "postgres12", "--ep", str(url.hostname), "--port", str(url.port)),
        *("--user", str(url.username), "--db", database, *command),
        env={"SQL_PASSWORD": str(url.password)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
