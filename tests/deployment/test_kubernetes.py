"""What deploy/kubernetes promises, read from the files and held against the code they start."""

import inspect
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from durable_context.contracts import COMPACTION_TASK_QUEUE, SUMMARY_TASK_QUEUE
from tests.deployment.variables import FOREIGN, read_by_the_worker
from worker.health import HealthEndpoint
from worker.settings import Address, Settings

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
FILES = {path.name: list(yaml.safe_load_all(path.read_text())) for path in FOLDER.glob("*.yaml")}
OBJECTS: list[dict[str, Any]] = [
    one for name, parts in FILES.items() if name != "kustomization.yaml" for one in parts
]
KUSTOMIZATION = FILES["kustomization.yaml"][0]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def only(kind: str) -> dict[str, Any]:
    [found] = [one for one in OBJECTS if one["kind"] == kind]
    return found


CONFIG: dict[str, str] = only("ConfigMap")["data"]
SECRETS: dict[str, str] = only("Secret")["stringData"]
SETTINGS = Settings.from_env(CONFIG | SECRETS)
DEPLOYMENT = only("Deployment")["spec"]
POD = DEPLOYMENT["template"]["spec"]
[WORKER] = POD["containers"]
JOB = only("Job")["spec"]["template"]["spec"]
PORTS = {port["name"]: port["containerPort"] for port in WORKER["ports"]}


def test_the_worker_s_settings_are_all_read_and_none_is_wrong() -> None:
    assert set(CONFIG) | set(SECRETS) <= read_by_the_worker() | FOREIGN
    assert SETTINGS.database_url and SETTINGS.artifact_url and SETTINGS.summarizers
    assert SETTINGS.temporal["target_host"] == CONFIG["TEMPORAL_ADDRESS"]
    assert all(isinstance(value, str) for value in CONFIG.values())  # Kubernetes takes no other


def test_no_secret_has_a_value_and_none_is_in_the_configuration() -> None:
    assert set(SECRETS.values()) == {""}
    assert not any(re.search(r"PASS|SECRET|KEY", name) for name in CONFIG)
    assert not re.search(r"://[^\s@/]*:[^\s@]*@", "".join(CONFIG.values()))


@pytest.mark.parametrize("container", [WORKER, JOB["containers"][0]], ids=lambda one: one["name"])
def test_worker_and_migration_read_the_same_and_are_allowed_as_little(
    container: dict[str, Any],
) -> None:
    names = {next(iter(source.values()))["name"] for source in container["envFrom"]}
    assert names == {only("ConfigMap")["metadata"]["name"], only("Secret")["metadata"]["name"]}
    allowed = container["securityContext"]
    assert allowed["readOnlyRootFilesystem"] and not allowed["allowPrivilegeEscalation"]
    assert allowed["capabilities"] == {"drop": ["ALL"]}
    assert container["resources"]["limits"]["memory"] and container["resources"]["requests"]


@pytest.mark.parametrize("pod", [POD, JOB], ids=["worker", "migration"])
def test_pods_run_as_the_user_of_the_image(pod: dict[str, Any]) -> None:
    [user] = re.findall(r"--uid (\d+)", (ROOT / "Dockerfile").read_text())
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["runAsUser"] == int(user)
    assert not pod["automountServiceAccountToken"]


def test_commands_are_those_of_the_composed_containers() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    assert WORKER["command"] == services["worker"]["command"]
    assert JOB["containers"][0]["command"] == services["migrate"]["command"]


def test_the_image_carries_the_version_of_the_project() -> None:
    [image] = KUSTOMIZATION["images"]
    ours = f"{image['newName']}:{image['newTag']}"
    assert image["newTag"] == VERSION
    assert WORKER["image"] == f"{image['name']}:{VERSION}"
    assert JOB["containers"][0]["image"] == ours
    assert only("Job")["metadata"]["name"].endswith(VERSION.replace(".", "-"))


def test_ports_are_where_the_worker_listens() -> None:
    assert SETTINGS.health == Address("0.0.0.0", PORTS["health"])
    assert SETTINGS.temporal_metrics == Address("0.0.0.0", PORTS["temporal-sdk"])
    endpoints = only("PodMonitor")["spec"]["podMetricsEndpoints"]
    assert {endpoint["port"] for endpoint in endpoints} == set(PORTS)
    assert {endpoint["path"] for endpoint in endpoints} == {"/metrics"}


def test_probes_ask_for_what_the_worker_answers_and_give_it_the_time() -> None:
    paths = {
        name: WORKER[f"{name}Probe"]["httpGet"]["path"]
        for name in ("startup", "liveness", "readiness")
    }
    assert paths == {"startup": "/live", "liveness": "/live", "readiness": "/ready"}
    source = inspect.getsource(HealthEndpoint)
    assert all(f'"{path}"' in source for path in (*paths.values(), "/metrics"))
    assert all(WORKER[f"{name}Probe"]["timeoutSeconds"] > 5 for name in paths)


def test_a_pod_has_longer_to_end_than_its_worker() -> None:
    assert POD["terminationGracePeriodSeconds"] >= SETTINGS.shutdown.total_seconds() + 30


def test_everything_means_the_pods_of_the_one_deployment() -> None:
    labels = DEPLOYMENT["template"]["metadata"]["labels"]
    [spread] = POD["topologySpreadConstraints"]
    for selector in (
        DEPLOYMENT["selector"],
        spread["labelSelector"],
        only("PodDisruptionBudget")["spec"]["selector"],
        only("PodMonitor")["spec"]["selector"],
    ):
        assert selector["matchLabels"] == labels
    migration = only("Job")["spec"]["template"]["metadata"]["labels"]
    assert migration.items() ^ labels.items()  # or it would count as a worker
    assert {one["metadata"]["namespace"] for one in OBJECTS} == {KUSTOMIZATION["namespace"]}


def test_workers_are_scaled_by_both_queues_of_the_temporal_they_work_for() -> None:
    scaled = only("ScaledObject")["spec"]
    assert scaled["scaleTargetRef"]["name"] == only("Deployment")["metadata"]["name"]
    asked = {
        trigger["metadata"]["taskQueue"]: trigger["metadata"] for trigger in scaled["triggers"]
    }
    assert {queue: one["queueTypes"] for queue, one in asked.items()} == {
        COMPACTION_TASK_QUEUE: "workflow,activity",
        SUMMARY_TASK_QUEUE: "activity",
    }
    for metadata in asked.values():
        assert metadata["endpoint"] == CONFIG["TEMPORAL_ADDRESS"]
        assert metadata["namespace"] == CONFIG["TEMPORAL_NAMESPACE"]
        assert metadata["targetQueueSize"].isdecimal()
    assert asked[SUMMARY_TASK_QUEUE]["targetQueueSize"] == str(SETTINGS.tuning.max_summaries)


def test_the_kustomization_names_files_that_are_there() -> None:
    assert set(KUSTOMIZATION["resources"]) <= set(FILES)
