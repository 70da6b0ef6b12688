"""What the one read before a model call returns: everything of a branch that a prompt may need."""

import asyncio
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg

from durable_context import stored_json
from durable_context.artifacts.contents import decoded, unpack
from durable_context.artifacts.offloading import whole_again
from durable_context.calibration import Learned
from durable_context.database import Pool, acquired
from durable_context.errors import InvalidArgument, UnknownBranch
from durable_context.models import LedgerKind, Message
from durable_context.policy import CompactionPolicy
from durable_context.prompts.query import read_prompt
from durable_context.prompts.ranking_query import BOUNDS
from durable_context.prompts.retrieved import Retrieved, read_retrieved
from durable_context.search_queries import NOTHING, SearchQuery
from durable_context.tokens import token_counter
from durable_context.turns.ledger import ledger_line
from durable_context.turns.sendable import sendable
from durable_context.turns.views import without_idle_reasoning

THREAD_TURNS = 1_000
"""With more turns since the checkpoint, a prompt is made in a thread."""

Texts = dict[tuple[int, int], dict[int | None, str]]
"""Offloaded texts by turn and message, then by part; None stands for the whole message."""


class View(NamedTuple):
    """The short form of a message, with its tokens."""

    message: Message
    tokens: int


class Fact(NamedTuple):
    """A ledger entry with the tokens of its line."""

    kind: LedgerKind
    value: str
    tokens: int
    mentions: int


@dataclass(frozen=True)
class TailTurn:
    """A turn after the checkpoint. Only raw turns carry messages; `views` is keyed by position.

    `ledger` are the facts as they are stored, which raw turns seldom need as `facts`.
    """

    turn_no: int
    digest: str
    digest_tokens: int
    ledger: Sequence[dict[str, Any]]
    encoding: str
    messages: tuple[Message, ...]
    message_tokens: tuple[int, ...]
    views: dict[int, View]
    raw: bool

    @cached_property
    def facts(self) -> tuple[Fact, ...]:
        return tuple(_fact(fact, self.encoding) for fact in self.ledger)


class PinnedTurn(NamedTuple):
    """What of a turn is pinned: all of it, `facts` of its ledger by kind and value, or both.

    `turn` is there where all of it is and the tail does not have its messages.
    """

    turn_no: int
    day: str
    whole: bool
    facts: tuple[tuple[LedgerKind, str], ...]
    turn: TailTurn | None


class StoredCheckpoint(NamedTuple):
    checkpoint_id: str
    turn_no: int
    text: str
    token_count: int
    sections: list[dict[str, Any]]


class PromptState(NamedTuple):
    """A branch as a prompt sees it. `retrieved` is ranked, best first; `terms` weighs what was
    asked for. `calibration` is what is known of the budget's model.
    """

    branch_uuid: UUID
    head_turn: int
    open_run_turn: int | None
    encoding: str
    checkpoint: StoredCheckpoint | None
    tail: tuple[TailTurn, ...]
    run_start: tuple[tuple[Message, int], ...]
    retrieved: tuple[Retrieved, ...]
    terms: dict[str, float]
    calibration: tuple[Learned, ...] = ()
    pinned: tuple[PinnedTurn, ...] = ()


class Search(NamedTuple):
    """What is searched for: a query, None for the open run's own terms, and its vector if any."""

    query: SearchQuery | None
    vector: Sequence[float] | None = None

    @property
    def asks(self) -> bool:
        return self.query != NOTHING

    def arguments(self) -> list[Any]:
        if self.query is None:
            return [None, [], [], 1.0]
        query = self.query
        return [query.text, list(query.terms), list(query.weights), query.context_weight]


async def read_prompt_state(
    pool: Pool,
    tenant: str,
    branch_uuid: UUID,
    search: Search,
    policy: CompactionPolicy,
    at_turn: int | None = None,
    model: str | None = None,
) -> PromptState:
    """One statement, which writes nothing.

    `at_turn`: the branch as a fork made there would be. `model`: whose tokens are to be counted.
    Raises UnknownBranch, InvalidArgument.
    """
    row = await _read(pool, tenant, branch_uuid, search, policy, at_turn, model)
    if row is None:
        raise UnknownBranch(f"there is no branch {branch_uuid} for tenant {tenant!r}")
    if row["head_turn"] > row["newest_turn"]:
        raise InvalidArgument(f"at_turn={at_turn}; allowed are 0 to {row['newest_turn']}")
    state = partial(_state, branch_uuid, row, model)
    long = row["head_turn"] - (row["checkpoint_turn"] or 0) > THREAD_TURNS
    return await asyncio.to_thread(state) if long else state()


def _state(branch_uuid: UUID, row: asyncpg.Record, model: str | None) -> PromptState:
    return PromptState(
        branch_uuid=branch_uuid,
        head_turn=row["head_turn"],
        open_run_turn=row["open_run_turn"],
        encoding=row["encoding"],
        checkpoint=_checkpoint(row),
        tail=_tail(row["tail"], row["whole"], row["encoding"]),
        run_start=_run_start(row["run_start"]),
        retrieved=read_retrieved(row["nodes"], row["artifacts"]),
        terms=dict(_list(row["terms"])),
        calibration=tuple(Learned(*known) for known in _list(row["calibration"])) if model else (),
        pinned=tuple(_pinned(row["encoding"], *fields) for fields in _list(row["pinned"])),
    )


