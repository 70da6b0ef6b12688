"""What workers are told of slots, polls, cached workflows and the rate of summaries.

Apart from the figures themselves: importing temporalio.worker takes most of a second.
"""

from typing import Any

from temporalio.worker import PollerBehaviorAutoscaling, ResourceBasedSlotConfig, WorkerTuner

from worker.tuning import Tuning

LEAST_WORKFLOW_SLOTS = 5
FIRST_POLLS = 5

Options = dict[str, Any]
"""Of `temporalio.worker.Worker`."""


def compaction_options(tuning: Tuning) -> Options:
    return {
        "max_cached_workflows": tuning.max_cached_workflows,
        **_slots(tuning, tuning.max_activities, tuning.max_workflow_tasks),
        **_polls(tuning, "workflow_task_poller_behavior", "activity_task_poller_behavior"),
    }


def summary_options(tuning: Tuning) -> Options:
    """No eager start goes past the rate: no workflow task comes from this queue."""
    return {
        "max_task_queue_activities_per_second": tuning.summaries_per_second,
        **_slots(tuning, tuning.max_summaries),
        **_polls(tuning, "activity_task_poller_behavior"),
    }


def _slots(tuning: Tuning, activities: int, workflow_tasks: int | None = None) -> Options:
    if tuning.targets is None:
        return {
            "max_concurrent_activities": activities,
            "max_concurrent_workflow_tasks": workflow_tasks,
        }
    tuner = WorkerTuner.create_resource_based(
        target_memory_usage=tuning.targets.memory,
        target_cpu_usage=tuning.targets.cpu,
        workflow_config=_between(LEAST_WORKFLOW_SLOTS, workflow_tasks),
        activity_config=_between(1, activities),
    )
    return {"tuner": tuner}


def _between(least: int, most: int | None) -> ResourceBasedSlotConfig:
    return ResourceBasedSlotConfig(
        minimum_slots=least if most is None else min(least, most), maximum_slots=most
    )


def _polls(tuning: Tuning, *names: str) -> Options:
    if tuning.max_polls is None:
        return {}
    initial = min(FIRST_POLLS, tuning.max_polls)
    return {
        name: PollerBehaviorAutoscaling(maximum=tuning.max_polls, initial=initial) for name in names
    }
