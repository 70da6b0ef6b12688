"""Vectors from an OpenAI-compatible endpoint.

The client is imported when it is first asked, because that takes half a second. It does not retry,
since Temporal does.
"""

import asyncio
import importlib
import os
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from durable_context.embeddings.vectors import MOST_DIMENSIONS

if TYPE_CHECKING:
    from openai import AsyncOpenAI

BATCH: Final = 32
"""Texts in one request: what the smallest servers take, and far below OpenAI's bound on tokens."""
TIMEOUT: Final = 10.0


class OpenAIEmbedder:
    """`base_url` is that of an OpenAI-compatible server, OpenAI's own without it. Without `api_key`
    the environment variable OPENAI_API_KEY counts.

    `dimensions` is asked for, which not every model allows. `timeout`, in seconds, bounds each
    request.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        dimensions: int | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        _check(model, dimensions, timeout)
        self._name = model
        self._base_url = base_url
        self._api_key = api_key
        self._dimensions = dimensions
        self._timeout = timeout

    @property
    def model(self) -> str:
        """With the size, if one is asked for: vectors of two sizes cannot be compared."""
        return f"{self._name}@{self._dimensions}" if self._dimensions else self._name

    @property
    def dimensions(self) -> int | None:
        return self._dimensions

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """In requests of 32 texts. Raises EmbedderUnavailable and EmbedderRejected."""
        await asyncio.to_thread(importlib.import_module, "openai")
        from durable_context.embeddings.failures import failures_of

        vectors: list[list[float]] = []
        with failures_of(self._name, self._timeout):
            async with self._client() as client:
                for start in range(0, len(texts), BATCH):
                    async with asyncio.timeout(self._timeout):
                        vectors += await self._vectors(client, texts[start : start + BATCH])
        return vectors

    async def _vectors(self, client: "AsyncOpenAI", texts: Sequence[str]) -> list[list[float]]:
        from openai import omit

        answer = await client.embeddings.create(
            model=self._name,
            input=list(texts),
            dimensions=self._dimensions or omit,
            encoding_format="float",  # which every server speaks; the client's own choice is base64
        )
        # Servers number them, and are free to answer in another order.
        return [one.embedding for one in sorted(answer.data, key=lambda one: one.index)]

    def _client(self) -> "AsyncOpenAI":
        from openai import AsyncOpenAI

        api_key = self._api_key
        if api_key is None and self._base_url is not None and not os.environ.get("OPENAI_API_KEY"):
            api_key = "none"  # a server of one's own needs no key, but the client insists on one
        return AsyncOpenAI(base_url=self._base_url, api_key=api_key, max_retries=0)


def embedder_from_spec(
    spec: str, *, base_url: str | None = None, dimensions: int | None = None
) -> OpenAIEmbedder:
    """The embedder that configuration names as `openai:MODEL`."""
    provider, _, model = spec.strip().partition(":")
    if provider != "openai" or not model:
        raise ValueError(
            f"embedder {spec!r} is not 'openai:MODEL', as in 'openai:text-embedding-3-small'"
        )
    return OpenAIEmbedder(model, base_url=base_url, dimensions=dimensions)


def _check(model: str, dimensions: int | None, timeout: float) -> None:
    if not model:
        raise ValueError("model is empty; it must be a name such as 'text-embedding-3-small'")
    if dimensions is not None and not 1 <= dimensions <= MOST_DIMENSIONS:
        raise ValueError(f"dimensions is {dimensions}; allowed are 1 to {MOST_DIMENSIONS:,}")
    if not timeout > 0:
        raise ValueError(f"timeout is {timeout}; it must be more than 0 s")
    if find_spec("openai") is None:
        raise ModuleNotFoundError(f"{model!r} needs the extra: pip install durable-context[models]")
