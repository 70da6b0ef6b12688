"""Embeddings, the optional second signal of retrieval. Vectors of turns are made after the turn;
before a model call the caller may bring the query's.
"""

from collections.abc import Sequence
from typing import Protocol


class Embedder(Protocol):
    """`model` is stored with each vector: vectors of one name must be comparable.

    `dimensions` is the size of a vector, None where only the answer tells. Texts come redacted and
    cut to size; vectors come in their order. It may raise EmbedderUnavailable, which is tried
    again, and EmbedderRejected, which is not. Of any other error only the name is kept.
    """

    @property
    def model(self) -> str: ...

    @property
    def dimensions(self) -> int | None: ...

    async def embed(self, texts: Sequence[str]) -> list[list[float]]: ...
