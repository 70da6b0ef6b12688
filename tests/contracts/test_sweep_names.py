"""Names of sweeps that schedules and histories refer to."""

import pytest
from pydantic import BaseModel
from temporalio import activity, workflow

from activities.sweep import SweepActivities
from durable_context.contracts import sweep
from workflows.sweep import Sweep

FIELDS = {
    "SweepRequest": "kind policy tenant grace max_tokens longest every summary_task_queue"
    " started_at position",
    "SweepPosition": "after counts is_done",
    "SweepCounts": "scanned due started running skipped failed tokens found",
    "SweepResult": "kind counts left_at",
}


def test_names_are_what_they_were() -> None:
    assert workflow._Definition.must_from_class(Sweep).name == "Sweep"
    assert activity._Definition.must_from_callable(SweepActivities.sweep).name == "sweep"
    assert [sweep.schedule_id(kind) for kind in sweep.SWEEP_KINDS] == [
        "durable-context-catch-up",
        "durable-context-merge",
        "durable-context-upgrade",
        "durable-context-retention",
        "durable-context-verify",
    ]
    assert sweep.DAMAGE_FOUND == "DamageFound"


@pytest.mark.parametrize("name", FIELDS)
def test_payload_fields_are_added_never_renamed(name: str) -> None:
    model: type[BaseModel] = getattr(sweep, name)
    assert " ".join(model.model_fields) == FIELDS[name]


def test_a_schedule_of_an_older_version_is_read_by_a_new_worker() -> None:
    assert sweep.SweepRequest.model_validate({"kind": "catch-up"}).position.after == ""
