"""What steers the processors of a context: frozen values with the presets of three modes."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from durable_context.processors.frozen import frozen_copy

_Count = Annotated[int, Field(strict=True, ge=1)]


class AutomationMode(StrEnum):
    """How much is done by itself. It names a preset of `make_config`."""

    PILOT = "pilot"
    COPILOT = "copilot"
    NAVIGATOR = "navigator"


class ContextConfig(BaseModel):
    """Values a context's processors read. Raises pydantic's ValidationError, a ValueError, for
    unknown names and for values that are not allowed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    mode: AutomationMode = AutomationMode.COPILOT
    """Kept for the caller: no processor of ours reads it."""
    history_rounds: _Count = 20
    """Rounds that RoundWindowProcessor keeps, and turns that `Context.from_branch` reads."""
    summary_threshold: _Count = 10
    """Messages above which SummarizeProcessor marks the oldest."""
    offload_threshold: _Count = 50
    """Messages, at least `summary_threshold`. Kept for the caller: no processor of ours reads
    it.
    """
    enable_retrieval: Annotated[bool, Field(strict=True)] = False
    """Kept for the caller: `Branch.prepare` retrieves as its policy says."""
    neuron_names: tuple[str, ...] = ()
    """Kept for the caller: no processor of ours reads them."""
    extra: Annotated[Mapping[str, Any], AfterValidator(frozen_copy)] = Field(
        default_factory=lambda: frozen_copy({})
    )
    """A copy of what was given, which cannot be changed, its dicts and lists neither.
    TokenBudgetProcessor reads `token_budget` and `token_encoding`.
    """
    token_budget_trigger: Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)] = (
        0.8
    )
    """A share of the model's window. Kept for the caller: TokenBudgetProcessor always enforces."""

    @model_validator(mode="after")
    def _thresholds_in_order(self) -> "ContextConfig":
        if self.summary_threshold > self.offload_threshold:
            raise ValueError(
                f"summary_threshold ({self.summary_threshold}) must be <= offload_threshold"
                f" ({self.offload_threshold})"
            )
        return self


_PRESETS: Final[dict[AutomationMode, dict[str, Any]]] = {
    AutomationMode.PILOT: {
        "history_rounds": 100,
        "summary_threshold": 100,
        "offload_threshold": 100,
        "enable_retrieval": False,
    },
    AutomationMode.COPILOT: {
        "history_rounds": 20,
        "summary_threshold": 10,
        "offload_threshold": 50,
        "enable_retrieval": False,
    },
    AutomationMode.NAVIGATOR: {
        "history_rounds": 10,
        "summary_threshold": 5,
        "offload_threshold": 20,
        "enable_retrieval": True,
    },
}


def make_config(mode: AutomationMode | str = "copilot", **overrides: Any) -> ContextConfig:
    """The preset of a mode, with other values where they are given. Raises ValueError."""
    chosen = AutomationMode(mode)
    values: dict[str, Any] = {"mode": chosen} | _PRESETS[chosen] | overrides
    return ContextConfig(**values)
