"""Every metric there is. Labels have few values: never a tenant, conversation, branch or text.

Until a process sets a meter provider, each of these does nothing, in a tenth of a microsecond.
"""

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, ObservableGauge, Observation

SCOPE: Final = "durable_context"

_FAST: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""Seconds: what a user waits for."""
_SLOW: Final = (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0)
"""Seconds: what nobody waits for."""
_TOKENS: Final = (500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000)
_SHARES: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_TURNS: Final = (0, 1, 2, 4, 8, 16, 32, 64, 128, 512)

meter: Final = metrics.get_meter(SCOPE)

# In the agent's process.
prepare_duration: Final = meter.create_histogram(
    "durable_context.prepare.duration",
    unit="s",
    description="Time of one prepare, by outcome: prepared, over_budget, error",
    explicit_bucket_boundaries_advisory=_FAST,
)
prepare_tokens: Final = meter.create_histogram(
    "durable_context.prepare.tokens",
    unit="{token}",
    description="Tokens of a prepared prompt",
    explicit_bucket_boundaries_advisory=_TOKENS,
)
prepare_stable_share: Final = meter.create_histogram(
    "durable_context.prepare.stable_share",
    unit="1",
    description="Share of a prompt that a prefix cache can serve of the next one",
    explicit_bucket_boundaries_advisory=_SHARES,
)
prepare_tail: Final = meter.create_histogram(
    "durable_context.prepare.tail",
    unit="{turn}",
    description="Turns after the newest checkpoint when a prompt is prepared",
    explicit_bucket_boundaries_advisory=_TURNS,
)
record_duration: Final = meter.create_histogram(
    "durable_context.record.duration",
    unit="s",
    description="Time of one record_turn, by outcome: recorded, repeated, error",
    explicit_bucket_boundaries_advisory=_FAST,
)
record_tokens: Final = meter.create_counter(
    "durable_context.record.tokens", unit="{token}", description="Tokens of recorded turns"
)
hints: Final = meter.create_counter(
    "durable_context.hints", description="Hints to Temporal, by outcome: sent, lost"
)
artifact_bytes: Final = meter.create_counter(
    "durable_context.artifact.size",
    unit="By",
    description="Content that became artifacts, by source: offloaded, put",
)

# In the worker.
compactions: Final = meter.create_counter(
    "durable_context.compactions",
    description="Compactions that ended, by state (completed, failed, skipped) and reason",
)
compaction_tokens_before: Final = meter.create_counter(
    "durable_context.compaction.tokens_before",
    unit="{token}",
    description="Tokens that completed compactions stood for, by reason",
)
compaction_tokens_after: Final = meter.create_counter(
    "durable_context.compaction.tokens_after",
    unit="{token}",
    description="Tokens that completed compactions left, by reason",
)
summaries: Final = meter.create_counter(
    "durable_context.summaries",
    description="Summaries made, by recipe asked for, level and whether degraded",
)
summarizer_duration: Final = meter.create_histogram(
    "durable_context.summarizer.duration",
    unit="s",
    description="Time of one attempt at a summary, by recipe and outcome: made, failed, rejected",
    explicit_bucket_boundaries_advisory=_SLOW,
)
summarizer_calls: Final = meter.create_counter(
    "durable_context.summarizer.calls", description="Calls of a model, by recipe and outcome"
)
summarizer_tokens: Final = meter.create_counter(
    "durable_context.summarizer.tokens",
    unit="{token}",
    description="Tokens that summarizers read and wrote, by recipe and direction: input, output",
)
summarizer_cost: Final = meter.create_counter(
    "durable_context.summarizer.cost",
    unit="USD",
    description="Price of summaries as far as it is known, by recipe",
)


class Lag(Protocol):
    """How far all branches of a database are behind."""

    @property
    def branches(self) -> int: ...

    @property
    def turns(self) -> int: ...

    @property
    def tokens(self) -> int: ...

    @property
    def seconds(self) -> float: ...


_reading: list[Callable[[], Lag | None]] = []


def observe_lag(read: Callable[[], Lag | None]) -> None:
    """What `read` returns is what the lag is, whenever somebody looks; None: it is not known. The
    last one given counts.
    """
    _reading[:] = [read]


def _lag_gauge(name: str, unit: str, description: str) -> ObservableGauge:
    def observed(_: CallbackOptions) -> Iterable[Observation]:
        lag = _reading[0]() if _reading else None
        return () if lag is None else (Observation(getattr(lag, name)),)

    return meter.create_observable_gauge(
        f"durable_context.lag.{name}", [observed], unit, description
    )


lag_branches: Final = _lag_gauge(
    "branches", "{branch}", "Branches that are a segment or more behind"
)
lag_turns: Final = _lag_gauge("turns", "{turn}", "Turns that compaction is behind, of all branches")
lag_tokens: Final = _lag_gauge(
    "tokens", "{token}", "Tokens that compaction is behind, of all branches"
)
lag_seconds: Final = _lag_gauge("seconds", "s", "How long the oldest of what is due has waited")
