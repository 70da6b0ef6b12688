"""A prompt's tokens as the budget's model counts them: a factor over the branch's encoding, and
what images and reasoning cost that model. Without a model the branch's encoding is the measure.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from durable_context.artifacts.image_rules import ImageRule, image_rule
from durable_context.artifacts.media import (
    image_facts,
    is_stored_part,
    part_reference,
    part_tokens,
)
from durable_context.calibration import (
    WHOLE,
    extent,
    in_branch_tokens,
    in_model_tokens,
    token_factor,
)
from durable_context.model_tokens import counted_as
from durable_context.models import Message
from durable_context.prompts.blocks import Exchange, Parts
from durable_context.prompts.prepared import Budget
from durable_context.prompts.state import PromptState, View
from durable_context.text import message_text
from durable_context.tokens import reasoning_tokens

ESCAPED_HALVES: Final = 9
"""Halves of a token that a UTF-16 unit beyond ASCII costs in a result of parallel calls: OpenAI's
chat API escapes those as JSON does (community.openai.com/t/1375117, measured for gpt-4.1 and
gpt-5.2). An estimate that errs high.
"""


class ModelCount(NamedTuple):
    """`factor` in thousandths. `escapes`: it is OpenAI's own API that counts."""

    model: str | None = None
    factor: int = WHOLE
    images: ImageRule | None = None
    escapes: bool = False

    @property
    def token_factor(self) -> float:
        return self.factor / WHOLE

    def limit(self, tokens: int) -> int:
        """The same limit in the branch's encoding."""
        return in_branch_tokens(tokens, self.factor)

    def tokens(self, counted: int) -> int:
        """Of the model, for tokens counted in the branch's encoding."""
        return in_model_tokens(counted, self.factor)

    def part_tokens(self, part: dict[str, Any]) -> int:
        """What a part that is no text costs the model."""
        facts = image_facts(part) if self.images is not None else None
        return part_tokens(part) if facts is None or self.images is None else self.images(*facts)

    def differences(self, messages: Sequence[Message]) -> list[int]:
        """What the model counts differently in each message, in the branch's encoding."""
        if self.model is None:
            return [0] * len(messages)
        parallel = _results_of_parallel_calls(messages)
        return [self.difference(*said) for said in zip(messages, parallel, strict=True)]

    def difference(self, message: Message, parallel: bool = False) -> int:
        """The same for one. `parallel`: it is a result of several calls. Nothing is tokenized."""
        content = message.content
        parts = content if isinstance(content, tuple) else ()
        total = sum(map(self._image_difference, parts)) - self._foreign_reasoning(message)
        return total + _escapes(message) if parallel and self.escapes else total

    def _image_difference(self, part: dict[str, Any]) -> int:
        facts = image_facts(part) if self.images is not None else None
        if facts is None or self.images is None:
            return 0
        counted = part_tokens(part)
        cost = -(-self.images(*facts) * WHOLE // self.factor)
        if is_stored_part(part):  # the text that stands for it may cost more than a small image
            cost = max(cost, min(counted, len(part_reference(part).encode(errors="replace"))))
        return cost - counted

    def _foreign_reasoning(self, message: Message) -> int:
        """Reasoning that is another provider's is not sent."""
        if not message.reasoning or self.model is None:
            return 0
        family = counted_as(self.model).family
        return sum(reasoning_tokens(r) for r in message.reasoning if r.provider != family)


def count_for_model(
    parts: Parts, state: PromptState, budget: Budget, least: int = WHOLE
) -> ModelCount:
    """How the budget's model counts this prompt, by a factor of at least so many thousandths. The
    parts are adjusted to it.
    """
    if budget.model is None:
        return ModelCount()
    model = counted_as(budget.model)
    factor, exact = WHOLE, model.is_exact(state.encoding)
    if not exact:
        measured = extent(_texts(parts, state, budget))
        factor = token_factor(measured, _tokens(parts), state.encoding, state.calibration)
        factor = max(factor, least)
    count = ModelCount(budget.model, factor, image_rule(model), escapes=exact)
    for exchange in _exchanges(parts):
        _adjust(exchange, count)
    parts.task = [(said, tokens + count.difference(said)) for said, tokens in parts.task]
    parts.user = [(said, tokens + count.difference(said)) for said, tokens in parts.user]
    return count


def factor_as_shown(
    parts: Parts, texts: Iterable[str], count: ModelCount, state: PromptState
) -> int:
    """The factor of a prompt as it was reduced to: what is left may be of another kind than what
    there was.
    """
    if (count.factor == WHOLE and count.escapes) or count.model is None:
        return count.factor
    return token_factor(extent(texts), _tokens(parts), state.encoding, state.calibration)


def _adjust(exchange: Exchange, count: ModelCount) -> None:
    differences = count.differences(exchange.messages)
    exchange.message_tokens = tuple(
        map(sum, zip(exchange.message_tokens, differences, strict=True))
    )
    parallel = _results_of_parallel_calls(exchange.messages)
    exchange.differs = lambda message, position: count.difference(message, parallel[position])
    exchange.views = {
        position: View(message, tokens + count.difference(message, parallel[position]))
        for position, (message, tokens) in exchange.views.items()
    }


def _results_of_parallel_calls(messages: Sequence[Message]) -> list[bool]:
    several = False
    found: list[bool] = []
    for message in messages:
        if message.role != "tool":
            several = len(message.tool_calls) > 1
        found.append(several and message.role == "tool")
    return found


def _escapes(message: Message) -> int:
    text = message_text(message)
    if text.isascii():
        return 0
    units = len(text.encode("utf-16-le", "surrogatepass")) // 2
    plain = len(text.encode("ascii", "ignore"))
    return -(-ESCAPED_HALVES * (units - plain) // 2)


def _exchanges(parts: Parts) -> list[Exchange]:
    return [*parts.raw, parts.pending] if parts.pending else parts.raw


def _tokens(parts: Parts) -> int:
    """Of the texts alone: what images cost says nothing of them."""
    messages = [message for exchange in _exchanges(parts) for message in exchange.messages]
    messages += [message for message, _ in [*parts.task, *parts.user]]
    return parts.tokens - sum(map(_media_tokens, messages))


def _media_tokens(message: Message) -> int:
    parts = message.content if isinstance(message.content, tuple) else ()
    media = sum(part_tokens(part) for part in parts if part.get("type") not in ("text", "refusal"))
    return media + sum(map(reasoning_tokens, message.reasoning))


def _texts(parts: Parts, state: PromptState, budget: Budget) -> Iterator[str]:
    """What the prompt may hold, before anything is left out."""
    yield budget.instructions or ""
    if budget.tools:
        yield json.dumps(budget.tools, ensure_ascii=False, default=str)
    if state.checkpoint is not None:
        yield state.checkpoint.text
    for section in parts.pinned:
        yield section.text
    for turn in state.tail:
        yield turn.digest
    for block in parts.retrieved:
        yield block.text
    for exchange in _exchanges(parts):
        for message in exchange.messages:
            yield from _texts_of(message)
    for message, _ in [*parts.task, *parts.user]:
        yield from _texts_of(message)


def _texts_of(message: Message) -> Iterator[str]:
    yield message_text(message)
    for call in message.tool_calls:
        yield call.arguments
