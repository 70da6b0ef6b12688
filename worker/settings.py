"""All settings, read from the environment here, and the figures of `Tuning`; nowhere else.

How to reach Temporal is left to Temporal's own environment configuration: TEMPORAL_ADDRESS,
TEMPORAL_NAMESPACE, TEMPORAL_API_KEY, TEMPORAL_TLS and the rest.
"""

import os
import re
import socket
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, Self

from temporalio.envconfig import ClientConfig

from durable_context.embeddings.endpoint import embedder_from_spec
from durable_context.errors import InvalidArgument
from durable_context.models import Value
from durable_context.policy import CompactionPolicy, policy_from_env
from durable_context.schedules import ScheduleSettings
from durable_context.summarizers.chain import summarizer_from_specs
from worker.errors import InvalidSettings
from worker.telemetry_settings import TelemetrySettings
from worker.tuning import Tuning
from worker.variables import flag, is_whole, whole

EXIT_ADDRESS_IN_USE = 75
"""The worker's exit code when an address it is to serve is taken; another one may do."""

NAME = re.compile(r"(?!__)[A-Za-z0-9_-]{1,200}")
BUILD_ID = re.compile(r"(?!__)[A-Za-z0-9_.:@/+-]{1,200}")
FORMS = {
    NAME: "up to 200 letters, digits, - and _, not __ first",
    BUILD_ID: "up to 200 letters, digits and -_.:@/+, not __ first",
}
"""What Temporal takes, and a shell, of a deployment and a build: its refusal is no poll's error."""

TEMPORAL_UI_URL = "DURABLE_CONTEXT_TEMPORAL_UI_URL"
DEFAULT_TEMPORAL_ADDRESS = "localhost:7233"
EXTRACTIVE = "extractive"


class Address(NamedTuple):
    host: str
    port: int


class Deployment(NamedTuple):
    """The worker deployment version these processes belong to."""

    name: str
    build_id: str


class EmbedderSettings(Value):
    """Who makes vectors: `openai:MODEL`, at OpenAI unless there is a `base_url`."""

    spec: str
    base_url: str | None = None
    dimensions: int | None = None


class Settings(Value):
    """What a worker needs; `summarizers` is a chain, the preferred one first. `schedules`: None
    where they are applied by hand. `lag_seconds`: how often the lag is measured, 0 for never.
    """

    database_url: str
    temporal: dict[str, Any]
    summarizers: tuple[str, ...] = (EXTRACTIVE,)
    model_base_url: str | None = None
    embedder: EmbedderSettings | None = None
    artifact_url: str | None = None
    policy: CompactionPolicy = CompactionPolicy()
    schedules: ScheduleSettings | None = ScheduleSettings()
    health: Address | None = None
    temporal_metrics: Address | None = None
    telemetry: TelemetrySettings = TelemetrySettings()
    lag_seconds: int = 60
    tuning: Tuning = Tuning()
    shutdown: timedelta = timedelta(seconds=120)
    deployment: Deployment | None = None

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Self:
        """Raises InvalidSettings, which names the variable, its value and what is allowed."""
        return cls(
            database_url=_required(environ, "DURABLE_CONTEXT_DATABASE_URL", "postgresql://…"),
            temporal=_temporal(environ),
            summarizers=_summarizers(environ),
            model_base_url=environ.get("DURABLE_CONTEXT_MODEL_BASE_URL") or None,
            embedder=_embedder(environ),
            artifact_url=environ.get("DURABLE_CONTEXT_ARTIFACT_URL") or None,
            policy=_policy(environ),
            schedules=_schedules(environ),
            health=_address(environ, "DURABLE_CONTEXT_HEALTH_ADDRESS"),
            temporal_metrics=_address(environ, "DURABLE_CONTEXT_TEMPORAL_METRICS_ADDRESS"),
            telemetry=TelemetrySettings.from_env(environ),
            lag_seconds=whole(environ, "DURABLE_CONTEXT_LAG_SECONDS", 60, 0, 3600),
            tuning=Tuning.from_env(environ),
            shutdown=timedelta(
                seconds=whole(environ, "DURABLE_CONTEXT_SHUTDOWN_SECONDS", 120, 0, 3600)
            ),
            deployment=_deployment(environ),
        )


class EmbeddedSettings(Value):
    """Where an embedded stack keeps its data, and which Temporal it uses."""

    data_directory: Path
    temporal_cache: Path
    temporal_address: str | None = None
    temporal_ui_url: str | None = None
    temporal_cli: Path | None = None

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Self:
        cli = environ.get("DURABLE_CONTEXT_TEMPORAL_CLI")
        return cls(
            data_directory=_data_directory(environ),
            temporal_cache=_xdg(environ, "XDG_CACHE_HOME", ".cache") / "temporal",
            temporal_address=environ.get("TEMPORAL_ADDRESS") or None,
            temporal_ui_url=environ.get(TEMPORAL_UI_URL) or None,
            temporal_cli=Path(cli) if cli else None,
        )


