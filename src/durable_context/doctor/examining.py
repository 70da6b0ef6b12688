"""All checks, whatever is down: see the package."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from durable_context.artifacts.contents import ContentStore
from durable_context.artifacts.object_store import URL_VARIABLE
from durable_context.contracts import SUMMARY_TASK_QUEUE
from durable_context.database import Pool
from durable_context.doctor.database import database_diagnoses, unreachable
from durable_context.doctor.diagnosis import Checkup, Diagnosis, failed, ok, warning
from durable_context.doctor.upkeep import upkeep_diagnoses
from durable_context.errors import DurableContextError, InvalidArgument
from durable_context.policy import POLICY, CompactionPolicy, policy_from_env

if TYPE_CHECKING:
    from durable_context.compaction.requests import CompactionRequests

SUMMARIZERS = "DURABLE_CONTEXT_SUMMARIZERS"
STORE_SECONDS = 60.0


class Patient(NamedTuple):
    """What is looked at. No pool: the database could not be reached, `why` says. No requests:
    Temporal was not wanted. No contents: they are as `environ` says.
    """

    tenant: str
    policy: CompactionPolicy
    environ: Mapping[str, str]
    pool: "Pool | None" = None
    why: str = ""
    requests: "CompactionRequests | None" = None
    contents: ContentStore | None = None
    summary_task_queue: str = SUMMARY_TASK_QUEUE


async def examine(patient: Patient) -> Checkup:
    """A few seconds where all is well, half a minute where nothing answers."""
    database, temporal, objects = await asyncio.gather(
        _database(patient), _temporal(patient), _objects(patient)
    )
    here = (_policy(patient.environ), _summarizers(patient.environ), objects)
    return Checkup(diagnoses=(*database, *temporal, *here))


async def _database(patient: Patient) -> tuple[Diagnosis, ...]:
    if patient.pool is None:
        return (unreachable(patient.why),)
    diagnoses = await database_diagnoses(patient.pool)
    states = {one.check: one.state for one in diagnoses}
    if states.get("migrations", "failed") == "failed" or states.get("role") == "failed":
        return diagnoses  # the rest reads the schema
    upkeep = await upkeep_diagnoses(patient.pool, patient.tenant, patient.policy)
    return (*diagnoses, *upkeep)


async def _temporal(patient: Patient) -> tuple[Diagnosis, ...]:
    if patient.requests is None:
        mend = "connect with a Temporal address, so that turns are compacted soon"
        return (warning("temporal", "not looked at: the client has temporal=None", mend),)
    await asyncio.to_thread(__import__, "durable_context.doctor.temporal")
    from durable_context.doctor.temporal import temporal_diagnoses

    return await temporal_diagnoses(patient.requests, summary_task_queue=patient.summary_task_queue)


async def _objects(patient: Patient) -> Diagnosis:
    """Written to where it was named: in the environment, or by the client."""
    named = patient.environ.get(URL_VARIABLE)
    if patient.contents is None and not named:
        return ok("object store", f"{URL_VARIABLE} is not set: large contents stay on this machine")
    mend = f"see {URL_VARIABLE} and its credentials; until then large contents are refused"
    try:
        contents = patient.contents or ContentStore(named)
        await asyncio.wait_for(contents.probe(), STORE_SECONDS)
    except TimeoutError:
        return failed("object store", "no answer in time", mend)
    except DurableContextError as error:
        return failed("object store", str(error), mend)
    return ok("object store", "written to and read from")


def _policy(environ: Mapping[str, str]) -> Diagnosis:
    try:
        policy_from_env(environ)
    except InvalidArgument as error:
        return failed("policy", str(error), f"change {POLICY}")
    if environ.get(POLICY):
        return ok("policy", f"as {POLICY} says here; workers and clients need the same")
    return ok("policy", f"the default: {POLICY} is not set here")


def _summarizers(environ: Mapping[str, str]) -> Diagnosis:
    """The worker's are its own: here is only what this environment says."""
    text = environ.get(SUMMARIZERS)
    if not text:
        return ok("summarizers", f"{SUMMARIZERS} is not set here; the worker has its own")
    from durable_context.summarizers.chain import summarizer_from_specs

    try:
        summarizer = summarizer_from_specs(text.split(","))
    except (ValueError, InvalidArgument, DurableContextError) as error:
        return failed("summarizers", f"cannot be made: {error!s:.300}", f"change {SUMMARIZERS}")
    except Exception as error:  # of a provider's client, which may quote its key
        message = f"cannot be made: {type(error).__name__}"
        return failed("summarizers", message, f"see {SUMMARIZERS} and the keys of its providers")
    return ok("summarizers", summarizer.recipe)
