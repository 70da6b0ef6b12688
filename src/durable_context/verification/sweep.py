"""Verification of all branches, page by page, for a sweep that can be interrupted anywhere."""

from collections.abc import Callable
from typing import NamedTuple

from durable_context.artifacts.contents import ContentStore
from durable_context.database import Pool
from durable_context.verification.findings import Finding


class VerifiedPage(NamedTuple):
    """`cursor` begins the next page; None: this was the last. Counts are of this page alone.

    `findings` are the first 100 of `found`; `told` of them are new.
    """

    cursor: str | None
    branches: int = 0
    turns: int = 0
    contents: int = 0
    found: int = 0
    errors: int = 0
    told: int = 0
    findings: tuple[Finding, ...] = ()


async def run_page(
    pool: Pool,
    contents: ContentStore,
    tenant: str | None = None,
    cursor: str = "",
    limit: int = 100,
    *,
    alive: Callable[[], None] = lambda: None,
) -> VerifiedPage:
    """Verify the next `limit` branches after `cursor` ("" to begin), then contents and rows that
    no branch owns. None as `tenant`: of all.

    `alive` is called about once a second at least, for a heartbeat. Repeating a page is harmless.
    Raises DatabaseUnavailable, ArtifactStoreUnavailable.
    """
    raise NotImplementedError
