"""Tokens that agents used, step by step."""

from dataclasses import dataclass
from typing import Any

from durable_context.processors.history import field
from durable_context.processors.token_usage import check_usage


@dataclass(frozen=True, slots=True)
class TokenStep:
    """One model call. `step` counts from 0 for each agent."""

    agent_id: str
    step: int
    prompt_tokens: int
    output_tokens: int

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class TokenUsageSummary:
    """Totals over steps."""

    prompt_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    step_count: int = 0


class TokenTracker:
    """Records what was used. It enforces nothing."""

    def __init__(self) -> None:
        self._steps: list[TokenStep] = []
        self._trajectories: dict[str, list[TokenStep]] = {}
        self._totals: dict[str, TokenUsageSummary] = {}
        self._total = TokenUsageSummary()

    def add_step(self, agent_id: str, *, prompt_tokens: int, output_tokens: int) -> TokenStep:
        """Raises ContextError unless the counts are whole and not negative."""
        check_usage({"prompt_tokens": prompt_tokens, "output_tokens": output_tokens})
        trajectory = self._trajectories.setdefault(agent_id, [])
        step = TokenStep(agent_id, len(trajectory), prompt_tokens, output_tokens)
        trajectory.append(step)
        self._steps.append(step)
        self._totals[agent_id] = _plus(self.agent_usage(agent_id), step)
        self._total = _plus(self._total, step)
        return step

    def add_usage(self, agent_id: str, usage: object) -> TokenStep:
        """A step from a dict or object with `input_tokens` and `output_tokens`, or `prompt_tokens`
        and `completion_tokens`: 0 where one is missing or None. Raises ContextError.
        """
        return self.add_step(
            agent_id,
            prompt_tokens=_first(usage, "input_tokens", "prompt_tokens"),
            output_tokens=_first(usage, "output_tokens", "completion_tokens"),
        )

    def get_trajectory(self, agent_id: str) -> list[TokenStep]:
        """The agent's steps in order, none if it is not known."""
        return list(self._trajectories.get(agent_id, ()))

    def agent_usage(self, agent_id: str) -> TokenUsageSummary:
        """Zeros if the agent is not known."""
        return self._totals.get(agent_id, TokenUsageSummary())

    def total_usage(self) -> TokenUsageSummary:
        return self._total

    @property
    def agent_ids(self) -> list[str]:
        """In the order of their first steps."""
        return list(self._trajectories)

    @property
    def steps(self) -> list[TokenStep]:
        return list(self._steps)

    def __len__(self) -> int:
        return len(self._steps)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"TokenTracker(agents={len(self._trajectories)}, steps={len(self)})"


def _first(usage: object, *names: str) -> Any:
    found = (field(usage, name) for name in names)
    return next((count for count in found if count is not None), 0)


def _plus(summary: TokenUsageSummary, step: TokenStep) -> TokenUsageSummary:
    return TokenUsageSummary(
        summary.prompt_tokens + step.prompt_tokens,
        summary.output_tokens + step.output_tokens,
        summary.total_tokens + step.total_tokens,
        summary.step_count + 1,
    )
