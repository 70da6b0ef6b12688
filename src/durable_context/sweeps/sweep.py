"""Each kind of sweep, from a position on."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from durable_context.artifacts.contents import ContentStore
from durable_context.contracts.sweep import SweepPosition, SweepRequest
from durable_context.database import Pool
from durable_context.sweeps.keeping import sweep_retention, sweep_verification
from durable_context.sweeps.lagging import LaggingBranches
from durable_context.sweeps.outdated import OutdatedBranches
from durable_context.sweeps.piled_up import PiledUpBranches
from durable_context.sweeps.starting import HintedCompactions, StartedRebuilds, Surviving
from durable_context.sweeps.sweeping import ONE_RUN, Tell, sweep_branches
from durable_context.sweeps.upgrading import sweep_upgrades

if TYPE_CHECKING:
    from temporalio.client import Client

Keeping = Callable[
    [Pool, ContentStore, str | None, SweepPosition, Tell, timedelta], Awaitable[SweepPosition]
]


class Sweeping:
    """`task_queue`: of the workflows that are started. `lasts`: so long a call goes on."""

    def __init__(
        self,
        pool: Pool,
        client: "Client",
        task_queue: str,
        *,
        recipe: str,
        contents: ContentStore,
        lasts: timedelta = ONE_RUN,
    ) -> None:
        self._pool = pool
        self._client = client
        self._task_queue = task_queue
        self._recipe = recipe
        self._contents = contents
        self._lasts = lasts

    async def run(
        self, request: SweepRequest, position: SweepPosition, tell: Tell
    ) -> SweepPosition:
        match request.kind:
            case "catch-up":
                return await self._catch_up(request, position, tell)
            case "merge":
                return await self._merge(request, position, tell)
            case "upgrade":
                return await self._upgrade(request, position, tell)
            case "retention":
                return await self._keep(sweep_retention, request, position, tell)
            case "verify":
                return await self._keep(sweep_verification, request, position, tell)

    async def _catch_up(
        self, request: SweepRequest, position: SweepPosition, tell: Tell
    ) -> SweepPosition:
        pages = LaggingBranches(self._pool, request.tenant, request.policy, request.grace)
        hints = HintedCompactions(self._pool, self._client, self._task_queue, request)
        return await sweep_branches(
            pages, Surviving(hints, self._pool), position, tell, self._lasts
        )

    async def _merge(
        self, request: SweepRequest, position: SweepPosition, tell: Tell
    ) -> SweepPosition:
        pages = PiledUpBranches(self._pool, request.tenant, request.policy.fan_out)
        rebuilds = StartedRebuilds(self._pool, self._client, self._task_queue, request)
        return await sweep_branches(
            pages, Surviving(rebuilds, self._pool), position, tell, self._lasts
        )

    async def _upgrade(
        self, request: SweepRequest, position: SweepPosition, tell: Tell
    ) -> SweepPosition:
        pages = OutdatedBranches(self._pool, request.tenant, self._recipe)
        rebuilds = StartedRebuilds(self._pool, self._client, self._task_queue, request)
        start = Surviving(rebuilds, self._pool)
        return await sweep_upgrades(self._pool, pages, start, position, tell, request.max_tokens)

    async def _keep(
        self, sweep: Keeping, request: SweepRequest, position: SweepPosition, tell: Tell
    ) -> SweepPosition:
        return await sweep(self._pool, self._contents, request.tenant, position, tell, self._lasts)
