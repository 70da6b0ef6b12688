"""What docker-compose.yml and Dockerfile promise, read from the files: nothing is started."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deployment.variables import FOREIGN, read_by_the_worker
from worker.settings import Settings

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
ONE_SHOT = {name for name, service in SERVICES.items() if service.get("restart") == "no"}
DOCKERFILE = (ROOT / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
HEALTH_CHECK = next((line for line in DOCKERFILE if line.startswith("HEALTHCHECK")), "")


def instructions(keyword: str) -> list[str]:
    prefix = f"{keyword} "
    return [line.strip().removeprefix(prefix) for line in DOCKERFILE if line.startswith(prefix)]


def seconds(duration: str) -> int:
    match = re.fullmatch(r"(\d+)s", duration)
    assert match, f"{duration!r} is not given in seconds"
    return int(match[1])


def pinned(image: str) -> bool:
    return re.search(r":v?\d+\.\d+[\w.-]*$", image) is not None


@pytest.mark.parametrize("name", SERVICES)
def test_every_image_is_pinned_by_version(name: str) -> None:
    assert pinned(SERVICES[name]["image"])


def test_the_dockerfile_starts_from_a_pinned_image() -> None:
    bases = [line.split(" AS ")[0] for line in instructions("FROM")]

    assert bases and all(pinned(base) for base in bases)


def test_our_image_carries_the_version_of_the_project() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    ours = {service["image"] for service in SERVICES.values() if "build" in service}

    assert ours == {f"durable-context:{version}"}


@pytest.mark.parametrize("name", SERVICES)
def test_every_dependency_exists_and_waits_for_what_the_other_service_can_reach(name: str) -> None:
    for dependency, options in SERVICES[name].get("depends_on", {}).items():
        assert dependency in SERVICES
        reached = "service_completed_successfully" if dependency in ONE_SHOT else "service_healthy"
        assert options["condition"] == reached, f"{name} waits wrongly for {dependency}"


def test_every_one_shot_service_is_waited_for_by_one_that_stays() -> None:
    """`docker compose up --wait` fails for a finished container that nothing depends on."""
    waited_for: set[str] = set()
    frontier = set(SERVICES) - ONE_SHOT
    while frontier:
        waited_for |= frontier
        frontier = {other for name in frontier for other in SERVICES[name].get("depends_on", {})}
        frontier -= waited_for

    assert waited_for >= ONE_SHOT


@pytest.mark.parametrize("name", sorted(set(SERVICES) - ONE_SHOT))
def test_every_lasting_service_has_a_health_check_and_restarts(name: str) -> None:
    service = SERVICES[name]

    assert "test" in service.get("healthcheck", {}) or ("build" in service and HEALTH_CHECK)
    assert service["restart"] == "unless-stopped"


def test_migration_does_not_inherit_the_health_check_of_the_worker() -> None:
    assert SERVICES["migrate"]["healthcheck"] == {"disable": True}


@pytest.mark.parametrize("name", SERVICES)
def test_no_password_has_a_value_or_a_default(name: str) -> None:
    for key, value in (SERVICES[name].get("environment") or {}).items():
        if re.search(r"PASS|PWD|SECRET|KEY", key):
            assert value is None or re.fullmatch(r"\$\{[A-Z_]+:\?[^}]+\}", value), f"{key}={value}"


def test_no_password_stands_in_an_address() -> None:
    assert not re.search(r"://[^\s@/]*:[^\s@]*@", (ROOT / "docker-compose.yml").read_text())


def test_the_example_environment_names_every_variable_and_holds_no_password() -> None:
    example = (ROOT / ".env.example").read_text()
    named = dict(re.findall(r"^#?([A-Z_]+)=(.*)$", example, re.MULTILINE))
    compose = (ROOT / "docker-compose.yml").read_text()
    used = set(re.findall(r"\$\{([A-Z_]+)", compose))
    handed_on = {key for key, value in SERVICES["worker"]["environment"].items() if value is None}

    assert set(named) == used | handed_on
    assert {value for key, value in named.items() if "PASSWORD" in key or "KEY" in key} == {""}


def test_workers_can_be_scaled() -> None:
    assert SERVICES["worker"].keys().isdisjoint({"container_name", "ports", "hostname"})


def test_compose_starts_the_worker_as_the_image_does() -> None:
    assert SERVICES["worker"]["command"] == json.loads(instructions("CMD")[-1])


def test_the_worker_gets_only_settings_it_reads() -> None:
    handed_over = set(SERVICES["worker"]["environment"])

    assert handed_over <= read_by_the_worker() | FOREIGN


def test_the_worker_has_longer_to_end_than_it_takes() -> None:
    shutdown = Settings.from_env({"DURABLE_CONTEXT_DATABASE_URL": "postgresql://any"}).shutdown
    assert seconds(SERVICES["worker"]["stop_grace_period"]) >= shutdown.total_seconds() + 30


def test_the_image_serves_its_health_where_it_is_asked() -> None:
    assert "DURABLE_CONTEXT_HEALTH_ADDRESS=0.0.0.0:8080" in " ".join(instructions("ENV"))
    assert "http://127.0.0.1:8080/ready" in HEALTH_CHECK
    assert "DURABLE_CONTEXT_HEALTH_ADDRESS" in read_by_the_worker()


def test_the_image_does_not_run_as_root() -> None:
    assert instructions("USER") == ["durable-context"]


def test_the_image_holds_everything_the_worker_imports() -> None:
    stage = "\n".join(DOCKERFILE).rpartition("FROM ")[2]
    copied = set(re.findall(r"^COPY (\w+) \1$", stage, re.MULTILINE))
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line}

    assert copied == {"workflows", "activities", "worker"}
    assert copied | {"src"} <= allowed


@pytest.mark.parametrize("name", SERVICES)
def test_every_volume_is_declared_and_ports_open_on_loopback_only(name: str) -> None:
    sources = {volume.partition(":")[0] for volume in SERVICES[name].get("volumes", [])}

    assert sources <= set(COMPOSE["volumes"])
    assert all(port.startswith("127.0.0.1:") for port in SERVICES[name].get("ports", []))


def test_temporal_has_a_database_server_of_its_own() -> None:
    assert SERVICES["temporal"]["environment"]["POSTGRES_SEEDS"] == "temporal-postgres"
    assert "temporal" not in SERVICES["worker"]["environment"]["DURABLE_CONTEXT_DATABASE_URL"]
