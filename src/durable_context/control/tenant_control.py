"""What operators do with all that a tenant has: the part of `ContextClient` that agents seldom
need.
"""

from durable_context.policy import CompactionPolicy
from durable_context.resources import Resources


class TenantControl:
    """Base of `ContextClient`."""

    _resources: Resources
    _policy: CompactionPolicy
