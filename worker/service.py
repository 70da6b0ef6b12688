"""The production worker: one process with a worker for compactions and one for summaries.

Summaries have a queue of their own, so that slow model calls hold up nothing else and a rate limit
on that queue holds for all processes together.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
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
from durable_context.telemetry.temporal import interceptors
from worker.errors import TemporalUnreachable, WorkerStopping
from worker.health import Check, HealthEndpoint
from worker.lag import LagGauges
from worker.settings import Deployment, Settings
from worker.slots import compaction_options, summary_options
from worker.stopping import Stopping
from worker.telemetry import Telemetry
from worker.temporal_metrics import runtime_with_metrics
from worker.versions import report_version
from workflows.compaction import Compaction
from workflows.rebuild import Rebuild
from workflows.sweep import Sweep

logger = logging.getLogger(__name__)

# The workflow code touches nothing of it that is not deterministic, and importing it anew for each
# workflow would cost most of a run's time.
SANDBOX = SandboxedWorkflowRunner(
    restrictions=SandboxRestrictions.default.with_passthrough_modules("durable_context")
)
SCHEDULES_WITHIN = 20.0
CLOSED_WITHIN = 3.0


async def serve(settings: Settings) -> None:
    """Work until SIGTERM or SIGINT, then finish what was begun. Raises when a worker breaks."""
    stopping = Stopping(settings.shutdown)
    stopping.listen()
    async with Telemetry(settings.telemetry, is_scraped=settings.health is not None) as telemetry:
        await stopping.ending(_serve(settings, stopping, telemetry))
    logger.info("stopped")


async def _serve(settings: Settings, stopping: Stopping, telemetry: Telemetry) -> None:
    pool = await create_pool(settings.database_url, max_size=settings.tuning.connections)
    async with _closing(pool):
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
        async with (
            LagGauges(pool, settings.policy, settings.lag_seconds if telemetry.is_measured else 0),
            _health(settings, pool, client, workers, stopping, telemetry),
            _version_report(client, settings.deployment),
        ):
            logger.info("started: Temporal at %s", settings.temporal["target_host"])
            stopping.is_heeded = True
            await _run(workers, stopping.asked)


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
        graceful_shutdown_timeout=settings.shutdown,
        deployment_config=deployment,
        **compaction_options(settings.tuning),
    )
    summaries = Worker(
        client,
        task_queue=SUMMARY_TASK_QUEUE,
        activities=[activities.summarize, activities.summarize_artifacts, offloads.offload],
        graceful_shutdown_timeout=settings.shutdown,
        deployment_config=deployment,
        **summary_options(settings.tuning),
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
        client = await Client.connect(
            **settings.temporal,
            data_converter=pydantic_data_converter,
            interceptors=interceptors(),
            runtime=runtime_with_metrics(settings.temporal_metrics),
        )
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
    asked = asyncio.create_task(asked_to_stop.wait())
    try:
        await asyncio.wait([*running, asked], return_when=asyncio.FIRST_COMPLETED)
    finally:
        asked.cancel()
        await asyncio.gather(*(worker.shutdown() for worker in workers))
    await asyncio.gather(*running)


@asynccontextmanager
async def _closing(pool: Pool) -> AsyncGenerator[None]:
    """A database that does not answer is not waited for."""
    try:
        yield
    finally:
        try:
            await asyncio.wait_for(pool.close(), CLOSED_WITHIN)
        except TimeoutError:
            pool.terminate()


@asynccontextmanager
async def _version_report(client: Client, deployment: Deployment | None) -> AsyncGenerator[None]:
    if deployment is None:
        yield
        return
    report = asyncio.create_task(report_version(client, deployment))
    try:
        yield
    finally:
        report.cancel()
        await asyncio.wait([report])


def _health(
    settings: Settings,
    pool: Pool,
    client: Client,
    workers: tuple[Worker, ...],
    stopping: Stopping,
    telemetry: Telemetry,
) -> AbstractAsyncContextManager[object]:
    if settings.health is None:
        return nullcontext()
    live, ready = _checks(pool, client, workers, stopping)
    return HealthEndpoint(settings.health, live=live, ready=ready, metrics=telemetry)


def _checks(
    pool: Pool, client: Client, workers: tuple[Worker, ...], stopping: Stopping
) -> tuple[Mapping[str, Check], Mapping[str, Check]]:
    """A worker that finishes what was begun is alive: killed now, it would be begun anew."""

    async def alive() -> None:
        if not stopping.asked.is_set():
            await working()

    async def working() -> None:
        if stopping.asked.is_set():
            raise WorkerStopping
        if not all(worker.is_running for worker in workers):
            raise RuntimeError("a worker has stopped")

    async def postgres() -> None:
        await check_schema(pool)

    async def temporal() -> None:
        await client.service_client.check_health()

    return {"workers": alive}, {"workers": working, "postgres": postgres, "temporal": temporal}


def _deployment_config(deployment: Deployment | None) -> WorkerDeploymentConfig | None:
    """Runs are short, so each stays with the build it began on, continued as new or not; so do
    its activities on the queue of summaries. What a schedule starts goes to the current build.
    """
    if deployment is None:
        return None
    return WorkerDeploymentConfig(
        version=WorkerDeploymentVersion(deployment.name, deployment.build_id),
        use_worker_versioning=True,
        default_versioning_behavior=VersioningBehavior.PINNED,
    )
