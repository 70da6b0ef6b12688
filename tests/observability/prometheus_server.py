"""A real Prometheus that scrapes what it is told, with the shipped alert rules."""

import asyncio
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

from tests.telemetry.queries import ALERTS
from worker.child_process import ChildProcess, Command
from worker.free_ports import LOOPBACK, free_ports

START_SECONDS = 60
SCRAPE_SECONDS = 2


def installed(program: str) -> str:
    """Raises FileNotFoundError, which says where it comes from."""
    path = shutil.which(program)
    if path is None:
        raise FileNotFoundError(f"{program} is not installed: apt install prometheus")
    return path


class PrometheusServer:
    """`async with`: scrapes each job's address, `HOST:PORT`, every two seconds."""

    def __init__(self, directory: Path, jobs: Mapping[str, str]) -> None:
        self._directory = directory
        [self._port] = free_ports(1)
        self._configuration = {
            "global": {"scrape_interval": f"{SCRAPE_SECONDS}s", "evaluation_interval": "5s"},
            "rule_files": [str(ALERTS)],
            "scrape_configs": [
                {"job_name": job, "static_configs": [{"targets": [address]}]}
                for job, address in jobs.items()
            ],
        }

    async def __aenter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        configuration = self._directory / "prometheus.yml"
        configuration.write_text(yaml.safe_dump(self._configuration))
        arguments = [
            installed("prometheus"),
            f"--config.file={configuration}",
            f"--storage.tsdb.path={self._directory / 'data'}",
            f"--web.listen-address={LOOPBACK}:{self._port}",
            "--log.level=warn",
        ]
        self._child = ChildProcess("prometheus", Command(arguments), directory=self._directory)
        await self._child.start()
        await self._until_ready()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._child.stop()

    async def at(self, query: str, time: float) -> list[dict[str, Any]]:
        """The series an expression gives at a time, each with `metric` and `value`."""
        return (await self._ask("query", query=query, time=time))["result"]

    async def between(
        self, query: str, start: float, end: float, step: float
    ) -> list[dict[str, Any]]:
        """The series an expression gives, each with `metric` and `values`."""
        asked = {"query": query, "start": start, "end": end, "step": step}
        return (await self._ask("query_range", **asked))["result"]

    async def targets(self) -> dict[str, str]:
        """The health of each job's target."""
        found = (await self._ask("targets"))["activeTargets"]
        return {target["labels"]["job"]: target["health"] for target in found}

    async def rules(self) -> list[dict[str, Any]]:
        return [rule for group in (await self._ask("rules"))["groups"] for rule in group["rules"]]

    async def _ask(self, what: str, **asked: object) -> Any:
        url = f"http://{LOOPBACK}:{self._port}/api/v1/{what}?{urlencode(asked)}"
        return json.loads(await asyncio.to_thread(_read, url))["data"]

    async def _until_ready(self) -> None:
        for _ in range(START_SECONDS * 10):
            self._child.check_running()
            try:
                await asyncio.to_thread(_read, f"http://{LOOPBACK}:{self._port}/-/ready")
            except URLError:
                await asyncio.sleep(0.1)
            else:
                return
        raise self._child.failure(f"was not ready within {START_SECONDS} seconds")


def _read(url: str) -> bytes:
    with urlopen(url, timeout=30) as answer:
        return answer.read()
