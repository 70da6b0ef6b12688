"""What operators do with one branch: the part of `Branch` that agents seldom need."""

from uuid import UUID

from durable_context.policy import CompactionPolicy
from durable_context.resources import Resources


class BranchControl:
    """Base of `Branch`."""

    branch_uuid: UUID
    policy: CompactionPolicy
    _resources: Resources

    def _label(self) -> str:
        """How the branch is called in Temporal; empty unless the policy exposes ids."""
        raise NotImplementedError
