"""Tells in the log whether new runs come to this build of a deployment, or what sends them here."""

import asyncio
import logging

from temporalio.api.workflowservice.v1 import DescribeWorkerDeploymentRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from durable_context.doctor.polling import Build
from worker.settings import Deployment

KNOWN_WITHIN = 60.0
LOOK_AGAIN = 1.0

logger = logging.getLogger(__name__)


async def report_version(client: Client, deployment: Deployment) -> None:
    """Once the server knows the build, which is when its workers have polled."""
    try:
        async with asyncio.timeout(KNOWN_WITHIN):
            current = await _current(client, deployment)
    except (RPCError, TimeoutError) as error:
        why = str(error) or f"not known to Temporal within {KNOWN_WITHIN:g} s"
        logger.warning("cannot tell which build of %s is current: %s", deployment.name, why)
        return
    name, build_id = deployment
    promotion = Build(name, build_id).promotion
    if current == build_id:
        logger.info("build %s of %s is current: new runs come here", build_id, name)
    elif current:
        told = "build %s of %s is not current: new runs go to build %s; to send them here: %s"
        logger.info(told, build_id, name, current, promotion)
    else:
        told = "no build of %s is current: new runs wait, or go to workers without a build: %s"
        logger.warning(told, name, promotion)


async def _current(client: Client, deployment: Deployment) -> str:
    """The build id; empty where none is."""
    request = DescribeWorkerDeploymentRequest(
        namespace=client.namespace, deployment_name=deployment.name
    )
    while True:
        try:
            answer = await client.workflow_service.describe_worker_deployment(request)
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND:
                raise
        else:
            info = answer.worker_deployment_info
            known = {one.deployment_version.build_id for one in info.version_summaries}
            if deployment.build_id in known:
                return info.routing_config.current_deployment_version.build_id
        await asyncio.sleep(LOOK_AGAIN)
