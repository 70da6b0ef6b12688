"""The policy of the environment: one for clients, workers and commands."""

from datetime import timedelta

import pytest

from durable_context import CompactionPolicy
from durable_context.errors import InvalidArgument
from durable_context.policy import policy_from_env
from worker.errors import InvalidSettings
from worker.settings import Settings


def policy_of(text: str) -> CompactionPolicy:
    return policy_from_env({"DURABLE_CONTEXT_POLICY": text})


def test_without_the_variable_the_policy_is_the_default() -> None:
    assert policy_from_env({}) == policy_of("") == policy_of(" ") == CompactionPolicy()


def test_fields_that_are_not_named_keep_their_defaults() -> None:
    policy = policy_of('{"segment_turns": 3, "expose_ids": true}')
    assert policy == CompactionPolicy(segment_turns=3, expose_ids=True)


@pytest.mark.parametrize("value", ["90", "90.0", '"PT1M30S"', '"PT90S"', '"00:01:30"'])
def test_durations_are_seconds_or_iso_8601(value: str) -> None:
    assert policy_of(f'{{"debounce": {value}}}').debounce == timedelta(seconds=90)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{fan_out: 4}", "DURABLE_CONTEXT_POLICY='{fan_out: 4}' is not JSON: "),
        ("[4]", "DURABLE_CONTEXT_POLICY='[4]'; it must be an object: {\"fan_out\": 4}"),
        ('{"fan_out": 1}', "fan_out=1; allowed is a whole number of at least 2 and of at most 16"),
        ('{"segment_tokens": "many"}', "segment_tokens='many'; allowed is a whole number of at le"),
        ('{"offload_messages": "no idea"}', "offload_messages='no idea'; allowed is true or fals"),
        ('{"debounce": -1}', "debounce=-1; allowed is a duration, in seconds or as ISO 8601, of "),
        ('{"summarizer_timeout": 0}', "summarizer_timeout=0; allowed is a duration, in seconds o"),
        ('{"debounce": NaN}', "debounce=nan; allowed is a duration"),
        ('{"debounce": null}', "debounce=None; allowed is a duration"),
        ('{"fanout": 4}', "there is no field 'fanout'; allowed are segment_turns, segment_tokens,"),
    ],
)
def test_a_bad_policy_is_refused_by_variable_field_value_and_what_is_allowed(
    text: str, complaint: str
) -> None:
    with pytest.raises(InvalidArgument) as refused:
        policy_of(text)
    assert "DURABLE_CONTEXT_POLICY" in str(refused.value)
    assert complaint in str(refused.value)


def test_every_field_that_is_refused_says_what_is_allowed() -> None:
    for name in CompactionPolicy.model_fields:
        with pytest.raises(InvalidArgument, match=f"{name}='x'; allowed is "):
            policy_of(f'{{"{name}": "x"}}')


def test_the_worker_has_the_policy_of_its_environment() -> None:
    database = {"DURABLE_CONTEXT_DATABASE_URL": "postgresql://localhost/x"}
    settings = Settings.from_env(database | {"DURABLE_CONTEXT_POLICY": '{"fan_out": 8}'})
    assert settings.policy == CompactionPolicy(fan_out=8)
    with pytest.raises(InvalidSettings, match="fan_out=99; allowed is a whole number"):
        Settings.from_env(database | {"DURABLE_CONTEXT_POLICY": '{"fan_out": 99}'})
