"""Gives published leaves their vectors, each stored as soon as it is made.

Nothing that goes wrong here stops a compaction: what cannot be embedded now is found missing by the
next one, and is retrieved by its words until then.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import Final
from uuid import UUID

from durable_context.database import Pool
from durable_context.embeddings import Embedder
from durable_context.embeddings.pause import Pause
from durable_context.embeddings.store import EmbeddingStore, Leaf
from durable_context.embeddings.texts import (
    EMBEDDED_CHARACTERS,
    SHORT_CHARACTERS,
    embedded_text,
)
from durable_context.embeddings.vectors import checked_vector
from durable_context.errors import (
    EmbedderError,
    EmbedderRejected,
    EmbedderUnavailable,
    InvalidArgument,
)
from durable_context.models import Turn

logger = logging.getLogger(__name__)

SECONDS: Final = 5.0
"""After that no leaf is begun: a branch that waits costs more than a vector that is late."""
LEAF_SECONDS: Final = 20.0
"""Bound on the calls for one leaf."""
_PAGE: Final = 32
_REFUSALS: Final = 3
"""So many leaves refused and none accepted: it is not the texts."""


class LeafEmbeddings:
    """Vectors by one embedder, for branches of any tenant."""

    def __init__(self, pool: Pool, embedder: Embedder) -> None:
        self._pool = pool
        self._embedder = embedder
        self._pause = Pause()
        self._has_said = False

    async def add(self, tenant: str, branch_uuid: UUID, to_turn: int) -> None:
        """Embed the branch's own leaves up to a turn that have no vectors of the model, the newest
        first, so many as there is time for.

        Raises EmbedderUnavailable while trying again at once may help.
        """
        store = EmbeddingStore(self._pool, tenant, branch_uuid, self._embedder.model)
        if self._pause.is_on or not await self._can_keep(store):
            return
        try:
            await self._add(store, to_turn)
        except EmbedderError as error:
            seconds = self._pause.failed(error)
            if seconds is None and isinstance(error, EmbedderUnavailable):
                raise
            span = f"for {seconds:.0f} s" if seconds else "now"
            logger.warning("nothing is embedded %s: %s", span, error)

    async def _can_keep(self, store: EmbeddingStore) -> bool:
        if await store.is_available():
            return True
        if not self._has_said:
            self._has_said = True
            logger.warning(
                "nothing is embedded: the database has no pgvector 0.7 or newer, or the migrations"
                " have not run since it has"
            )
        return False

    async def _add(self, store: EmbeddingStore, to_turn: int) -> None:
        until = _now() + SECONDS
        accepted = False
        refused: dict[Leaf, EmbedderRejected] = {}
        async for leaf in _missing(store, to_turn):
            try:
                await self._embed(store, leaf)
                accepted = True
                self._pause.succeeded()
            except EmbedderRejected as error:
                if not error.of_input:
                    raise
                refused[leaf] = error
            if _now() > until or (not accepted and len(refused) == _REFUSALS):
                break
        for leaf, error in refused.items():
            if not accepted:
                raise error
            await self._pass_over(store, leaf, error)

    async def _pass_over(self, store: EmbeddingStore, leaf: Leaf, error: EmbedderRejected) -> None:
        """For good: the embedder took others, so it is these texts that it does not take."""
        logger.warning("turns %d-%d are never embedded: %s", leaf.from_turn, leaf.to_turn, error)
        await store.keep(leaf, {})

    async def _embed(self, store: EmbeddingStore, leaf: Leaf) -> None:
        turns = await store.turns(leaf)
        try:
            vectors = await self._vectors(turns, EMBEDDED_CHARACTERS)
        except EmbedderRejected as error:
            if not error.of_input:
                raise
            vectors = await self._vectors(turns, SHORT_CHARACTERS)
        await store.keep(leaf, vectors)

    async def _vectors(self, turns: tuple[Turn, ...], characters: int) -> dict[int, list[float]]:
        # Redacting takes milliseconds where a turn is large.
        texts = await asyncio.to_thread(
            lambda: {turn.turn_no: embedded_text(turn, characters) for turn in turns}
        )
        texts = {turn_no: text for turn_no, text in texts.items() if text}
        if not texts:
            return {}
        answered = await self._asked(list(texts.values()))
        return dict(zip(texts, self._checked(answered, len(texts)), strict=True))

    async def _asked(self, texts: list[str]) -> list[list[float]]:
        model = self._embedder.model
        try:
            async with asyncio.timeout(LEAF_SECONDS):
                return await self._embedder.embed(texts)
        except EmbedderError:
            raise
        except TimeoutError as error:
            message = f"{model!r} did not answer within {LEAF_SECONDS:g} s"
            raise EmbedderUnavailable(message) from error
        except Exception as error:  # an embedder of the caller's may raise anything
            raise EmbedderUnavailable(f"{model!r} raised {type(error).__name__}") from error

    def _checked(self, vectors: list[list[float]], count: int) -> list[list[float]]:
        """Of one size, and as many as were asked for."""
        model = self._embedder.model
        if len(vectors) != count:
            raise EmbedderRejected(f"{model!r} gave {len(vectors)} vectors for {count} texts")
        dimensions = self._embedder.dimensions or len(vectors[0])
        for vector in vectors:
            if len(vector) != dimensions:
                raise EmbedderRejected(
                    f"{model!r} gave a vector of {len(vector)} dimensions, not {dimensions}"
                )
        try:
            return [checked_vector(vector, name=f"a vector of {model!r}") for vector in vectors]
        except InvalidArgument as error:
            raise EmbedderRejected(str(error), of_input=True) from error


async def _missing(store: EmbeddingStore, to_turn: int) -> AsyncGenerator[Leaf]:
    while leaves := await store.missing(to_turn, _PAGE):
        for leaf in leaves:
            yield leaf
        to_turn = leaves[-1].from_turn - 1


def _now() -> float:
    return asyncio.get_running_loop().time()
