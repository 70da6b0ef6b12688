"""Settings come from the environment; a bad one is refused by name, value and what is allowed."""

import os
from datetime import timedelta
from pathlib import Path

import pytest

from worker.errors import InvalidSettings
from worker.settings import Address, Deployment, EmbeddedSettings, Settings, with_temporal
from worker.tuning import Targets, Tuning

DATABASE = {"DURABLE_CONTEXT_DATABASE_URL": "postgresql://localhost/x"}


def test_only_the_database_is_required() -> None:
    settings = Settings.from_env(DATABASE)
    assert settings.summarizers == ("extractive",)
    assert settings.temporal["target_host"] == "localhost:7233"
    assert settings.health is None
    assert settings.deployment is None


def test_every_variable_is_read() -> None:
    settings = Settings.from_env(
        DATABASE
        | {
            "TEMPORAL_ADDRESS": "temporal.example:7233",
            "TEMPORAL_NAMESPACE": "agents",
            "TEMPORAL_API_KEY": "key",
            "DURABLE_CONTEXT_SUMMARIZERS": "model:openai:gpt-4o-mini, extractive",
            "DURABLE_CONTEXT_MODEL_BASE_URL": "http://localhost:8000/v1",
            "DURABLE_CONTEXT_HEALTH_ADDRESS": "[::]:8080",
            "DURABLE_CONTEXT_MAX_WORKFLOW_TASKS": "10",
            "DURABLE_CONTEXT_MAX_ACTIVITIES": "11",
            "DURABLE_CONTEXT_MAX_SUMMARIES": "12",
            "DURABLE_CONTEXT_MAX_CACHED_WORKFLOWS": "14",
            "DURABLE_CONTEXT_MAX_POLLS": "15",
            "DURABLE_CONTEXT_SUMMARIES_PER_SECOND": "0.5",
            "DURABLE_CONTEXT_TARGET_MEMORY": "0.8",
            "DURABLE_CONTEXT_TARGET_CPU": "0.9",
            "DURABLE_CONTEXT_SHUTDOWN_SECONDS": "13",
            "TEMPORAL_DEPLOYMENT_NAME": "durable-context",
            "TEMPORAL_WORKER_BUILD_ID": "7",
        }
    )
    assert settings.temporal == {
        "target_host": "temporal.example:7233",
        "namespace": "agents",
        "api_key": "key",
        "tls": True,
    }
    assert settings.summarizers == ("model:openai:gpt-4o-mini", "extractive")
    assert settings.model_base_url == "http://localhost:8000/v1"
    assert settings.health == Address("::", 8080)
    assert settings.tuning == Tuning(
        max_workflow_tasks=10,
        max_activities=11,
        max_summaries=12,
        max_cached_workflows=14,
        max_polls=15,
        summaries_per_second=0.5,
        targets=Targets(memory=0.8, cpu=0.9),
    )
    assert settings.shutdown == timedelta(seconds=13)
    assert settings.deployment == Deployment("durable-context", "7")


