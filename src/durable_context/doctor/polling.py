"""Who polls one of Temporal's task queues, and whether what is new goes to one of them."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Self

from temporalio.api.enums.v1 import TaskQueueType, WorkerVersioningMode
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, DescribeTaskQueueResponse
from temporalio.client import Client

POLLED_WITHIN = timedelta(minutes=2)
"""A poll waits for a minute at most, then comes the next one."""


class Build(NamedTuple):
    """Of a worker deployment."""

    name: str
    build_id: str

    @property
    def promotion(self) -> str:
        """The command that makes it the current one, also where no terminal can be asked."""
        return (
            "temporal worker deployment set-current-version"
            f" --deployment-name {self.name} --build-id {self.build_id} --yes"
        )


class Polling(NamedTuple):
    """`builds`: of those that poll, None for workers without one. `current`: what is new goes
    there, None to workers without a build.
    """

    identities: set[str]
    builds: set[Build | None]
    current: Build | None

    @classmethod
    def of(cls, answer: DescribeTaskQueueResponse) -> Self:
        since = datetime.now(UTC) - POLLED_WITHIN
        polled = [
            one for one in answer.pollers if one.last_access_time.ToDatetime(tzinfo=UTC) > since
        ]
        current = answer.versioning_info.current_deployment_version
        return cls(
            {one.identity for one in polled},
            {
                Build(one.deployment_options.deployment_name, one.deployment_options.build_id)
                if one.deployment_options.worker_versioning_mode
                == WorkerVersioningMode.WORKER_VERSIONING_MODE_VERSIONED
                else None
                for one in polled
            },
            Build(current.deployment_name, current.build_id) if current.build_id else None,
        )

    @property
    def is_passed_over(self) -> bool:
        """Somebody polls, and what is new goes to nobody of them."""
        return bool(self.builds) and self.current not in self.builds


async def polling(client: Client, queue: str, kind: "TaskQueueType.ValueType") -> Polling:
    answer = await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(
            namespace=client.namespace, task_queue=TaskQueue(name=queue), task_queue_type=kind
        )
    )
    return Polling.of(answer)
