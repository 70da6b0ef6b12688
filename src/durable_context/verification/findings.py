"""What verification found: which rows, and what was expected of them. Never content."""

import hashlib
import json
import re
from typing import Any, Literal, NamedTuple
from uuid import UUID

from durable_context.models import Value

Check = Literal[
    "turn_numbers",
    "turn_hash",
    "turn_tokens",
    "turn_artifacts",
    "branch_head",
    "branch_checkpoint",
    "branch_artifacts",
    "lineage",
    "node_hash",
    "node_input",
    "node_order",
    "node_overlap",
    "node_cover",
    "checkpoint_hash",
    "checkpoint_cover",
    "checkpoint_order",
    "content_missing",
    "content_hash",
    "prompt_parts_hash",
    "orphan_document",
    "orphan_posting",
    "orphan_vector",
    "orphan_row",
    "compaction_stuck",
    "pin_turn",
    "unreadable",
]
Severity = Literal["error", "warning"]
"""An error: something recorded or published is not what it was. A warning: something is left over
or stuck, and no prompt is wrong for it.
"""
IDS = 20
"""Ids that one finding names."""
_FIGURE = re.compile(r"\d+")


class Finding(Value):
    """One thing that is not as it should be. Turns are None where it is about none; `ids` are of
    rows, handles or hashes, 20 at most. `branch_uuid` is None for rows that no branch owns.
    """

    check: Check
    severity: Severity = "error"
    conversation_id: str | None = None
    branch_id: str | None = None
    branch_uuid: UUID | None = None
    from_turn: int | None = None
    to_turn: int | None = None
    ids: tuple[str, ...] = ()
    expected: str = ""
    found: str = ""

    @property
    def figures(self) -> dict[str, Any]:
        """What its event says: all but the branch, of which it is an event."""
        return self.model_dump(
            mode="json",
            exclude={"conversation_id", "branch_id", "branch_uuid"},
            exclude_defaults=True,
        ) | {"severity": self.severity}

    @property
    def hash(self) -> bytes:
        """Tells it from other findings of its branch for as long as it stands, while figures that
        it names move on with the branch.
        """
        named = [self.check, self.from_turn, self.to_turn, self.ids, _FIGURE.sub("", self.expected)]
        return hashlib.sha256(json.dumps(named).encode()).digest()


class Verified(NamedTuple):
    """What was looked at, and what was found there. Of a branch, or where there is no
    `branch_uuid` of what belongs to the tenant.

    `unverifiable` counts what bears no hash that can be computed from what is stored: turns that
    older versions offloaded, and nodes whose input is gone. `told`: findings that are new since
    the last verification.
    """

    conversation_id: str | None
    branch_id: str | None
    branch_uuid: UUID | None
    turns: int = 0
    nodes: int = 0
    checkpoints: int = 0
    contents: int = 0
    unverifiable: int = 0
    findings: tuple[Finding, ...] = ()
    told: int = 0