def with_temporal(environ: Mapping[str, str], address: str, namespace: str) -> dict[str, str]:
    """The environment with this plain server in place of whatever it said of Temporal."""
    rest = {name: value for name, value in environ.items() if not name.startswith("TEMPORAL_")}
    # An empty file keeps the user's own one, with its TLS and keys, out of it.
    return rest | {
        "TEMPORAL_ADDRESS": address,
        "TEMPORAL_NAMESPACE": namespace,
        "TEMPORAL_CONFIG_FILE": os.devnull,
    }


def _summarizers(environ: Mapping[str, str]) -> tuple[str, ...]:
    name = "DURABLE_CONTEXT_SUMMARIZERS"
    text = environ.get(name) or EXTRACTIVE
    try:
        summarizer_from_specs(text.split(","))
    except ValueError as error:
        raise InvalidSettings(f"{name}={text!r}: {error}") from error
    return tuple(spec.strip() for spec in text.split(","))


def _policy(environ: Mapping[str, str]) -> CompactionPolicy:
    try:
        return policy_from_env(environ)
    except InvalidArgument as error:
        raise InvalidSettings(str(error)) from error


def _schedules(environ: Mapping[str, str]) -> ScheduleSettings | None:
    if not flag(environ, "DURABLE_CONTEXT_SCHEDULES"):
        return None
    try:
        return ScheduleSettings.from_env(environ)
    except InvalidArgument as error:
        raise InvalidSettings(str(error)) from error


def _embedder(environ: Mapping[str, str]) -> EmbedderSettings | None:
    name = "DURABLE_CONTEXT_EMBEDDER"
    spec = environ.get(name)
    if not spec:
        return None
    settings = EmbedderSettings(
        spec=spec,
        base_url=environ.get("DURABLE_CONTEXT_EMBEDDER_BASE_URL") or None,
        dimensions=whole(environ, "DURABLE_CONTEXT_EMBEDDER_DIMENSIONS", 0, 1, 16_000) or None,
    )
    try:
        embedder_from_spec(spec)
    except ValueError as error:
        raise InvalidSettings(f"{name}={spec!r}: {error}") from error
    return settings


def _required(environ: Mapping[str, str], name: str, example: str) -> str:
    value = environ.get(name)
    if not value:
        raise InvalidSettings(f"{name} is not set; it must be an address such as {example}")
    return value


def _temporal(environ: Mapping[str, str]) -> dict[str, Any]:
    try:
        config = ClientConfig.load_client_connect_config(override_env_vars=dict(environ))
    except (RuntimeError, ValueError, OSError) as error:
        raise InvalidSettings(f"Temporal's environment configuration: {error}") from error
    return {"target_host": DEFAULT_TEMPORAL_ADDRESS, **config}


def _address(environ: Mapping[str, str], name: str) -> Address | None:
    text = environ.get(name)
    if not text:
        return None
    host, _, port = text.rpartition(":")
    if not host or not is_whole(port) or int(port) > 65535:
        raise InvalidSettings(f"{name}={text!r:.80} must be HOST:PORT, for example 127.0.0.1:8080")
    host = host.strip("[]")
    try:
        socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise InvalidSettings(f"{name}={text!r:.80} names no host: {error}") from error
    return Address(host, int(port))


def _deployment(environ: Mapping[str, str]) -> Deployment | None:
    names = ("TEMPORAL_DEPLOYMENT_NAME", "TEMPORAL_WORKER_BUILD_ID")
    name, build_id = (environ.get(each) for each in names)
    if bool(name) != bool(build_id):
        raise InvalidSettings(f"{names[0]}={name!r} and {names[1]}={build_id!r} go together")
    for variable, text, form in zip(names, (name, build_id), (NAME, BUILD_ID), strict=True):
        if text and not form.fullmatch(text):
            raise InvalidSettings(f"{variable}={text!r:.80} must be {FORMS[form]}")
    return Deployment(name, build_id) if name and build_id else None


def _data_directory(environ: Mapping[str, str]) -> Path:
    chosen = environ.get("DURABLE_CONTEXT_DATA_DIR")
    return Path(chosen) if chosen else _xdg(environ, "XDG_DATA_HOME", ".local/share")


def _xdg(environ: Mapping[str, str], name: str, default: str) -> Path:
    folder = Path(environ.get(name, ""))
    # Relative values are to be ignored, says the XDG base directory specification.
    return (folder if folder.is_absolute() else Path.home() / default) / "durable-context"
