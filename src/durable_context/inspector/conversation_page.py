"""The branches of a conversation, as the tree they form."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from durable_context.errors import InvalidArgument, UnknownBranch
from durable_context.inspector.branch_rows import branch_rows
from durable_context.inspector.pages import inspector, page, whole_number

SHOWN: Final = 150
MOST: Final = 10_000_000


async def conversation(request: Request) -> Response:
    """`q`: what ids of branches contain; `from`: how many rows to leave out."""
    client, asked = inspector(request).client, request.query_params
    conversation_id, contained = asked.get("conversation"), asked.get("q", "").strip()
    if not conversation_id:
        raise InvalidArgument("the address has no conversation: ?conversation=ID")
    begin = whole_number(request, "from", 0, 0, MOST)
    infos = await client.branches(conversation_id)
    if not infos:
        raise UnknownBranch(f"there is no conversation {conversation_id!r}")
    rows = branch_rows(infos, client.policy)
    if contained:
        rows = [row for row in rows if contained.casefold() in row.info.branch_id.casefold()]
    status = await client.status(conversation_id=conversation_id, limit=0)
    return page(
        request,
        "conversation.html",
        title=conversation_id,
        conversation_id=conversation_id,
        totals=status.totals,
        head_turn=max(info.head_turn for info in infos),
        roots=sum(info.parent_id is None for info in infos),
        rows=rows[begin : begin + SHOWN],
        found=len(rows),
        begin=begin,
        q=contained,
        earlier=max(0, begin - SHOWN) if begin else None,
        later=begin + SHOWN if begin + SHOWN < len(rows) else None,
    )
