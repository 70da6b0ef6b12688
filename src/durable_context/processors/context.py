"""What processors work on: a task's state and configuration, in memory, that can be forked, merged
and snapshotted.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from durable_context.arguments import LARGEST
from durable_context.errors import CheckpointError, ContextError
from durable_context.processors.checkpoints import Checkpoint, CheckpointStore
from durable_context.processors.config import ContextConfig
from durable_context.processors.copying import copied
from durable_context.processors.history import HISTORY
from durable_context.processors.merging import Unmerged, merge_entries
from durable_context.processors.state import ContextState
from durable_context.processors.token_usage import check_usage
from durable_context.showing import shown
from durable_context.turns.sendable import sendable, to_openai

if TYPE_CHECKING:
    from durable_context.branch import Branch


class Context:
    """A task's state, configuration and token usage.

    `config` is the parent's where none is given. With `parent` and no `state` it is a fork that the
    parent does not list. Raises ContextError.

    Data in its state are containers, scalars, dataclass instances and pydantic models: forks,
    snapshots and merges copy them. All else is a service handle, which they share.
    """

    def __init__(
        self,
        task_id: str,
        *,
        config: ContextConfig | None = None,
        parent: "Context | None" = None,
        state: ContextState | None = None,
    ) -> None:
        if not isinstance(task_id, str) or not task_id:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ContextError("task_id is required and must be non-empty")
        _check("config", config, ContextConfig)
        _check("parent", parent, Context)
        _check("state", state, ContextState)
        self._task_id = task_id
        self._config = config or (parent.config if parent else ContextConfig())
        self._parent = parent
        self._branch = parent.branch if parent else None
        self._recording = False
        self._children: list[Context] = []
        self._token_usage: dict[str, int] = {}
        self._checkpoints = CheckpointStore(task_id)
        inherited = parent.state.to_dict() if parent is not None and state is None else {}
        self._state = _inheriting(inherited) if state is None else state
        self._unmerged = Unmerged(inherited, {})

    @classmethod
    def over(
        cls,
        branch: "Branch",
        history: Sequence[Any],
        *,
        config: ContextConfig | None = None,
        recording: bool = False,
    ) -> "Context":
        """A context over a durable branch with this history. `recording`: what is offloaded in it
        is recorded with a turn, and not before.
        """
        state = ContextState({HISTORY: list(history)})
        context = cls(str(branch.branch_uuid), config=config, state=state)
        context._branch = branch
        context._recording = recording
        return context

    @classmethod
    async def from_branch(
        cls, branch: "Branch", *, config: ContextConfig | None = None
    ) -> "Context":
        """A context over a durable branch: `state["history"]` holds the messages of the branch's
        newest `config.history_rounds` turns in OpenAI chat format, as they are stored now: what was
        offloaded is a view. Its task id is the branch's, which scopes handles. Raises ContextError.
        """
        context = cls(str(_checked_branch(branch).branch_uuid), config=config)
        context._branch = branch
        turns = await branch.newest_turns(min(context.config.history_rounds, LARGEST))
        context.state[HISTORY] = [
            to_openai(sendable(message)) for turn in turns for message in turn.messages
        ]
        return context

    @property
    def task_id(self) -> str:
        return self._task_id

    @property
    def config(self) -> ContextConfig:
        return self._config

    @property
    def parent(self) -> "Context | None":
        return self._parent

    @property
    def state(self) -> ContextState:
        return self._state

    @property
    def branch(self) -> "Branch | None":
        """The durable branch it was made from, or its parent was."""
        return self._branch

    @property
    def recording(self) -> bool:
        """Whether the state is recorded with a turn of the branch: what is offloaded then is kept
        with that turn, wherever else it would be.
        """
        return self._recording

    @property
    def children(self) -> "list[Context]":
        return list(self._children)

    @property
    def token_usage(self) -> dict[str, int]:
        return dict(self._token_usage)

    @property
    def checkpoints(self) -> CheckpointStore:
        return self._checkpoints

    def add_tokens(self, usage: Mapping[str, int]) -> None:
        """Add to the counts by key. Raises ContextError unless all are whole and not negative."""
        check_usage(usage)
        for key, count in usage.items():
            self._token_usage[key] = self._token_usage.get(key, 0) + count

    def fork(self, task_id: str) -> "Context":
        """A child that sees this context as it is now and never changes it.

        The data it inherits are deep copies; service handles are shared.
        """
        child = Context(task_id, parent=self)
        child.add_tokens(self._token_usage)
        child._unmerged.take_tokens(self._token_usage)
        self._children.append(child)
        return child

    def merge(self, child: "Context") -> None:
        """Take over what a child wrote or changed since it was forked, or merged last, and add the
        tokens it used since.

        What it changed replaces what is here, in deep copies, also what was changed here meanwhile;
        what it left as it was replaces nothing. Originals that were offloaded, here or there, are
        never lost. Raises ContextError unless it is a child of this context.
        """
        if not isinstance(child, Context) or child.parent is not self:  # pyright: ignore[reportUnnecessaryIsInstance]
            named = child.task_id if isinstance(child, Context) else child  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ContextError(f"Context {shown(named)} is not a child of {self._task_id!r}")
        merge_entries(self._state, child._unmerged.take_entries(child.state))
        self.add_tokens(child._unmerged.take_tokens(child.token_usage))

    def snapshot(self, *, metadata: Mapping[str, Any] | None = None) -> Checkpoint:
        """Keep the state as it is now, inherited entries included, in `checkpoints`."""
        return self._checkpoints.save(self._state.to_dict(), self._token_usage, metadata=metadata)

    @classmethod
    def restore(
        cls,
        checkpoint: Checkpoint,
        *,
        config: ContextConfig | None = None,
        branch: "Branch | None" = None,
    ) -> "Context":
        """A new context with the state of a checkpoint. No other context changes.

        Raises CheckpointError.
        """
        if not isinstance(checkpoint, Checkpoint):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise CheckpointError(f"Expected Checkpoint, got {type(checkpoint).__name__}")
        context = cls(checkpoint.task_id, config=config, state=ContextState(checkpoint.values))
        context._token_usage = checkpoint.token_usage
        context._branch = None if branch is None else _checked_branch(branch)
        return context

    def __repr__(self) -> str:
        parts = [f"task_id={self._task_id!r}"]
        if self._parent is not None:
            parts.append(f"parent={self._parent.task_id!r}")
        if self._children:
            parts.append(f"children={len(self._children)}")
        return f"Context({', '.join(parts)})"


def _inheriting(entries: dict[str, Any]) -> ContextState:
    """A state without entries of its own over a deep copy of these."""
    return ContextState(parent=ContextState(copied(entries))) if entries else ContextState()


def _checked_branch(branch: "Branch") -> "Branch":
    if not isinstance(getattr(branch, "branch_uuid", None), UUID):
        raise ContextError(f"branch={shown(branch)}; it must be a Branch")
    return branch


def _check(name: str, value: object, allowed: type) -> None:
    if value is not None and not isinstance(value, allowed):
        raise ContextError(f"{name}={shown(value)}; it must be a {allowed.__name__} or None")
