"""What prepare() takes and returns: the budget, the prompt with its manifest, or why none fits."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, PrivateAttr, field_validator

from durable_context import stored_json
from durable_context.artifacts.media import loaded_part
from durable_context.errors import InvalidArgument
from durable_context.model_tokens import LONGEST_NAME, is_model_name
from durable_context.models import Reasoning, Value
from durable_context.prompts.manifest import Block, Manifest
from durable_context.providers.outgoing.anthropic import to_anthropic
from durable_context.providers.outgoing.gemini import to_gemini
from durable_context.providers.outgoing.responses import to_responses_input

if TYPE_CHECKING:
    from durable_context.processors.context import Context


class Budget(Value):
    """The limit a prompt must keep: `max_tokens` less `reserve_output`.

    They are tokens of `model`, whose name decides how they are counted; without one, of the
    branch's encoding. `instructions` becomes the system message; `tools` are tool definitions in
    OpenAI's form: they are counted, and only `to_anthropic` and `to_gemini` send them.
    """

    max_tokens: int = Field(ge=1)
    reserve_output: int = Field(default=0, ge=0)
    instructions: str | None = None
    tools: Sequence[dict[str, Any]] = ()
    model: str | None = None

    @field_validator("model")
    @classmethod
    def _model(cls, model: str | None) -> str | None:
        if model is not None and not is_model_name(model):
            raise InvalidArgument(
                f"model={model!r:.80}; allowed are the names of models, of 1 to {LONGEST_NAME}"
                " printable characters"
            )
        return model

    @field_validator("tools", mode="before")
    @classmethod
    def _tools(cls, tools: Any) -> Any:
        stored_json.check_json(list(tools or ()), "tools")
        return tuple(tools or ())

    @property
    def limit(self) -> int:
        """Tokens the prompt may have. Below 1 no prompt fits."""
        return self.max_tokens - self.reserve_output

    def parts(self) -> str:
        """Instructions and tools as canonical JSON: the same parts give the same text."""
        fields = {"instructions": self.instructions, "tools": list(self.tools)}
        return json.dumps(fields, sort_keys=True, separators=(",", ":"))


class PartReference(Value):
    """A text part of a prompt that stands for an image, sound or file: `part` of `message`, both
    from 0. `stored` is what the branch keeps of it.
    """

    message: int
    part: int
    handle: str
    media_type: str
    token_count: int
    stored: dict[str, Any]


class ReasoningReference(Value):
    """Reasoning that belongs to a raw message of a prompt: `message` from 0."""

    message: int
    blocks: tuple[Reasoning, ...]


class Breakpoint(Value):
    """The end of a stable block: `message` from 0. Where the message holds more than that, `cuts`
    are the characters at which its pieces end that the next prompt repeats.
    """

    message: int
    cuts: tuple[int, ...] = ()


class PartLoader:
    """Reads contents by handle."""

    def __init__(self, load: Callable[[Sequence[str]], Awaitable[Mapping[str, bytes]]]) -> None:
        self.load = load


class PreparedContext(Value):
    """A whole request in OpenAI chat format, within its budget.

    `token_count` is in tokens of the budget's model, exact or estimated as the manifest's
    `token_factor` says. It holds also after `load_parts`: it counts what `parts` refer to.
    `breakpoints` are where stable blocks end, first to last: providers that cache prefixes are told
    to do so there. `reasoning` is what providers want back with their own messages; it is in no
    other format.
    """

    messages: tuple[dict[str, Any], ...]
    manifest: Manifest
    token_count: int
    budget: Budget
    parts: tuple[PartReference, ...] = ()
    reasoning: tuple[ReasoningReference, ...] = ()
    breakpoints: tuple[Breakpoint, ...] = ()
    _loader: PartLoader | None = PrivateAttr(default=None)
    _beside_chat: dict[int, dict[str, Any]] = PrivateAttr(default_factory=dict[int, dict[str, Any]])
    """Messages with media that chat takes from users alone, as the other formats render them."""
    _context: "Context | None" = PrivateAttr(default=None)

    @property
    def context(self) -> "Context | None":
        """The context that the pipeline was fired over, with what it offloaded."""
        return self._context

    async def load_parts(self) -> Self:
        """The same prompt with images, sounds and files in place of the references to them.

        OpenAI's chat API takes them from users alone: in `messages` those of tools and assistants
        stay references, in the other formats they are whole.

        Reads the artifact store: one round trip, and one more for each large content. Raises
        ArtifactNotFound, ArtifactDamaged, ArtifactStoreUnavailable.
        """
        if not self.parts:
            return self
        if self._loader is None:
            raise InvalidArgument(
                "only a prompt that prepare() returned in this process can load its parts"
            )
        contents = await self._loader.load([part.handle for part in self.parts])
        messages, beside = list(self.messages), dict(self._beside_chat)
        for part in self.parts:
            message = beside.get(part.message, messages[part.message])
            content: list[Any] = list(message["content"])
            content[part.part] = loaded_part(part.stored, contents[part.handle])
            if message["role"] == "user":
                messages[part.message] = message | {"content": content}
            else:
                beside[part.message] = message | {"content": content}
        return self.model_copy(update={"messages": tuple(messages), "parts": ()}).with_media(beside)

    def with_media(self, messages: Mapping[int, dict[str, Any]]) -> Self:
        """The same prompt with these messages, by position, in all formats but chat."""
        copy = self.model_copy()
        copy._beside_chat = dict(messages)
        return copy

    def with_context(self, context: "Context") -> Self:
        """The same prompt, with the context of the pipeline that it went through."""
        copy = self.model_copy()
        copy._context = context
        return copy

    def moved_media(self, places: Mapping[int | None, int]) -> Self:
        """The same prompt, for messages that stand elsewhere now; those not named have none."""
        media = {places[n]: said for n, said in self._beside_chat.items() if n in places}
        return self.with_media(media)

    def to_responses_input(self) -> list[dict[str, Any]]:
        """The prompt as `input` of OpenAI's Responses API; the instructions are its first item.

        Images and files are in it after `load_parts()`; what the API does not take, and any part
        before, is a line of text that says so. This holds for the other formats too.
        """
        return to_responses_input(self._whole_messages, blocks=self._blocks)

    def to_anthropic(self) -> dict[str, Any]:
        """The prompt for `anthropic.messages.create(model=, max_tokens=, **prompt.to_anthropic())`.

        `tools` are there when the budget has them. Where the prompt begins or ends with the
        assistant, a user's "(start)" or "(go on)" stands beside it. Stable blocks end in a mark for
        the cache.
        """
        breakpoints = {one.message: one.cuts for one in self.breakpoints}
        return to_anthropic(
            self._whole_messages,
            tools=self.budget.tools,
            blocks=self._blocks,
            breakpoints=breakpoints,
        )

    def to_gemini(self) -> dict[str, Any]:
        """The prompt for `client.aio.models.generate_content(model=, **prompt.to_gemini())`.

        Begins and ends as for Anthropic. Data in it is bytes, as the google-genai package has it.
        """
        return to_gemini(self._whole_messages, tools=self.budget.tools, blocks=self._blocks)

    @property
    def _whole_messages(self) -> list[dict[str, Any]]:
        return [self._beside_chat.get(n, message) for n, message in enumerate(self.messages)]

    @property
    def _blocks(self) -> dict[int, tuple[Reasoning, ...]]:
        return {one.message: one.blocks for one in self.reasoning}

    def loading_with(self, loader: PartLoader) -> Self:
        """The same prompt, able to load its parts."""
        copy = self.model_copy()
        copy._loader = loader
        return copy

    def __eq__(self, other: object) -> bool:
        """Prompts are compared by what they say, not by who can load their parts."""
        return isinstance(other, PreparedContext) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return True


class BudgetExceeded(Value):
    """No prompt fits. The same stored state and input give an equal object. It is false.

    `required` is the size of the full prompt, `smallest` that of the smallest that could be built,
    whose parts `blocks` lists. A budget with a limit of `smallest` would do. These three are in
    tokens of the budget's model, the blocks in the branch's encoding, `token_factor` apart.
    """

    limit: int
    required: int
    smallest: int
    blocks: tuple[Block, ...]
    token_factor: float = 1.0

    def __bool__(self) -> bool:
        return False
