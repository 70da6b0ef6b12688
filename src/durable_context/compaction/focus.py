"""What a summarizer is asked to keep in view, for one compaction alone. The text is kept in
PostgreSQL, where activities read it: Temporal carries its id.
"""

import hashlib
from typing import Final
from uuid import UUID

from durable_context.database import Pool, acquired
from durable_context.errors import InvalidArgument, UnknownBranch
from durable_context.text import clean

LONGEST: Final = 500
"""Characters."""
_MARK: Final = "+focus:"


def checked_focus(focus: str) -> str:
    """The text as it is stored. Raises InvalidArgument where it is none, or too long a one."""
    text = clean(focus).strip() if isinstance(focus, str) else ""  # pyright: ignore[reportUnnecessaryIsInstance]
    if not text or len(text) > LONGEST:
        raise InvalidArgument(f"focus={focus!r:.80}; allowed is text of 1 to {LONGEST} characters")
    return text


async def store_focus(pool: Pool, tenant: str, branch_uuid: UUID, focus: str) -> UUID:
    """The id under which `load_focus` finds the text. Idempotent: the same text, the same id.

    Raises InvalidArgument, UnknownBranch.
    """
    async with acquired(pool) as connection:
        focus_id = await connection.fetchval(
            "insert into durable_context.focuses (tenant, branch_uuid, focus)"
            " select b.tenant, b.branch_uuid, $3 from durable_context.branches b"
            " where b.tenant = $1 and b.branch_uuid = $2"
            " on conflict (branch_uuid, focus) do update set focus = excluded.focus"
            " returning focus_id",
            tenant,
            branch_uuid,
            checked_focus(focus),
        )
    if focus_id is None:
        raise UnknownBranch(f"there is no branch {branch_uuid} for this tenant")
    return focus_id


async def load_focus(pool: Pool, tenant: str, branch_uuid: UUID, found_by: UUID) -> str | None:
    """The focus of this id, or of the compaction with this id; None where it has none."""
    async with acquired(pool) as connection:
        return await connection.fetchval(
            "select focus from durable_context.compactions"
            " where tenant = $1 and branch_uuid = $2 and compaction_id = $3"
            " union all select focus from durable_context.focuses"
            " where tenant = $1 and branch_uuid = $2 and focus_id = $3",
            tenant,
            branch_uuid,
            found_by,
        )


def focused_recipe(recipe: str, focus: str | None) -> str:
    """The recipe of nodes made with this focus, which are other drafts than those without it."""
    if focus is None:
        return recipe
    return f"{recipe}{_MARK}{hashlib.sha256(focus.encode()).hexdigest()[:8]}"


def base_recipe(recipe: str) -> str:
    """The summarizer's own: by this a node is outdated or not."""
    return recipe.partition(_MARK)[0]
