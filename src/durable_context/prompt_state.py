"""The one read before a model call: everything of a branch that a prompt may need, in one
statement.
"""

from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from durable_context import stored_json
from durable_context.database import Pool, acquired
from durable_context.errors import UnknownBranch
from durable_context.models import Message
from durable_context.policy import CompactionPolicy
from durable_context.sendable import sendable

EXCERPT_TURNS = 3
"""Turns per retrieved summary that excerpts may come from."""
QUERY_TERMS = 64
"""Longest lexemes of a query that are searched for: length is a cheap sign of rarity."""
MATCHED_SHARE = 0.2
"""Share of the query's term weight a leaf must match to be relevant."""

_TAIL = """
with branch as materialized (
    select b.head_turn, b.checkpoint_turn, b.open_run_turn, b.encoding, b.text_search,
        b.indexed_leaves, b.indexed_terms::float8 / greatest(b.indexed_leaves, 1) as mean_length
    from durable_context.branches b
    where b.tenant = $1 and b.branch_uuid = $2
), tail as materialized (
    select t.turn_no, t.digest, t.digest_tokens, t.ledger, t.messages, t.message_tokens, t.views,
        t.turn_no > b.head_turn - $3
        or (b.checkpoint_turn = 0 and b.head_turn < $4)
        or (t.turn_no >= b.open_run_turn
            and sum(t.raw_tokens) over (order by t.turn_no desc) <= $5) as raw
    from branch b
    join durable_context.turns t on t.tenant = $1 and t.branch_uuid = $2
        and t.turn_no > b.checkpoint_turn and t.turn_no <= b.head_turn
)"""

_RANKED = f""", lexemes as materialized (
    select l.lexeme from branch b, unnest(
        case when b.indexed_leaves = 0 then ''::tsvector
        when $6::text is not null then to_tsvector(b.text_search, $6)
        else (
            select strip(t.terms) || strip(n.terms)
            from durable_context.turns t, durable_context.turns n
            where t.tenant = $1 and t.branch_uuid = $2 and t.turn_no = b.open_run_turn
            and n.tenant = $1 and n.branch_uuid = $2 and n.turn_no = b.head_turn
        ) end) l
    order by length(l.lexeme) desc, l.lexeme limit {QUERY_TERMS}
), query as materialized (
    select l.lexeme, d.leaves,
        ln(1 + (b.indexed_leaves - d.leaves + 0.5::float8) / (d.leaves + 0.5::float8)) as idf,
        ('''' || replace(replace(l.lexeme, '\\', '\\\\'), '''', '''''') || '''')::tsquery as pattern
    from branch b, lexemes l, lateral (
        select count(*) as leaves from durable_context.postings p
        where p.branch_uuid = $2 and p.term = l.lexeme
    ) d
), hits as materialized (
    select p.from_turn, p.to_turn, sum(q.idf * p.frequency * 2.5::float8
        / (p.frequency + 1.5::float8 * (0.25::float8 + 0.75::float8 * p.length / b.mean_length))
        ) as score
    from branch b, query q
    join durable_context.postings p on p.branch_uuid = $2 and p.term = q.lexeme
    group by p.from_turn, p.to_turn
    having sum(q.idf) >= {MATCHED_SHARE} * (select sum(idf) from query)
    order by score desc, p.to_turn desc limit $7
)"""

_SELECT = """
select b.head_turn, b.checkpoint_turn, b.open_run_turn, b.encoding,
    c.checkpoint_id, c.text, c.token_count, c.sections,
    (select json_agg(json_build_array(t.turn_no, t.digest, t.digest_tokens, t.ledger,
        case when t.raw then t.messages end, case when t.raw then t.message_tokens end,
        case when t.raw then t.views end) order by t.turn_no) from tail t) as tail,
    case when b.open_run_turn is not null then (
        select json_build_array(r.messages, r.message_tokens) from durable_context.turns r
        where r.tenant = $1 and r.branch_uuid = $2 and r.turn_no = b.open_run_turn
    ) end as run_start"""

_RETRIEVED = f""",
    (select json_agg(json_build_array(h.from_turn, h.to_turn, s.summary_id, s.headline, (
        select json_agg(json_build_array(e.turn_no, e.occurred_at, e.messages) order by e.turn_no)
        from (
            select t.turn_no, t.occurred_at, t.messages from durable_context.turns t, lateral (
                select sum(q.idf) as matched from query q where t.terms @@ q.pattern
            ) m
            where t.tenant = $1 and t.branch_uuid = $2
                and t.turn_no between h.from_turn and h.to_turn and m.matched > 0
            order by m.matched desc, t.turn_no desc limit {EXCERPT_TURNS}
        ) e)) order by h.score desc, h.to_turn desc)
        from hits h join durable_context.summaries s on s.tenant = $1 and s.branch_uuid = $2
            and s.level = 0 and s.from_turn = h.from_turn and s.state = 'current') as retrieved,
    (select json_agg(json_build_array(q.lexeme, q.idf)) from query q where q.leaves > 0) as terms"""

_FROM = """
from branch b
left join durable_context.checkpoints c
    on c.tenant = $1 and c.branch_uuid = $2 and c.turn_no = b.checkpoint_turn
"""

