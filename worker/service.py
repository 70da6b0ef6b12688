"""The production worker: one process with a worker for compactions and one for summaries.

Summaries have a queue of their own, so that slow model calls hold up nothing else and a rate limit
on that queue holds for all processes together.
"""

import asyncio
import logging
import signal
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Worker, WorkerDeploymentConfig
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from activities.compaction import CompactionActivities
from activities.offload import OffloadActivities
from activities.sweep import SweepActivities
from durable_context.artifacts.contents import ContentStore
from durable_context.compaction.compactor import Compactor
from durable_context.contracts import COMPACTION_TASK_QUEUE, SUMMARY_TASK_QUEUE
from durable_context.database import Pool, create_pool
from durable_context.embeddings import Embedder
from durable_context.embeddings.endpoint import embedder_from_spec
from durable_context.errors import CompactionUnavailable
from durable_context.migrations import check_schema
from durable_context.offload.durable import DurableOffload
from durable_context.schedules import ScheduleSettings
from durable_context.summarizers.chain import summarizer_from_specs
from durable_context.sweeps.schedule_calls import ScheduleCalls
from worker.errors import TemporalUnreachable
from worker.health import Check, HealthEndpoint
from worker.settings import Deployment, Settings
from workflows.compaction import Compaction
from workflows.rebuild import Rebuild
from workflows.sweep import Sweep

logger = logging.getLogger(__name__)

# The workflow code touches nothing of it that is not deterministic, and importing it anew for each
# workflow would cost most of a run's time.
SANDBOX = SandboxedWorkflowRunner(
    restrictions=SandboxRestrictions.default.with_passthrough_modules("durable_context")
)
CONNECTIONS_BESIDE_ACTIVITIES = 2
SCHEDULES_WITHIN = 20.0


async def serve(settings: Settings) -> None:
    """Work until SIGTERM or SIGINT, then finish what was begun. Raises when a worker breaks."""
    asked_to_stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, asked_to_stop.set)
    pool = await create_pool(
        settings.database_url,
        max_size=settings.max_activities + settings.max_summaries + CONNECTIONS_BESIDE_ACTIVITIES,
    )
    async with pool:
        await check_schema(pool)
        client = await _connect(settings)
        summarizer_of = partial(summarizer_from_specs, base_url=settings.model_base_url)
        summarizer = summarizer_of(settings.summarizers)
        contents = ContentStore(settings.artifact_url)
        compactor = Compactor(
            *(pool, summarizer),
            contents=contents,
            embedder=_embedder(settings),
            make_summarizer=summarizer_of,
        )
        offloads = OffloadActivities(DurableOffload(pool, summarizer, contents=contents))
        sweeps = SweepActivities(pool, summarizer.recipe, contents)
        workers = make_workers(client, CompactionActivities(compactor), offloads, sweeps, settings)
        await apply_schedules(client, settings.schedules)
        async with _health(settings, pool, client, workers):
            logger.info("started: Temporal at %s", settings.temporal["target_host"])
            await _run(workers, asked_to_stop)
    logger.info("stopped")


def make_workers(
    client: Client,
    activities: CompactionActivities,
    offloads: OffloadActivities,
    sweeps: SweepActivities,
    settings: Settings,
) -> tuple[Worker, Worker]:
    """The worker for workflows and database steps, and the one for summaries."""
    deployment = _deployment_config(settings.deployment)
    compactions = Worker(
        client,
        task_queue=COMPACTION_TASK_QUEUE,
        workflows=[Compaction, Rebuild, Sweep],
        activities=[
            *(activities.plan, activities.commit, activities.index),
            *(activities.plan_rebuild, activities.replace, sweeps.sweep),
        ],
        workflow_runner=SANDBOX,
        max_concurrent_workflow_tasks=settings.max_workflow_tasks,
        max_concurrent_activities=settings.max_activities,
        graceful_shutdown_timeout=settings.shutdown,
        deployment_config=deployment,
    )
    summaries = Worker(
        client,
        task_queue=SUMMARY_TASK_QUEUE,
        activities=[activities.summarize, activities.summarize_artifacts, offloads.offload],
        max_concurrent_activities=settings.max_summaries,
        graceful_shutdown_timeout=settings.shutdown,
        deployment_config=deployment,
    )
    return compactions, summaries


async def apply_schedules(client: Client, settings: ScheduleSettings | None) -> None:
    """A worker without permission to make schedules works all the same: somebody else may."""
    if settings is None:
        return
    try:
        async with asyncio.timeout(SCHEDULES_WITHIN):
            applied = await ScheduleCalls(client, COMPACTION_TASK_QUEUE).apply(settings)
    except (CompactionUnavailable, TimeoutError) as error:
        logger.warning(
            "schedules are not applied, see `durable-context schedules apply`: %s",
            str(error) or f"no answer in {SCHEDULES_WITHIN:g} s",
        )
        return
    for one in applied:
        if one.change != "unchanged":
            logger.info("schedule %s %s", one.schedule_id, one.change)


def _embedder(settings: Settings) -> Embedder | None:
    asked = settings.embedder
    if asked is None:
        return None
    return embedder_from_spec(asked.spec, base_url=asked.base_url, dimensions=asked.dimensions)


async def _connect(settings: Settings) -> Client:
    address = settings.temporal["target_host"]
    try:
        client = await Client.connect(**settings.temporal, data_converter=pydantic_data_converter)
        await client.workflow_service.describe_namespace(
            DescribeNamespaceRequest(namespace=client.namespace)
        )
    except RPCError as error:
        if error.status != RPCStatusCode.NOT_FOUND:
            raise TemporalUnreachable(f"the Temporal server at {address!r}: {error}") from error
        namespace = settings.temporal.get("namespace", "default")
        raise TemporalUnreachable(
            f"the Temporal server at {address!r} has no namespace {namespace!r};"
            " create it, or set TEMPORAL_NAMESPACE"
        ) from error
    except RuntimeError as error:
        raise TemporalUnreachable(f"no Temporal server at {address!r}: {error}") from error
    return client


async def _run(workers: tuple[Worker, ...], asked_to_stop: asyncio.Event) -> None:
    running = [asyncio.create_task(worker.run()) for worker in workers]
    stopping = asyncio.create_task(asked_to_stop.wait())
    try:
        await asyncio.wait([*running, stopping], return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        await asyncio.gather(*(worker.shutdown() for worker in workers))
    await asyncio.gather(*running)


def _health(
    settings: Settings, pool: Pool, client: Client, workers: tuple[Worker, ...]
) -> AbstractAsyncContextManager[object]:
    if settings.health is None:
        return nullcontext()
    live, ready = _checks(pool, client, workers)
    return HealthEndpoint(settings.health, live=live, ready=ready)


def _checks(
    pool: Pool, client: Client, workers: tuple[Worker, ...]
) -> tuple[Mapping[str, Check], Mapping[str, Check]]:
    async def running() -> None:
        if not all(worker.is_running for worker in workers):
            raise RuntimeError("a worker has stopped")

    async def postgres() -> None:
        await check_schema(pool)

    async def temporal() -> None:
        await client.service_client.check_health()

    live = {"workers": running}
    return live, live | {"postgres": postgres, "temporal": temporal}


def _deployment_config(deployment: Deployment | None) -> WorkerDeploymentConfig | None:
    """Runs are short, so each stays with the version it began on."""
    if deployment is None:
        return None
    return WorkerDeploymentConfig(
        version=WorkerDeploymentVersion(deployment.name, deployment.build_id),
        use_worker_versioning=True,
        default_versioning_behavior=VersioningBehavior.PINNED,
    )
