"""What operators do with all that a tenant has: the part of `ContextClient` that agents seldom
need.
"""

from durable_context.control.pausing import Pausing
from durable_context.models import Pause
from durable_context.policy import CompactionPolicy
from durable_context.resources import Resources


class TenantControl:
    """Base of `ContextClient`."""

    _resources: Resources
    _policy: CompactionPolicy

    async def pause(self, because: str | None = None) -> None:
        """Compact nothing of the tenant until `resume`, neither what it has nor what it gets.
        Turns are recorded and prompts prepared as before; compactions that are under way end.

        Idempotent, as `Branch.pause` is. Raises InvalidArgument.
        """
        await self._pausing.pause_tenant(because)

    async def resume(self) -> None:
        """End the tenant's pause, if there is one; branches that are paused themselves stay so.

        The catch-up sweep starts what is due by now, and so does the next turn of a branch.
        """
        await self._pausing.resume_tenant()

    async def paused(self) -> Pause | None:
        """The tenant's pause, None where it has none."""
        return await self._pausing.of_tenant()

    @property
    def _pausing(self) -> Pausing:
        return Pausing(self._resources.pool, self._resources.tenant)
