"""Schedules: made once, compared, and left as operators set them."""

from datetime import timedelta

import pytest
from temporalio.client import (
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    ScheduleSpec,
    ScheduleUpdate,
    ScheduleUpdateInput,
)

from durable_context import CompactionPolicy
from durable_context.compaction.temporal_calls import connect
from durable_context.contracts.sweep import SWEEP_KINDS, SweepKind, schedule_id
from durable_context.errors import CompactionUnavailable, InvalidArgument
from durable_context.schedules import ScheduleSettings, execution_timeout
from durable_context.sweeps.schedule_calls import ScheduleCalls
from tests.sweeps.sweeping import Sweeps
from worker.free_ports import LOOPBACK, free_ports
from worker.service import apply_schedules

SETTINGS = ScheduleSettings()


async def described(sweeps: Sweeps, kind: SweepKind) -> Schedule:
    name = schedule_id(kind, sweeps.task_queue)
    return (await sweeps.client.get_schedule_handle(name).describe()).schedule


async def change(sweeps: Sweeps, kind: SweepKind, spec: ScheduleSpec) -> None:
    """As an operator does it."""

    def changed(found: ScheduleUpdateInput) -> ScheduleUpdate:
        found.description.schedule.spec = spec
        return ScheduleUpdate(found.description.schedule)

    handle = sweeps.client.get_schedule_handle(schedule_id(kind, sweeps.task_queue))
    await handle.update(changed)


async def changes(sweeps: Sweeps, settings: ScheduleSettings, **options: bool) -> list[str]:
    return [one.change for one in await sweeps.schedules.apply(settings, **options)]


async def test_they_are_made_once(sweeps: Sweeps) -> None:
    assert await changes(sweeps, SETTINGS) == ["created"] * 5
    assert await changes(sweeps, SETTINGS) == ["unchanged"] * 5
    found = await sweeps.schedules.all()
    assert [one.kind for one in found] == list(SWEEP_KINDS)
    assert [one.every for one in found] == [SETTINGS.every(kind) for kind in SWEEP_KINDS]
    assert [one.kind for one in found if one.paused] == ["upgrade"]
    assert all(one.next_run_at for one in found if not one.paused)


async def test_a_sweep_that_hangs_ends_before_the_next_one_is_due(sweeps: Sweeps) -> None:
    await sweeps.schedules.apply(SETTINGS)
    for kind in SWEEP_KINDS:
        schedule = await described(sweeps, kind)
        action, every = schedule.action, SETTINGS.every(kind)
        assert isinstance(action, ScheduleActionStartWorkflow)
        assert action.execution_timeout is not None
        assert SETTINGS.request(kind, every).longest < action.execution_timeout < every
        assert schedule.policy.overlap == ScheduleOverlapPolicy.SKIP
        assert schedule.policy.catchup_window == timedelta(minutes=10)
        assert schedule.spec.jitter


async def test_another_policy_changes_what_sweeps_are_asked_and_nothing_else(
    sweeps: Sweeps,
) -> None:
    await sweeps.schedules.apply(SETTINGS)
    other = SETTINGS.model_copy(update={"policy": CompactionPolicy(fan_out=3)})
    applied = await sweeps.schedules.apply(other)
    assert {one.changed for one in applied} == {("request",)}
    assert await changes(sweeps, other) == ["unchanged"] * 5


async def test_another_interval_is_applied_to_one_that_nobody_changed(sweeps: Sweeps) -> None:
    await sweeps.schedules.apply(SETTINGS)
    hourly = SETTINGS.model_copy(update={"intervals": {"retention": timedelta(hours=1)}})
    applied = {one.kind: one for one in await sweeps.schedules.apply(hourly)}
    assert applied["retention"].changed == ("interval", "request", "timeout")
    assert applied["catch-up"].change == "unchanged"
    assert (await described(sweeps, "retention")).spec.intervals[0].every == timedelta(hours=1)


