"""Summaries by a model of any provider: in one call, or where the input is larger than the model's
window in several, each chunk on its own and then their results as one.
"""

import asyncio
import importlib
from importlib.resources import files
from importlib.util import find_spec
from typing import Final

from durable_context.summarizers import SummaryDraft, SummaryRequest
from durable_context.summarizers.condensing import Condensing, Kind
from durable_context.tokens import token_counter

CHAT_COMPLETIONS: Final = ("openai", "openai-chat")
"""Providers that `base_url` can stand in for."""
SMALLEST_WINDOW: Final = 4_000

_OUTPUT_TOKENS: Final = 4_096
"""Bound on one answer, with room for a model that thinks first."""
_FORM_TOKENS: Final = 300
"""What the output schema and the wrapping of messages take at most."""
_FOREIGN: Final = 0.85
"""Our count of tokens against that of the model's own tokenizer."""


class ModelSummarizer:
    """`model` is a pydantic-ai name such as `openai:gpt-4o-mini`, `context_tokens` its window.

    `base_url` is that of an OpenAI-compatible server. Without `api_key` the environment variable of
    the provider counts. `openai:` models are asked over chat completions, which most servers speak.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        prompt_version: str = "1",
        context_tokens: int = 100_000,
    ) -> None:
        _check(model, base_url or api_key, context_tokens)
        self._model = model
        self._base_url = base_url
        self._api_key = api_key
        self._context_tokens = context_tokens
        self._prompt_version = prompt_version
        self._instructions: dict[Kind, str] = {
            "leaf": _prompt("leaf", prompt_version),
            "merge": _prompt("merge", prompt_version),
            "artifact": _prompt("artifact", prompt_version),
        }

    @property
    def recipe(self) -> str:
        return f"model/{self._model}/{self._prompt_version}"

    async def summarize(self, request: SummaryRequest) -> SummaryDraft:
        # Importing takes a second, which must not hold up the loop.
        await asyncio.to_thread(importlib.import_module, "durable_context.summarizers.providers")
        from durable_context.summarizers import providers

        async with providers.open_model(self._model, self._base_url, self._api_key) as model:

            async def ask(kind: Kind, prompt: str) -> providers.Reply:
                question = providers.Question(
                    self._instructions[kind],
                    prompt,
                    self._output_tokens,
                    request.timeout.total_seconds(),
                )
                return await providers.ask(model, self._model, question)

            return await Condensing(self.recipe, request, ask).draft(self._room(request))

    @property
    def _output_tokens(self) -> int:
        return min(_OUTPUT_TOKENS, self._context_tokens // 4)

    def _room(self, request: SummaryRequest) -> int:
        """Tokens that are left in the window for what is to be summarized."""
        counter = token_counter(request.encoding)
        taken = max(counter.count(text) for text in self._instructions.values())
        taken += counter.count(request.focus or "") + _FORM_TOKENS
        return int((self._context_tokens - self._output_tokens) * _FOREIGN) - taken


def _check(model: str, for_openai: str | None, context_tokens: int) -> None:
    provider, colon, name = model.partition(":")
    if not (provider and colon and name):
        raise ValueError(f"model {model!r} is not of the form 'provider:name', as 'openai:gpt-4o'")
    if for_openai and provider not in CHAT_COMPLETIONS:
        raise ValueError(f"base_url and api_key are for 'openai:' models only, not {model!r}")
    if context_tokens < SMALLEST_WINDOW:
        raise ValueError(f"context_tokens is {context_tokens}, not {SMALLEST_WINDOW} or more")
    if find_spec("pydantic_ai") is None:
        raise ModuleNotFoundError(f"{model!r} needs the extra: pip install durable-context[models]")


def _prompt(kind: Kind, version: str) -> str:
    folder = files("durable_context.summarizers") / "prompts"
    found = {file.name: file for file in folder.iterdir()}
    name = f"{kind}-{version}.md"
    if name not in found:
        raise ValueError(f"prompt_version {version!r} has no {name}: there are {sorted(found)}")
    return found[name].read_text(encoding="utf-8")
