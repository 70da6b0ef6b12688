"""What a verification of several branches comes to."""

from typing import Self

from durable_context.models import Value
from durable_context.verification.findings import Finding, Verified

NAMED = 1_000
"""Findings that a report names."""


class VerificationReport(Value):
    """Sums of `Verified`. `findings` are the first 1,000 of `found`, of which `errors` are
    errors and `told` are new.
    """

    branches: int = 0
    turns: int = 0
    nodes: int = 0
    checkpoints: int = 0
    contents: int = 0
    unverifiable: int = 0
    found: int = 0
    errors: int = 0
    told: int = 0
    findings: tuple[Finding, ...] = ()

    def with_more(self, verified: Verified) -> Self:
        errors = sum(finding.severity == "error" for finding in verified.findings)
        return self.model_copy(
            update={
                "branches": self.branches + (verified.branch_uuid is not None),
                "turns": self.turns + verified.turns,
                "nodes": self.nodes + verified.nodes,
                "checkpoints": self.checkpoints + verified.checkpoints,
                "contents": self.contents + verified.contents,
                "unverifiable": self.unverifiable + verified.unverifiable,
                "found": self.found + len(verified.findings),
                "errors": self.errors + errors,
                "told": self.told + verified.told,
                "findings": (*self.findings, *verified.findings)[:NAMED],
            }
        )