def test_a_variable_that_is_set_to_nothing_is_not_set() -> None:
    names = ("SUMMARIZERS", "MODEL_BASE_URL", "HEALTH_ADDRESS", "MAX_ACTIVITIES", "MAX_POLLS")
    more = ("SUMMARIES_PER_SECOND", "TARGET_MEMORY", "TARGET_CPU")
    empty = {f"DURABLE_CONTEXT_{name}": "" for name in (*names, *more)}
    assert Settings.from_env(DATABASE | empty) == Settings.from_env(DATABASE)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("DURABLE_CONTEXT_DATABASE_URL", "", "must be an address such as postgresql://"),
        ("DURABLE_CONTEXT_SUMMARIZERS", "gpt-4o", "'extractive' or 'model:PROVIDER:NAME'"),
        ("DURABLE_CONTEXT_SUMMARIZERS", "model:openai:x,", "'extractive' or 'model:PROVIDER:"),
        ("DURABLE_CONTEXT_HEALTH_ADDRESS", "8080", "must be HOST:PORT"),
        ("DURABLE_CONTEXT_HEALTH_ADDRESS", "localhost:70000", "must be HOST:PORT"),
        ("DURABLE_CONTEXT_MAX_ACTIVITIES", "0", "a whole number from 1 to 1000"),
        ("DURABLE_CONTEXT_MAX_WORKFLOW_TASKS", "1", "a whole number from 2 to 1000"),
        ("DURABLE_CONTEXT_MAX_SUMMARIES", "many", "a whole number from 1 to 1000"),
        ("DURABLE_CONTEXT_MAX_CACHED_WORKFLOWS", "-1", "a whole number from 0 to 100000"),
        ("DURABLE_CONTEXT_MAX_POLLS", "1", "a whole number from 2 to 100"),
        ("DURABLE_CONTEXT_SUMMARIES_PER_SECOND", "0", "a number from 0.001 to 10000"),
        ("DURABLE_CONTEXT_SUMMARIES_PER_SECOND", "nan", "a number from 0.001 to 10000"),
        ("DURABLE_CONTEXT_TARGET_MEMORY", "80%", "a number from 0.05 to 1"),
        ("DURABLE_CONTEXT_TARGET_MEMORY", "0.8", "DURABLE_CONTEXT_TARGET_CPU=None go together"),
        ("DURABLE_CONTEXT_TARGET_CPU", "90", "a number from 0.05 to 1"),
        ("DURABLE_CONTEXT_SHUTDOWN_SECONDS", "-1", "a whole number from 0 to 3600"),
        ("TEMPORAL_DEPLOYMENT_NAME", "alone", "TEMPORAL_WORKER_BUILD_ID=None go together"),
        ("DURABLE_CONTEXT_LAG_SECONDS", "٣٠", "a whole number from 0 to 3600"),
        ("DURABLE_CONTEXT_HEALTH_ADDRESS", "localhost:٨٠٨٠", "must be HOST:PORT"),
        ("DURABLE_CONTEXT_HEALTH_ADDRESS", f"{'a' * 70}:80", "names no host"),
        ("DURABLE_CONTEXT_TEMPORAL_METRICS_ADDRESS", f"{'a' * 70}:80", "names no host"),
        ("DURABLE_CONTEXT_SUMMARIES_PER_SECOND", "1_0", "a number from 0.001 to 10000"),
        ("DURABLE_CONTEXT_SUMMARIES_PER_SECOND", " 3", "a number from 0.001 to 10000"),
        ("TEMPORAL_PROFILE", "missing", "Temporal's environment configuration"),
    ],
)
def test_a_bad_value_is_refused_by_name(name: str, value: str, allowed: str) -> None:
    with pytest.raises(InvalidSettings) as refusal:
        Settings.from_env(DATABASE | {name: value})
    assert allowed in str(refusal.value)
    if name != "TEMPORAL_PROFILE":
        assert name in str(refusal.value)
        assert not value or repr(value) in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DURABLE_CONTEXT_LAG_SECONDS", "9" * 5_000),
        ("DURABLE_CONTEXT_MAX_ACTIVITIES", "9" * 5_000),
        ("DURABLE_CONTEXT_TARGET_CPU", "9" * 5_000),
        ("DURABLE_CONTEXT_CATCH_UP_SECONDS", "9" * 5_000),
        ("DURABLE_CONTEXT_HEALTH_ADDRESS", "localhost:" + "9" * 5_000),
        ("DURABLE_CONTEXT_POLICY", '{"a":' * 100_000),
    ],
)
def test_a_value_without_end_is_refused_and_cut(name: str, value: str) -> None:
    with pytest.raises(InvalidSettings, match=name) as refusal:
        Settings.from_env(DATABASE | {name: value})
    assert len(str(refusal.value)) < 300


@pytest.mark.parametrize(
    ("deployment", "build_id", "refused"),
    [
        ("a.b", "1", "TEMPORAL_DEPLOYMENT_NAME='a.b'"),
        ("a:b", "1", "TEMPORAL_DEPLOYMENT_NAME='a:b'"),
        ("n" * 2_000, "1", "TEMPORAL_DEPLOYMENT_NAME='nnn"),
        ("durable-context", "1\n2", "TEMPORAL_WORKER_BUILD_ID='1\\n2'"),
    ],
)
def test_a_deployment_that_temporal_would_refuse_at_every_poll_is_refused_at_once(
    deployment: str, build_id: str, refused: str
) -> None:
    named = {"TEMPORAL_DEPLOYMENT_NAME": deployment, "TEMPORAL_WORKER_BUILD_ID": build_id}
    with pytest.raises(InvalidSettings) as refusal:
        Settings.from_env(DATABASE | named)
    assert str(refusal.value).startswith(refused)
    fine = {"TEMPORAL_DEPLOYMENT_NAME": "durable-context", "TEMPORAL_WORKER_BUILD_ID": "v1.2+a"}
    assert Settings.from_env(DATABASE | fine).deployment == Deployment(*fine.values())


def test_the_embedded_stack_keeps_its_data_where_the_user_says_or_where_data_goes() -> None:
    chosen = {"DURABLE_CONTEXT_DATA_DIR": "/data/mine", "XDG_DATA_HOME": "/data"}
    assert EmbeddedSettings.from_env(chosen).data_directory == Path("/data/mine")
    xdg = {"XDG_DATA_HOME": "/data", "XDG_CACHE_HOME": "/cache"}
    assert EmbeddedSettings.from_env(xdg).data_directory == Path("/data/durable-context")
    assert EmbeddedSettings.from_env(xdg).temporal_cache == Path("/cache/durable-context/temporal")
    relative = {"XDG_DATA_HOME": "data"}
    home = Path.home() / ".local/share/durable-context"
    assert EmbeddedSettings.from_env(relative).data_directory == home


def test_a_server_of_our_own_gets_no_tls_key_or_profile_meant_for_another(tmp_path: Path) -> None:
    config = tmp_path / "temporal.toml"
    config.write_text('[profile.default]\naddress = "cloud:7233"\napi_key = "from-file"\n')
    user = DATABASE | {
        "TEMPORAL_CONFIG_FILE": str(config),
        "TEMPORAL_API_KEY": "secret",
        "TEMPORAL_PROFILE": "default",
        "PATH": os.environ["PATH"],
    }
    settings = Settings.from_env(with_temporal(user, "127.0.0.1:1", "default"))
    assert settings.temporal["target_host"] == "127.0.0.1:1"
    assert "api_key" not in settings.temporal
    assert not settings.temporal.get("tls")