async def test_what_an_operator_changed_stays_until_it_is_reset(sweeps: Sweeps) -> None:
    await sweeps.schedules.apply(SETTINGS)
    await sweeps.schedules.pause("merge", "an incident")
    await sweeps.schedules.resume("upgrade", "all summer")
    await change(
        sweeps, "verify", ScheduleSpec(intervals=[ScheduleIntervalSpec(timedelta(days=1))])
    )
    await change(sweeps, "retention", ScheduleSpec(cron_expressions=["0 3 * * SUN"]))
    other = SETTINGS.model_copy(update={"policy": CompactionPolicy(fan_out=3)})
    applied = {one.kind: one for one in await sweeps.schedules.apply(other)}
    assert applied["merge"].kept == ("pause", "note")
    assert applied["upgrade"].kept == ("pause", "note")
    assert applied["verify"].kept == applied["retention"].kept == ("interval",)
    found = {one.kind: one for one in await sweeps.schedules.all()}
    assert (found["merge"].paused, found["merge"].note) == (True, "an incident")
    assert not found["upgrade"].paused
    assert found["verify"].every == timedelta(days=1)
    assert found["retention"].every is None
    assert await changes(sweeps, other) == ["unchanged"] * 5
    assert await changes(sweeps, other, reset=True) == [
        *("unchanged", "updated", "updated", "updated", "updated")
    ]
    found = {one.kind: one for one in await sweeps.schedules.all()}
    assert [kind for kind, one in found.items() if one.paused] == ["upgrade"]
    assert found["retention"].every == SETTINGS.every("retention")


async def test_of_a_shorter_interval_that_an_operator_set_sweeps_end_in_time(
    sweeps: Sweeps,
) -> None:
    await sweeps.schedules.apply(SETTINGS)
    often = timedelta(hours=2)
    await change(sweeps, "verify", ScheduleSpec(intervals=[ScheduleIntervalSpec(often)]))
    await sweeps.schedules.apply(SETTINGS)
    action = (await described(sweeps, "verify")).action
    assert isinstance(action, ScheduleActionStartWorkflow)
    assert action.execution_timeout is not None and action.execution_timeout < often


async def test_what_there_is_not_is_said(sweeps: Sweeps) -> None:
    assert [one.exists for one in await sweeps.schedules.all()] == [False] * 5
    with pytest.raises(InvalidArgument, match="no schedule of kind 'merge'"):
        await sweeps.schedules.trigger("merge")


async def test_a_worker_whom_temporal_refuses_schedules_works_without(
    caplog: pytest.LogCaptureFixture,
) -> None:
    [port] = free_ports(1)
    client = await connect(f"{LOOPBACK}:{port}")
    with pytest.raises(CompactionUnavailable):
        await ScheduleCalls(client, "any").apply(SETTINGS)
    await apply_schedules(client, SETTINGS)
    assert "schedules are not applied" in caplog.text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DURABLE_CONTEXT_CATCH_UP_SECONDS", "0"),
        ("DURABLE_CONTEXT_MERGE_SECONDS", "often"),
        ("DURABLE_CONTEXT_UPGRADE_TOKENS", "-1"),
        ("DURABLE_CONTEXT_GRACE_SECONDS", "1.5"),
    ],
)
def test_a_wrong_setting_is_named_with_what_is_allowed(name: str, value: str) -> None:
    with pytest.raises(InvalidArgument, match=f"{name}='{value}' must be a whole number from"):
        ScheduleSettings.from_env({name: value})


def test_settings_are_read_from_the_environment() -> None:
    settings = ScheduleSettings.from_env(
        {
            "DURABLE_CONTEXT_CATCH_UP_SECONDS": "30",
            "DURABLE_CONTEXT_GRACE_SECONDS": "0",
            "DURABLE_CONTEXT_UPGRADE_TOKENS": "500",
            "DURABLE_CONTEXT_POLICY": '{"fan_out": 3}',
        }
    )
    assert settings.every("catch-up") == timedelta(seconds=30)
    assert settings.every("verify") == timedelta(days=7)
    assert (settings.grace, settings.upgrade_tokens) == (timedelta(0), 500)
    assert settings.policy.fan_out == 3


@pytest.mark.parametrize("seconds", [1, 30, 60, 75, 180, 300])
def test_a_sweep_has_time_for_a_batch_that_was_begun(seconds: int) -> None:
    every = timedelta(seconds=seconds)
    longest = SETTINGS.request("verify", every).longest
    assert execution_timeout(every) - longest >= timedelta(seconds=30)
