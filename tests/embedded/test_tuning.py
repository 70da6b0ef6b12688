"""Each figure of the tuning reaches the workers, and the pool of connections follows them."""

from typing import Any, cast

import pytest
from temporalio.client import Client

from activities.compaction import CompactionActivities
from activities.offload import OffloadActivities
from activities.sweep import SweepActivities
from durable_context.artifacts.contents import ContentStore
from durable_context.compaction.compactor import Compactor
from durable_context.database import Pool
from durable_context.offload.durable import DurableOffload
from durable_context.summarizers.extractive import ExtractiveSummarizer
from worker.service import make_workers
from worker.settings import Settings
from worker.tuning import Tuning


@pytest.fixture
def configured(temporal_address: str, pool: Pool) -> Any:
    """What the two workers are told, by variables without their prefix."""

    async def configure(**variables: str) -> tuple[dict[str, Any], dict[str, Any]]:
        named = {f"DURABLE_CONTEXT_{name}": text for name, text in variables.items()}
        settings = Settings.from_env({"DURABLE_CONTEXT_DATABASE_URL": "postgresql://x"} | named)
        summarizer, contents = ExtractiveSummarizer(), ContentStore(None)
        workers = make_workers(
            await Client.connect(
                temporal_address
            ),  # its own: it has one worker of a queue at a time
            CompactionActivities(Compactor(pool, summarizer)),
            OffloadActivities(DurableOffload(pool, summarizer, contents=contents)),
            SweepActivities(pool, summarizer.recipe, contents),
            settings,
        )
        compactions, summaries = (cast("dict[str, Any]", one.config()) for one in workers)
        return compactions, summaries

    return configure


async def test_slots_and_the_cache_are_the_worker_s(configured: Any) -> None:
    compactions, summaries = await configured(
        MAX_WORKFLOW_TASKS="7", MAX_ACTIVITIES="8", MAX_SUMMARIES="9", MAX_CACHED_WORKFLOWS="10"
    )
    assert compactions["max_concurrent_workflow_tasks"] == 7
    assert compactions["max_concurrent_activities"] == 8
    assert compactions["max_cached_workflows"] == 10
    assert summaries["max_concurrent_activities"] == 9


async def test_the_rate_is_that_of_the_queue_of_summaries_alone(configured: Any) -> None:
    compactions, summaries = await configured(SUMMARIES_PER_SECOND="0.5")
    assert summaries["max_task_queue_activities_per_second"] == 0.5
    assert compactions["max_task_queue_activities_per_second"] is None
    assert (await configured())[1]["max_task_queue_activities_per_second"] is None


async def test_polls_adapt_where_a_most_is_given(configured: Any) -> None:
    compactions, summaries = await configured(MAX_POLLS="4")
    for behavior in (
        compactions["workflow_task_poller_behavior"],
        compactions["activity_task_poller_behavior"],
        summaries["activity_task_poller_behavior"],
    ):
        assert (behavior.minimum, behavior.initial, behavior.maximum) == (1, 4, 4)
    assert (await configured())[0]["workflow_task_poller_behavior"].maximum == 5


async def test_with_targets_the_slots_are_the_most_that_is_given_out(configured: Any) -> None:
    compactions, summaries = await configured(
        TARGET_MEMORY="0.7", TARGET_CPU="0.6", MAX_WORKFLOW_TASKS="4", MAX_SUMMARIES="9"
    )
    tuner = compactions["tuner"]
    workflow_slots = tuner._get_workflow_task_slot_supplier()
    assert (workflow_slots.slot_config.minimum_slots, workflow_slots.slot_config.maximum_slots) == (
        *(4, 4),
    )
    assert workflow_slots.tuner_config.target_memory_usage == 0.7
    assert workflow_slots.tuner_config.target_cpu_usage == 0.6
    summary_slots = summaries["tuner"]._get_activity_task_slot_supplier()
    assert summary_slots.slot_config.maximum_slots == 9
    assert (
        "max_concurrent_activities" not in summaries or not summaries["max_concurrent_activities"]
    )


def test_the_pool_has_a_connection_for_each_activity_and_some_to_spare() -> None:
    assert Tuning(max_activities=3, max_summaries=4).connections == 9
