"""Everything a turn row holds, computed once from its messages: what prepare() reads later."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any, NamedTuple

from durable_context import stored_json
from durable_context.artifacts.offloading import (
    Offloaded,
    Original,
    dump_artifacts,
    offload_all,
)
from durable_context.models import LedgerEntry, Message, Outcome
from durable_context.policy import CompactionPolicy
from durable_context.redaction import redact
from durable_context.search_terms import (
    SEARCHED_CHARACTERS,
    SearchText,
    message_search_text,
)
from durable_context.text import clean, message_text
from durable_context.tokens import TokenCounter, reasoning_tokens
from durable_context.turns.digest import digest_of
from durable_context.turns.ledger import ledger_line, ledger_of
from durable_context.turns.messages import characters
from durable_context.turns.sendable import sendable
from durable_context.turns.views import view_of, without_idle_reasoning

SEARCHED_PER_TURN = 100_000
LEAST_SEARCHED = 500
"""Characters of a turn that are indexed, and of each message if there are very many."""
READ_CHARACTERS = 200_000
"""Of a larger message only beginning and end are read for digest and ledger."""


class TurnRow(NamedTuple):
    """Arguments of durable_context.record_turn that come from the messages alone."""

    content_hash: bytes
    messages: str
    message_tokens: list[int]
    views: str | None
    token_count: int
    stored_tokens: int
    raw_tokens: int
    digest: str
    digest_tokens: int
    ledger: str
    entries: tuple[LedgerEntry, ...]
    search_texts: list[str]
    search_terms: list[str]
    speakers: str
    begins_run: bool
    artifacts: str | None
    stored: tuple[Message, ...]
    contents: tuple[bytes, ...]


def turn_row(
    messages: Sequence[Message],
    *,
    outcome: Outcome,
    continues: bool,
    occurred_at: datetime | None,
    policy: CompactionPolicy,
    counter: TokenCounter,
    originals: Sequence[Original] = (),
) -> TurnRow:
    """CPU only. About 0.5 ms for a 1 KB turn. `originals`: what processors offloaded of it."""
    text = stored_json.dump_messages(messages)
    offloaded = offload_all(
        messages,
        continues=continues,
        policy=policy,
        counter=counter,
        processed={original.position for original in originals},
    )
    artifacts = [artifact for one in offloaded for artifact in one.artifacts]
    artifacts += [original.artifact(counter) for original in originals]
    stored = tuple(one.message for one in offloaded)
    tokens = [one.tokens for one in offloaded]
    views = _views(offloaded, policy, counter)
    redacted = [_redacted(one.whole) for one in offloaded]
    digest = f" {_dated(occurred_at)}" + clean(
        digest_of(
            redacted,
            outcome=outcome,
            continues=continues,
            max_tokens=policy.digest_tokens,
            counter=counter,
        )
    )
    day = occurred_at.date() if occurred_at else None
    searched = _searched(
        [
            _redacted(sendable(one.message)) if one.artifacts else whole
            for one, whole in zip(offloaded, redacted, strict=True)
        ],
        day,
    )
    entries = (*ledger_of(redacted), *(artifact.ledger_entry() for artifact in artifacts))
    return TurnRow(
        content_hash=content_hash(text, outcome, continues),
        messages=stored_json.dump_messages(stored) if artifacts else text,
        message_tokens=tokens,
        views=stored_json.dumps(views) if views else None,
        token_count=sum(tokens),
        stored_tokens=sum(one.stored_tokens for one in offloaded),
        raw_tokens=sum(
            shown_raw(one.message, one.tokens, views.get(str(position)), policy)
            for position, one in enumerate(offloaded)
        ),
        digest=f"{digest}\n",
        digest_tokens=counter.count(f"{digest}\n"),
        ledger=stored_json.dumps(
            [
                entry.model_dump(exclude_defaults=True)
                | {"line_tokens": counter.count(ledger_line(entry.kind, entry.value))}
                for entry in entries
            ]
        ),
        entries=entries,
        search_texts=[each.text for each in searched],
        search_terms=["\n".join(each.terms) for each in searched],
        speakers=" ".join(sorted({name for each in searched for name in each.speakers})),
        begins_run=messages[0].role == "user",
        artifacts=dump_artifacts(artifacts),
        stored=stored,
        contents=tuple(artifact.content for artifact in artifacts),
    )


def _redacted(message: Message) -> Message:
    """The message without its secrets: digests and ledgers outlive the turn's raw days."""
    content = message.content
    if not isinstance(content, str):
        content = message_text(message) or None
    if content is not None and len(content) > READ_CHARACTERS:
        half = READ_CHARACTERS // 2
        content = f"{content[:half]}\n{content[-half:]}"
    calls = tuple(
        call.model_copy(update={"arguments": redact(call.arguments)}) for call in message.tool_calls
    )
    text = content if content is None else redact(content)
    return message.model_copy(update={"content": text, "tool_calls": calls})


def content_hash(messages: str, outcome: Outcome, continues: bool) -> bytes:
    """Tells a repeated turn from another one with the same key."""
    return hashlib.sha256(f"{outcome}|{continues}|{messages}".encode()).digest()


def shown_raw(
    message: Message, tokens: int, view: Mapping[str, Any] | None, policy: CompactionPolicy
) -> int:
    """Tokens of a message in a raw turn: above `raw_result_tokens` results, and what was
    offloaded, are shown as views.
    """
    if view is not None and is_shown_as_view(message, tokens, policy):
        return int(view["tokens"])
    return tokens


def is_shown_as_view(message: Message, tokens: int, policy: CompactionPolicy) -> bool:
    """Whether a raw turn shows a view of it from the start, if there is one."""
    offloaded = message.role == "tool" or message.artifact is not None
    return offloaded and tokens > policy.raw_result_tokens


def _views(
    offloaded: Sequence[Offloaded], policy: CompactionPolicy, counter: TokenCounter
) -> dict[str, dict[str, Any]]:
    """Short forms, by message index, of messages over twice `view_tokens`. An offloaded message is
    stored as its view, which is not repeated here.
    """
    views: dict[str, dict[str, Any]] = {}
    for position, one in enumerate(offloaded):
        if one.message.artifact is not None:
            kept = without_idle_reasoning(one.message).reasoning
            tokens = one.stored_tokens + sum(map(reasoning_tokens, kept))
            views[str(position)] = {"tokens": tokens}
            continue
        view = message_view(sendable(one.message), one.tokens, policy, counter)
        if view is not None:
            short, view_tokens = view
            dumped = short.model_dump(exclude_defaults=True)
            views[str(position)] = {"message": dumped, "tokens": view_tokens}
    return views


def message_view(
    message: Message, tokens: int, policy: CompactionPolicy, counter: TokenCounter
) -> tuple[Message, int] | None:
    """The short form of a message over twice `view_tokens`, with its tokens."""
    if tokens <= 2 * policy.view_tokens:
        return None
    view = view_of(message, max_tokens=policy.view_tokens, counter=counter)
    view_tokens = counter.count_message(view)
    return (view, view_tokens) if view_tokens < tokens else None


def _dated(occurred_at: datetime | None) -> str:
    return f"On {occurred_at:%Y-%m-%d}: " if occurred_at else ""


def _searched(messages: Sequence[Message], day: date | None) -> list[SearchText]:
    """Of a turn larger than is indexed, the beginning of each message."""
    limit = SEARCHED_CHARACTERS
    if characters(messages) > SEARCHED_PER_TURN:
        limit = max(SEARCHED_PER_TURN // len(messages), LEAST_SEARCHED)
    return [message_search_text(message, day, characters=limit) for message in messages]
