"""Retention of one tenant, a bounded batch at a time, by key: it goes on where it was stopped, and
several at once do no harm.
"""

from durable_context.artifacts.contents import ContentStore
from durable_context.database import Pool
from durable_context.retention.report import RetentionPage, RetentionReport


async def run_page(
    pool: Pool, contents: ContentStore, tenant: str, cursor: str | None = None
) -> RetentionPage:
    """Take one batch (up to 500 rows, or one conversation), and say where the next begins.

    None begins anew, by the policy that the tenant has now. A cursor stays good across restarts:
    what a lost page took is gone, and the same cursor goes on behind it. Raises InvalidArgument for
    what is no cursor, DatabaseUnavailable, ArtifactStoreUnavailable.
    """
    del pool, contents, tenant, cursor
    return RetentionPage(report=RetentionReport())
