"""How a run is called in Temporal, which shows it in clear to everyone in its namespace: outside
ids only where the policy exposes them.
"""

import re

from durable_context.contracts import CompactionRequest
from durable_context.contracts.rebuild import RebuildRequest
from durable_context.contracts.sweep import SweepKind, SweepRequest
from durable_context.policy import CompactionPolicy
from durable_context.text import clean

SUMMARY_BYTES = 200
LABEL_BYTES = 200
# Visibility in SQL keeps 255 characters of a keyword, and waits for ever with a longer one.
ID_BYTES = 120
SWEEPS: dict[SweepKind, str] = {
    "catch-up": "Starts the compaction of branches whose hints were lost.",
    "merge": "Starts rebuilds of branches whose summaries pile up unmerged.",
    "upgrade": "Starts rebuilds of branches with degraded or outdated summaries, within a budget.",
    "retention": "Deletes what nothing needs any more.",
    "verify": "Reads branches anew and compares them with what was stored.",
}
ENDING = (
    "All state is in PostgreSQL: this run can be canceled, terminated or reset at any time. Prompts"
    " show the newest checkpoint until there is another."
)


def shown_ids(policy: CompactionPolicy, conversation_id: str, branch_id: str) -> tuple[str, str]:
    """`label` and `conversation` of a request."""
    if not policy.expose_ids:
        return "", ""
    label = shown(f"{conversation_id}/{branch_id}", LABEL_BYTES)
    return label, shown(conversation_id)


def shown(outside_id: str, most_bytes: int = ID_BYTES) -> str:
    """Of unlimited form: one line of it, and no more than is shown."""
    line = "".join(sign if sign.isprintable() else " " for sign in clean(outside_id))
    return line.encode()[:most_bytes].decode(errors="ignore")


def in_markdown(text: str) -> str:
    """One line of it, that Temporal's UI shows as it is: callers choose what is called how."""
    return re.sub(r"[\\`*\[\]<|]", r"\\\g<0>", " ".join(text.split()))


def attributes_of(request: CompactionRequest | RebuildRequest) -> dict[str, str]:
    """Search attributes; without a value where it is not to be shown."""
    return {
        "CompactionTenant": shown(request.tenant) if request.policy.expose_ids else "",
        "CompactionConversation": request.conversation,
        "CompactionBranch": shown(request.label) or str(request.branch_uuid),
        "CompactionReason": request.reason,
    }


def sweep_attributes(request: SweepRequest) -> dict[str, str]:
    tenant = request.tenant if request.policy.expose_ids else None
    return {"CompactionTenant": shown(tenant or ""), "CompactionReason": request.kind}


def summary_text(verb: str, request: CompactionRequest | RebuildRequest) -> str:
    text = f"{verb} {in_markdown(request.label) or request.branch_uuid}"
    return text.encode()[:SUMMARY_BYTES].decode(errors="ignore")


def compaction_details(request: CompactionRequest) -> str:
    policy = request.policy
    rows = {
        "branch": f"`{request.branch_uuid}`",
        "started by": request.reason,
        "a segment": f"{policy.segment_turns} turns, or {policy.segment_tokens:,} tokens",
        "raw turns kept": str(policy.keep_raw_turns),
        "degraded after": f"{policy.degrade_after.total_seconds():g} s of failures",
    }
    return _table("Summarizes the branch's turns, segment by segment.", rows)


def rebuild_details(request: RebuildRequest) -> str:
    rows = {
        "branch": f"`{request.branch_uuid}`",
        "started by": request.reason,
        "tokens it may read": f"{request.max_tokens:,}" if request.max_tokens else "any number",
        "summarizers": in_markdown(", ".join(request.summarizers)) or "the worker's",
    }
    return _table("Makes summaries of the branch anew, or merges them, batch by batch.", rows)


def sweep_details(request: SweepRequest) -> str:
    every = f"{request.every.total_seconds():,.0f} s" if request.every else "asked for"
    rows = {"every": every, "at most": f"{request.longest.total_seconds():,.0f} s"}
    return _table(SWEEPS[request.kind], rows)


def _table(says: str, rows: dict[str, str]) -> str:
    lines = [f"| {name} | {value} |" for name, value in rows.items()]
    # The UI draws a frame that is too low by a line.
    return "\n".join([says, "", lines[0], "|:--|:--|", *lines[1:], "", ENDING, "", "\u00a0"])
