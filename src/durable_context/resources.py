"""What a client shares with its branches."""

from typing import TYPE_CHECKING, NamedTuple

from durable_context.artifacts.contents import ContentStore
from durable_context.artifacts.store import ArtifactStore
from durable_context.branch_store import BranchStore
from durable_context.database import Pool
from durable_context.events import EventStore, PendingEvents
from durable_context.store import Store

if TYPE_CHECKING:
    from durable_context.compaction.requests import CompactionRequests


class Resources(NamedTuple):
    """Connections and stores of one tenant. `requests` is None where Temporal is not to be told."""

    pool: Pool
    tenant: str
    branches: BranchStore
    store: Store
    contents: ContentStore
    artifacts: ArtifactStore
    events: EventStore
    pending_events: PendingEvents
    requests: "CompactionRequests | None"
