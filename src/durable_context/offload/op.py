"""The offload of a list of messages: compaction of tool messages, compression of what is older."""

import asyncio
import hashlib
import os
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from durable_context import stored_json
from durable_context.contracts import OffloadMode, OffloadParameters, SummaryRole
from durable_context.errors import ArtifactNotFound, InvalidArgument
from durable_context.offload.compacting import Compaction, Outcome
from durable_context.offload.compressing import Compression
from durable_context.offload.files import FileOffloads
from durable_context.offload.kept_artifacts import ArtifactLister, ArtifactOffloads
from durable_context.offload.messages import (
    Sized,
    checked_messages,
    request_tokens,
    sized,
)
from durable_context.offload.parameters import check_chat_id, checked_parameters
from durable_context.offload.result import OffloadResult, kept
from durable_context.offload.stores import OffloadStore, StoredFile
from durable_context.offload.summarizing import GroupSummarizer, MessageSummarizer
from durable_context.showing import shown
from durable_context.summarizers import Summarizer
from durable_context.tokens import token_counter


class ContextOffloadOp:
    """Keeps a list of chat messages small, and originals where they can be read again.

    `max_total_tokens` is what all messages may have before tool messages are compacted, and those
    between system and recent ones before they are compressed. `keep_recent_count` None keeps 1
    message from compaction and 2 from compression, which also keeps what the user said last.
    `group_token_threshold` None or 0: one group. `preview_chars` 0: no preview. Originals go to
    files under `store_dir`, or with `artifacts=branch` to the branch's artifact store; with
    neither, what would have to be stored stays as it is and is reported. `summarizer` None is
    the extractive one, which needs no model. `summary_role="user"` is safer: what tools and
    users said is no system message then.

    Raises InvalidArgument, which names the value and what is allowed.
    """

    def __init__(
        self,
        *,
        context_manage_mode: OffloadMode = "auto",
        max_total_tokens: int = 20_000,
        max_tool_message_tokens: int = 2_000,
        group_token_threshold: int | None = None,
        keep_recent_count: int | None = None,
        store_dir: str | os.PathLike[str] | None = None,
        chat_id: str | None = None,
        preview_chars: int = 100,
        compact_ratio_threshold: float = 0.75,
        summary_role: SummaryRole = "system",
        summarizer: Summarizer | MessageSummarizer | None = None,
        artifacts: ArtifactLister | None = None,
        encoding: str = "o200k_base",
    ) -> None:
        self.parameters: OffloadParameters = checked_parameters(
            context_manage_mode=context_manage_mode,
            max_total_tokens=max_total_tokens,
            max_tool_message_tokens=max_tool_message_tokens,
            group_token_threshold=group_token_threshold,
            keep_recent_count=keep_recent_count,
            preview_chars=preview_chars,
            compact_ratio_threshold=compact_ratio_threshold,
            summary_role=summary_role,
            encoding=encoding,
        )
        if chat_id is not None:
            check_chat_id(chat_id)
        self.chat_id: str = chat_id or uuid4().hex
        self._store = _store(store_dir, artifacts, self.chat_id)
        self._counter = token_counter(encoding)
        summaries = GroupSummarizer(summarizer, encoding)
        self._compaction = Compaction(self.parameters, self._store, self._counter)
        self._compression = Compression(self.parameters, self._store, summaries, self._counter)
        self._settled: str | None = None

    async def run(self, messages: Sequence[dict[str, Any]]) -> OffloadResult:
        """The messages with fewer tokens, and what was done. Those given are never changed.

        What cannot be stored or summarized stays as it was. The same messages again give the same
        files; a run over what the op itself returned last changes nothing, unless something failed.
        Raises InvalidArgument, which names the position of a message that is none.
        """
        given = checked_messages(messages)
        hashed, history = await asyncio.to_thread(self._read, given)
        if hashed == self._settled:
            return self._result(
                history, Outcome(history, [kept("compact", history, "already_offloaded")], [])
            )
        result = self._result(history, await self._outcome(history))
        if _is_settled(result):
            self._settled = await asyncio.to_thread(_hash, list(result.messages))
        return result

    async def load(self, reference: str) -> str:
        """An original by the reference that a message shows: the text of a tool message, or the
        messages of a group as JSON.

        Raises ArtifactNotFound, also for references of other chats, ArtifactDamaged.
        """
        if self._store is None:
            raise ArtifactNotFound(f"there is no store that could hold {shown(reference)}")
        return await self._store.load(reference)

    async def files(self) -> tuple[StoredFile, ...]:
        """All originals of the chat, oldest first. Raises ArtifactStoreUnavailable."""
        return await self._store.files() if self._store else ()

    def _read(self, messages: list[dict[str, Any]]) -> tuple[str, list[Sized]]:
        return _hash(messages), sized(messages, self._counter)

    async def _outcome(self, history: list[Sized]) -> Outcome:
        mode = self.parameters.context_manage_mode
        if mode == "compress":
            return await self._compression.run(history)
        compacted = await self._compaction.run(history)
        if mode == "compact":
            return compacted
        ratio = request_tokens(compacted.history) / request_tokens(history)
        if ratio <= self.parameters.compact_ratio_threshold:
            compacted.actions.append(kept("compress", compacted.history, "compaction_sufficed"))
            return compacted
        compressed = await self._compression.run(compacted.history)
        return Outcome(
            compressed.history,
            compacted.actions + compressed.actions,
            compacted.files + compressed.files,
        )

    def _result(self, history: Sequence[Sized], outcome: Outcome) -> OffloadResult:
        return OffloadResult(
            messages=tuple(one.message for one in outcome.history),
            files=tuple({file.reference: file for file in outcome.files}.values()),
            tokens_before=request_tokens(history),
            tokens_after=request_tokens(outcome.history),
            chat_id=self.chat_id,
            actions=tuple(outcome.actions),
            changed=any(action.done != "kept" for action in outcome.actions),
        )


def _store(
    store_dir: str | os.PathLike[str] | None, artifacts: ArtifactLister | None, chat_id: str
) -> OffloadStore | None:
    if artifacts is not None:
        if store_dir is not None:
            raise InvalidArgument(
                f"store_dir={shown(store_dir)} and artifacts={shown(artifacts)}; one place is"
                " allowed"
            )
        return ArtifactOffloads(artifacts, chat_id)
    return None if store_dir is None else FileOffloads(store_dir, chat_id)


def _is_settled(result: OffloadResult) -> bool:
    """Whether another run would only do the same work again."""
    tried = any(action.reason == "no_gain" for action in result.actions)
    return (result.changed or tried) and not result.failures


def _hash(messages: list[dict[str, Any]]) -> str:
    return hashlib.sha256(stored_json.dumps(messages).encode()).hexdigest()
