"""The worker's embedder comes from the environment, and there is none without it."""

import pytest

from worker.errors import InvalidSettings
from worker.settings import EmbedderSettings, Settings

DATABASE = {"DURABLE_CONTEXT_DATABASE_URL": "postgresql://localhost/x"}
EMBEDDER = {
    "DURABLE_CONTEXT_EMBEDDER": "openai:text-embedding-3-small",
    "DURABLE_CONTEXT_EMBEDDER_BASE_URL": "http://localhost:8000/v1",
    "DURABLE_CONTEXT_EMBEDDER_DIMENSIONS": "512",
}


def test_nothing_is_embedded_unless_an_embedder_is_named() -> None:
    others = EMBEDDER | {"DURABLE_CONTEXT_EMBEDDER": ""}
    assert Settings.from_env(DATABASE).embedder is None
    assert Settings.from_env(DATABASE | others).embedder is None


def test_an_embedder_may_have_an_endpoint_and_a_size_of_its_own() -> None:
    assert Settings.from_env(DATABASE | EMBEDDER).embedder == EmbedderSettings(
        spec="openai:text-embedding-3-small", base_url="http://localhost:8000/v1", dimensions=512
    )
    only = {"DURABLE_CONTEXT_EMBEDDER": "openai:small"}
    assert Settings.from_env(DATABASE | only).embedder == EmbedderSettings(spec="openai:small")


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("DURABLE_CONTEXT_EMBEDDER", "text-embedding-3-small", "is not 'openai:MODEL'"),
        ("DURABLE_CONTEXT_EMBEDDER_DIMENSIONS", "0", "a whole number from 1 to 16000"),
        ("DURABLE_CONTEXT_EMBEDDER_DIMENSIONS", "many", "a whole number from 1 to 16000"),
    ],
)
def test_a_bad_value_is_refused_by_name(name: str, value: str, allowed: str) -> None:
    with pytest.raises(InvalidSettings) as refusal:
        Settings.from_env(DATABASE | EMBEDDER | {name: value})
    assert f"{name}={value!r}" in str(refusal.value) and allowed in str(refusal.value)
