"""`durable-context branches CONVERSATION`."""

from durable_context.cli.branch_tree import branch_trees
from durable_context.cli.connecting import connect
from durable_context.cli.failures import run
from durable_context.cli.options import Conversation, DatabaseUrl, Iso, Json, Tenant
from durable_context.cli.output import console, one_line, print_json
from durable_context.errors import UnknownBranch


def branches(
    conversation: Conversation,
    database_url: DatabaseUrl = None,
    tenant: Tenant = "default",
    iso: Iso = False,
    as_json: Json = False,
) -> None:
    """Show the branches of a conversation as a tree: fork turn, head and checkpoint of each."""
    run(_branches(conversation, database_url, tenant, iso, as_json))


async def _branches(
    conversation_id: str, database_url: str | None, tenant: str, iso: bool, as_json: bool
) -> int:
    async with await connect(database_url, temporal=None, tenant=tenant) as client:
        found = await client.branches(conversation_id)
    if not found:
        raise UnknownBranch(f"tenant {tenant!r} has no conversation {conversation_id!r}")
    if as_json:
        print_json({"conversation_id": conversation_id, "branches": found})
        return 0
    out = console()
    count = "1 branch" if len(found) == 1 else f"{len(found)} branches"
    out.print(one_line(f"{conversation_id}: {count}", style="bold"))
    out.print(branch_trees(found, iso=iso))
    return 0
