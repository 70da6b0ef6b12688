"""An offload of messages that a branch keeps as an artifact: nothing that was said leaves
PostgreSQL, and whoever tries again finds what is done.
"""

import hashlib
from contextlib import suppress
from typing import NamedTuple
from uuid import UUID

from pydantic import ValidationError

from durable_context import stored_json
from durable_context.artifacts.contents import ContentStore
from durable_context.artifacts.kept_once import keep_once, load_kept, versions
from durable_context.artifacts.reading import ArtifactContent
from durable_context.artifacts.store import ArtifactStore
from durable_context.branch_store import BranchStore
from durable_context.contracts import OffloadedMessages, OffloadRequest
from durable_context.database import Pool
from durable_context.errors import InvalidArgument
from durable_context.ids import check_ids
from durable_context.models import Artifact
from durable_context.offload.op import ContextOffloadOp
from durable_context.offload.result import OffloadResult
from durable_context.offload.stores import folder_of
from durable_context.summarizers import Summarizer
from durable_context.tokens import TokenCounter, token_counter

_JSON = "application/json"


class BranchArtifacts(NamedTuple):
    """A branch's artifacts, for whoever has no `Branch` of it."""

    store: ArtifactStore
    branch_uuid: UUID
    counter: TokenCounter

    async def put_artifact(
        self, content: str | bytes, *, name: str, media_type: str | None = None
    ) -> Artifact:
        return await self.store.put(
            self.branch_uuid, content, name=name, media_type=media_type, counter=self.counter
        )

    async def load_artifact(self, handle: str) -> ArtifactContent:
        return await self.store.load(self.branch_uuid, handle)

    async def artifact_history(self, name: str) -> tuple[Artifact, ...]:
        return await self.store.history(self.branch_uuid, name)

    async def artifacts(self) -> tuple[Artifact, ...]:
        return await self.store.list(self.branch_uuid)


class DurableOffload:
    """Offloads for branches of any tenant. Where `summarizer` fails messages stay as they are."""

    def __init__(
        self, pool: Pool, summarizer: Summarizer, *, contents: ContentStore | None = None
    ) -> None:
        self._pool = pool
        self._summarizer = summarizer
        self._contents = contents or ContentStore()

    async def run(self, request: OffloadRequest) -> OffloadedMessages:
        """The same request for the same messages has the same answer, and is carried out once;
        several at the same time may do the same work, and all get one answer.

        Raises InvalidArgument, UnknownBranch, ArtifactNotFound, ArtifactDamaged,
        ArtifactStoreUnavailable.
        """
        artifacts = await self._artifacts(request)
        chat_id = request.chat_id or str(request.branch_uuid)
        op = ContextOffloadOp(
            **request.parameters.model_dump(),
            chat_id=chat_id,
            summarizer=self._summarizer,
            artifacts=artifacts,
        )
        given = (await artifacts.load_artifact(request.messages)).artifact
        answers = _Answers(artifacts, request, chat_id, self._summarizer.recipe)
        found = await answers.find(given.sha256)
        if found is not None:
            return found
        result = await op.run(_messages(await load_kept(artifacts, given), request.messages))
        return await answers.keep(given, result)

    async def _artifacts(self, request: OffloadRequest) -> BranchArtifacts:
        check_ids(tenant=request.tenant)
        figures = await BranchStore(self._pool, request.tenant).head(request.branch_uuid)
        store = ArtifactStore(self._pool, request.tenant, self._contents)
        return BranchArtifacts(store, request.branch_uuid, token_counter(figures.encoding))


class _Answers:
    """Answers by what was asked: chat, parameters, summarizer and messages."""

    def __init__(
        self, artifacts: BranchArtifacts, request: OffloadRequest, chat_id: str, recipe: str
    ) -> None:
        self._artifacts = artifacts
        self._asked = f"{request.parameters.model_dump_json()}\0{recipe}"
        self._folder = f"offloaded/{folder_of(chat_id)}"

    async def find(self, sha256: str) -> OffloadedMessages | None:
        """The first, where several at once gave one each."""
        for kept in reversed(await versions(self._artifacts, self._name(sha256))):
            with suppress(ValidationError):  # some other artifact may have that name
                return OffloadedMessages.model_validate_json(await load_kept(self._artifacts, kept))
        return None

    async def keep(self, given: Artifact, result: OffloadResult) -> OffloadedMessages:
        artifact = given
        if result.changed:
            text = stored_json.dumps(list(result.messages))
            name = f"{self._folder}/{hashlib.sha256(text.encode()).hexdigest()}.json"
            artifact = await keep_once(self._artifacts, name, text, media_type=_JSON)
        answer = _answer(artifact.handle, result)
        if answer.failed:  # another run may do what this one could not
            return answer
        await self._keep(artifact.sha256, _settled(answer))
        return await self._keep(given.sha256, answer)

    async def _keep(self, sha256: str, answer: OffloadedMessages) -> OffloadedMessages:
        """What all who ask at the same time get."""
        found = await self.find(sha256)
        if found is not None:
            return found
        text = answer.model_dump_json()
        await self._artifacts.put_artifact(text, name=self._name(sha256), media_type=_JSON)
        return await self.find(sha256) or answer

    def _name(self, sha256: str) -> str:
        asked = hashlib.sha256(f"{self._asked}\0{sha256}".encode()).hexdigest()
        return f"{self._folder}/answer-{asked}.json"


def _messages(text: str, handle: str) -> list[dict[str, object]]:
    try:
        return stored_json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"artifact {handle} holds no JSON: it must be messages") from error


def _answer(handle: str, result: OffloadResult) -> OffloadedMessages:
    return OffloadedMessages(
        messages=handle,
        tokens_before=result.tokens_before,
        tokens_after=result.tokens_after,
        compacted=sum(action.done == "compacted" for action in result.actions),
        compressed=sum(action.done == "compressed" for action in result.actions),
        failed=len(result.failures),
        changed=result.changed,
    )


def _settled(answer: OffloadedMessages) -> OffloadedMessages:
    """Of the messages that a run left."""
    return answer.model_copy(
        update={
            "tokens_before": answer.tokens_after,
            "compacted": 0,
            "compressed": 0,
            "changed": False,
        }
    )