async def _read(
    pool: Pool,
    tenant: str,
    branch_uuid: UUID,
    search: Search,
    policy: CompactionPolicy,
    at_turn: int | None,
    model: str | None,
) -> asyncpg.Record | None:
    searches = bool(policy.retrieved_blocks and policy.retrieved_tokens and search.asks)
    first = policy.segment_turns + policy.keep_raw_turns
    arguments: list[Any] = [tenant, branch_uuid, policy.keep_raw_turns, first]
    arguments += [policy.run_raw_tokens, policy.raw_result_tokens]
    if searches:
        arguments += [*search.arguments(), policy.retrieved_blocks]
    similar = searches and search.vector is not None
    arguments += [search.vector] if similar else []
    arguments += [each for each in (at_turn, model) if each is not None]
    statement = read_prompt(
        BOUNDS if searches else None,
        similar=similar,
        at_turn=at_turn is not None,
        model=model is not None,
    )
    async with acquired(pool) as connection:
        return await connection.fetchrow(statement, *arguments)


def _list(text: str | None) -> list[Any]:
    return stored_json.loads(text) if text else []


def _checkpoint(row: asyncpg.Record) -> StoredCheckpoint | None:
    if row["checkpoint_id"] is None:
        return None
    return StoredCheckpoint(
        str(row["checkpoint_id"]),
        row["checkpoint_turn"],
        row["text"],
        row["token_count"],
        stored_json.loads(row["sections"]),
    )


def _messages(fields: list[dict[str, Any]] | None) -> tuple[Message, ...]:
    return tuple(sendable(stored_json.load_message(field)) for field in fields or ())


def _tail(
    text: str | None,
    whole: list[tuple[int, int, int | None, str, int, bytes, bytes]] | None,
    encoding: str,
) -> tuple[TailTurn, ...]:
    """The turns, with offloaded messages whole again where their content came along."""
    contents: Texts = {}
    for turn_no, message_no, part_no, compression, size, sha256, data in whole or ():
        texts = contents.setdefault((turn_no, message_no), {})
        texts[part_no] = decoded(unpack(compression, data, size, sha256))
    return tuple(_tail_turn(contents, encoding, *fields) for fields in _list(text))


def _tail_turn(
    contents: Texts,
    encoding: str,
    turn_no: int,
    digest: str,
    digest_tokens: int,
    ledger: list[dict[str, Any]],
    messages: list[dict[str, Any]] | None,
    message_tokens: list[int] | None,
    views: dict[str, dict[str, Any]] | None,
) -> TailTurn:
    stored = [stored_json.load_message(field) for field in messages or ()]
    short = {int(n): _view(stored[int(n)], view) for n, view in (views or {}).items() if stored}
    return TailTurn(
        turn_no,
        digest,
        digest_tokens,
        ledger,
        encoding,
        tuple(
            sendable(whole_again(message, contents.get((turn_no, position), {})))
            for position, message in enumerate(stored)
        ),
        tuple(message_tokens or ()),
        short,
        messages is not None,
    )


def _pinned(
    encoding: str,
    turn_no: int,
    day: str,
    whole: bool,
    facts: list[tuple[LedgerKind, str]] | None,
    messages: list[dict[str, Any]] | None,
    message_tokens: list[int] | None,
    views: dict[str, dict[str, Any]] | None,
    offloaded: list[tuple[int, int | None, str, int, str, str]] | None,
) -> PinnedTurn:
    turn = None
    if messages is not None:
        texts: Texts = {}
        for message_no, part_no, compression, size, sha256, data in offloaded or ():
            content = unpack(compression, b64decode(data), size, bytes.fromhex(sha256))
            texts.setdefault((turn_no, message_no), {})[part_no] = decoded(content)
        turn = _tail_turn(texts, encoding, turn_no, "", 0, [], messages, message_tokens, views)
    return PinnedTurn(
        turn_no, day, whole, tuple((kind, value) for kind, value in facts or ()), turn
    )


def _fact(fact: dict[str, Any], encoding: str) -> Fact:
    """Rows of older versions counted a longer line."""
    kind, value, tokens = fact["kind"], fact["value"], fact.get("line_tokens")
    if tokens is None:
        tokens = token_counter(encoding).count(ledger_line(kind, value))
    return Fact(kind, value, tokens, fact.get("mentions", 1))


def _view(stored: Message, view: dict[str, Any]) -> View:
    """An offloaded message is stored as its view, others have one beside them."""
    if "message" in view:
        return View(stored_json.load_message(view["message"]), view["tokens"])
    return View(without_idle_reasoning(sendable(stored)), view["tokens"])


def _run_start(text: str | None) -> tuple[tuple[Message, int], ...]:
    if text is None:
        return ()
    messages, tokens = stored_json.loads(text)
    return tuple(zip(_messages(messages), tokens, strict=True))