READ_PROMPT = _TAIL + _RANKED + _SELECT + _RETRIEVED + _FROM
# Half of a small statement's time is setting up what it does not run.
READ_WITHOUT_RETRIEVAL = _TAIL + _SELECT + ", null as retrieved, null as terms" + _FROM


class View(NamedTuple):
    """The short form of a message, with its tokens."""

    message: Message
    tokens: int


class Fact(NamedTuple):
    """A ledger entry with the tokens of its line, less the turn's mark."""

    kind: str
    value: str
    tokens: int


class TailTurn(NamedTuple):
    """A turn after the checkpoint. Only raw turns carry messages; `views` is keyed by position."""

    turn_no: int
    digest: str
    digest_tokens: int
    facts: tuple[Fact, ...]
    messages: tuple[Message, ...]
    message_tokens: tuple[int, ...]
    views: dict[int, View]
    raw: bool


class StoredCheckpoint(NamedTuple):
    checkpoint_id: str
    turn_no: int
    text: str
    token_count: int
    sections: list[dict[str, Any]]


class RetrievedTurn(NamedTuple):
    turn_no: int
    occurred_at: datetime
    messages: tuple[Message, ...]


class RetrievedLeaf(NamedTuple):
    """A leaf that is relevant to the query, with its turns that match, oldest first."""

    summary_id: str
    from_turn: int
    to_turn: int
    headline: str
    turns: tuple[RetrievedTurn, ...]


class PromptState(NamedTuple):
    """A branch as a prompt sees it. `retrieved` is ranked, best first; `terms` weighs lexemes."""

    branch_uuid: UUID
    head_turn: int
    open_run_turn: int | None
    encoding: str
    checkpoint: StoredCheckpoint | None
    tail: tuple[TailTurn, ...]
    run_start: tuple[tuple[Message, int], ...]
    retrieved: tuple[RetrievedLeaf, ...]
    terms: dict[str, float]


async def read_prompt_state(
    pool: Pool, tenant: str, branch_uuid: UUID, query: str | None, policy: CompactionPolicy
) -> PromptState:
    """One statement, which writes nothing. A query of None asks with the open run's own terms."""
    async with acquired(pool) as connection:
        limits = (
            policy.keep_raw_turns,
            policy.segment_turns + policy.keep_raw_turns,
            policy.run_raw_tokens,
        )
        if policy.retrieved_blocks and policy.retrieved_tokens:
            row = await connection.fetchrow(
                READ_PROMPT, tenant, branch_uuid, *limits, query, policy.retrieved_blocks
            )
        else:
            row = await connection.fetchrow(READ_WITHOUT_RETRIEVAL, tenant, branch_uuid, *limits)
    if row is None:
        raise UnknownBranch(f"there is no branch {branch_uuid} for tenant {tenant!r}")
    checkpoint = None
    if row["checkpoint_id"] is not None:
        checkpoint = StoredCheckpoint(
            str(row["checkpoint_id"]),
            row["checkpoint_turn"],
            row["text"],
            row["token_count"],
            stored_json.loads(row["sections"]),
        )
    return PromptState(
        branch_uuid=branch_uuid,
        head_turn=row["head_turn"],
        open_run_turn=row["open_run_turn"],
        encoding=row["encoding"],
        checkpoint=checkpoint,
        tail=tuple(_tail_turn(*fields) for fields in _list(row["tail"])),
        run_start=_run_start(row["run_start"]),
        retrieved=tuple(_leaf(*fields) for fields in _list(row["retrieved"])),
        terms=dict(_list(row["terms"])),
    )


def _list(text: str | None) -> list[Any]:
    return stored_json.loads(text) if text else []


def _messages(fields: list[dict[str, Any]] | None) -> tuple[Message, ...]:
    return tuple(sendable(stored_json.load_message(field)) for field in fields or ())


def _tail_turn(
    turn_no: int,
    digest: str,
    digest_tokens: int,
    ledger: list[dict[str, Any]],
    messages: list[dict[str, Any]] | None,
    message_tokens: list[int] | None,
    views: dict[str, dict[str, Any]] | None,
) -> TailTurn:
    return TailTurn(
        turn_no,
        digest,
        digest_tokens,
        tuple(Fact(fact["kind"], fact["value"], fact["tokens"]) for fact in ledger),
        _messages(messages),
        tuple(message_tokens or ()),
        {
            int(position): View(stored_json.load_message(view["message"]), view["tokens"])
            for position, view in (views or {}).items()
        },
        messages is not None,
    )


def _run_start(text: str | None) -> tuple[tuple[Message, int], ...]:
    if text is None:
        return ()
    messages, tokens = stored_json.loads(text)
    return tuple(zip(_messages(messages), tokens, strict=True))


def _leaf(
    from_turn: int, to_turn: int, summary_id: str, headline: str, turns: list[Any] | None
) -> RetrievedLeaf:
    return RetrievedLeaf(
        summary_id,
        from_turn,
        to_turn,
        headline,
        tuple(
            RetrievedTurn(turn_no, datetime.fromisoformat(occurred_at), _messages(messages))
            for turn_no, occurred_at, messages in turns or ()
        ),
    )
