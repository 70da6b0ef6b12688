"""The numbers that steer compaction and prompts: frozen values, passed along. The environment says
at most what they are by default.
"""

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from durable_context.errors import InvalidArgument

CALLS_PER_ATTEMPT = 5
"""Model calls, one after the other, that one attempt at a summary has time for."""
POLICY = "DURABLE_CONTEXT_POLICY"
"""The environment variable with the policy of clients, workers and commands: a JSON object."""


class CompactionPolicy(BaseModel):
    """How a branch is compacted and shown. Token figures count in the branch's encoding.

    Segments are cut by `segment_turns`, `segment_tokens` and the stored turns alone, so two
    policies that agree on these
    two give the same leaves, however late or often compaction runs.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    segment_turns: int = Field(default=6, ge=1, le=100)
    """A level 0 summary covers this many turns ..."""
    segment_tokens: int = Field(default=6_000, ge=200)
    """... or fewer, ending with the turn that brings it to this many raw tokens."""
    keep_raw_turns: int = Field(default=2, ge=0, le=20)
    """Newest turns that are never compacted and stay raw in the prompt."""
    fan_out: int = Field(default=4, ge=2, le=16)
    """Nodes of one level that merge into one of the next."""
    summary_max_tokens: int = Field(default=400, ge=50, le=8_000)
    headline_max_tokens: int = Field(default=32, ge=8, le=100)
    checkpoint_max_tokens: int = Field(default=4_000, ge=500)
    """Cap on a checkpoint's text; beyond it the oldest nodes stand as headlines."""
    ledger_max_tokens: int = Field(default=1_000, ge=0)
    """The ledger's share of the checkpoint."""
    digest_tokens: int = Field(default=120, ge=30, le=1_000)
    view_tokens: int = Field(default=200, ge=40, le=4_000)
    """Cap on the short form of a large message. A message of over twice this has one."""
    offload_tokens: int = Field(default=1_000, ge=100)
    """Tool results above this go to the artifact store; the turn keeps a pointer and a view."""
    offload_messages: bool = False
    """Offload user and assistant messages of that size, too."""
    raw_result_tokens: int = Field(default=4_000, ge=100, le=1_000_000)
    """A raw turn shows results up to this size whole, larger ones as views."""
    run_raw_tokens: int = Field(default=8_000, ge=0)
    """Newest stretches of an open long run that stay raw and uncompacted."""
    retrieved_blocks: int = Field(default=3, ge=0, le=10)
    retrieved_tokens: int = Field(default=750, ge=0)
    """Cap on all retrieved blocks together."""
    debounce: timedelta = Field(default=timedelta(seconds=2), ge=timedelta(0))
    """Wait after the first hint of a burst. Zero starts at once; Temporal rounds anything else up
    to 1 s.
    """
    degrade_after: timedelta = Field(default=timedelta(minutes=2), ge=timedelta(0))
    """A summarizer that has failed for this long is replaced by the extractive one, marked
    degraded.
    """
    summarizer_timeout: timedelta = Field(default=timedelta(seconds=60), gt=timedelta(0))
    """Bound on one model call."""
    retry_interval: timedelta = Field(default=timedelta(seconds=5), gt=timedelta(0))
    """Wait before a summarizer that failed is asked again; it doubles, up to 5 minutes."""
    worker_lost_after: timedelta = Field(default=timedelta(seconds=30), ge=timedelta(seconds=1))
    """A worker that is silent for this long while it summarizes is given up for lost."""
    passes_per_run: int = Field(default=20, ge=1, le=200)
    """Segments one workflow run compacts before it continues as a new run, to keep histories
    short.
    """
    expose_ids: bool = False
    """Show conversation and branch ids in Temporal, which shows them to everyone in its
    namespace.
    """

    @property
    def attempt_timeout(self) -> timedelta:
        """Bound on one attempt at a summary, which may call several models."""
        return CALLS_PER_ATTEMPT * self.summarizer_timeout


def policy_from_env(environ: Mapping[str, str]) -> CompactionPolicy:
    """What DURABLE_CONTEXT_POLICY says, a JSON object of fields of the policy, with the defaults of
    all others. Durations are seconds or ISO 8601.

    Whoever compacts a branch needs the same, or cuts other segments. Raises InvalidArgument.
    """
    text = environ.get(POLICY)
    if not text or not text.strip():
        return CompactionPolicy()
    try:
        fields: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"{POLICY}={text!r:.80} is not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise InvalidArgument(f'{POLICY}={text!r:.80}; it must be an object: {{"fan_out": 4}}')
    try:
        return CompactionPolicy.model_validate(fields)
    except ValidationError as error:
        name = str(error.errors()[0]["loc"][0])
        value = cast("dict[str, object]", fields)[name]
        raise InvalidArgument(f"{POLICY}: {_complaint(name, value)}") from error


def _complaint(name: str, value: object) -> str:
    field = CompactionPolicy.model_fields.get(name)
    if field is None:
        allowed = ", ".join(CompactionPolicy.model_fields)
        return f"there is no field {name!r:.80}; allowed are {allowed}"
    bounds = " and ".join(_bound(constraint) for constraint in field.metadata)
    return f"{name}={value!r:.80}; allowed is {_KINDS[field.annotation]} {bounds}".rstrip()


def _bound(constraint: Any) -> str:
    """Of annotated_types: Ge, Gt or Le."""
    words = {"ge": "of at least", "gt": "of more than", "le": "of at most"}
    name = type(constraint).__name__.lower()
    bound = getattr(constraint, name)
    shown = f"{bound.total_seconds():g} s" if isinstance(bound, timedelta) else f"{bound:,}"
    return f"{words[name]} {shown}"


_KINDS: dict[Any, str] = {
    int: "a whole number",
    bool: "true or false",
    timedelta: "a duration, in seconds or as ISO 8601,",
}
