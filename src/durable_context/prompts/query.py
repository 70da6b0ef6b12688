"""The statement behind `prepare`: all that a prompt may need of a branch, in one round trip."""

from functools import cache

from durable_context.artifacts.contents import COUNTED_WHOLE
from durable_context.prompts.ranking_query import BOUNDS, Bounds, ranking

EXCERPT_MESSAGES = 4
"""Best messages of a leaf whose turns are read for excerpts, with what was said beside them."""
EXCERPT_BYTES = 262_144
"""Artifacts up to this size are quoted when they are retrieved; of larger ones the summary says
what they hold.
"""

# $1 tenant, $2 branch, $3 keep_raw_turns, $4 turns before the first compaction, $5 run_raw_tokens,
# $6 raw_result_tokens; with retrieval $7 to $11, see ranking().

_HEAD = """
with branch as materialized (
    select b.head_turn, b.head_turn as newest_turn, b.checkpoint_turn, b.open_run_turn, b.encoding,
        b.text_search, b.head_turn as artifact_turn
    from durable_context.branches b
    where b.tenant = $1 and b.branch_uuid = $2
)"""

# The branch as a fork made at that turn would be: it sees artifacts that were indexed with what was
# compacted by then, since what an ancestor indexes later is to change nothing.
_HEAD_AT = """
with branch as materialized (
    select $at::integer as head_turn, b.head_turn as newest_turn, n.checkpoint_turn,
        t.open_run_turn, b.encoding, b.text_search, n.checkpoint_turn as artifact_turn
    from durable_context.branches b
    cross join lateral (
        select durable_context.newest_checkpoint($2, $at::integer - $3::integer) as checkpoint_turn
    ) n
    left join durable_context.visible_turns t
        on t.tenant = $1 and t.seen_by = $2 and t.turn_no = $at
    where b.tenant = $1 and b.branch_uuid = $2
)"""

# The raw part of an open run begins at a multiple of half its size: it moves once for many turns,
# so that a provider's cache holds what is before and in it.
_TAIL = f""", run as materialized (
    select case when b.open_run_turn is not null then (
        select min(s.turn_no) from (
            select t.turn_no, sum(t.raw_tokens) over (order by t.turn_no) - t.raw_tokens as before,
                sum(t.raw_tokens) over () as total
            from durable_context.visible_turns t
            where t.tenant = $1 and t.seen_by = $2 and t.turn_no <= b.head_turn
                and t.turn_no > b.checkpoint_turn and t.turn_no >= b.open_run_turn
        ) s
        where s.before >= ceil((s.total - $5::integer)::float8 / greatest($5 / 2, 1))
            * greatest($5 / 2, 1)
    ) end as raw_from
    from branch b
), tail as materialized (
    select t.branch_uuid, t.turn_no, t.digest, t.digest_tokens, t.ledger, t.messages,
        t.message_tokens, t.views, t.artifact_count, t.message_terms, t.speakers,
        t.turn_no > b.head_turn - $3
        or (b.checkpoint_turn = 0 and b.head_turn < $4)
        or t.turn_no >= r.raw_from as raw
    from branch b cross join run r
    join durable_context.visible_turns t on t.tenant = $1 and t.seen_by = $2
        and t.turn_no > b.checkpoint_turn and t.turn_no <= b.head_turn
), whole as materialized (
    select t.turn_no, a.message_no, a.part_no, c.compression, c.size, c.sha256, c.data
    from tail t
    join durable_context.artifacts a on a.tenant = $1 and a.branch_uuid = t.branch_uuid
        and a.turn_no = t.turn_no and a.line_count is not null and a.source in ('message', 'part')
        and a.token_count <= $6
    join durable_context.artifact_contents c on c.tenant = $1 and c.sha256 = a.sha256
        and c.data is not null and c.size <= {COUNTED_WHOLE}
    where t.raw and t.artifact_count > 0
)"""

_FOUND = f""", found as materialized (
    select h.rank, h.score, a.handle, a.turn_no, a.source, case when newest.version > a.version
            then a.name || ', version ' || a.version || ' of ' || newest.version else a.name
        end as name,
        a.media_type, a.size, s.headline, s.text, c.compression, a.sha256, c.data
    from branch b cross join hits h
    join durable_context.visible_artifacts a on a.tenant = $1 and a.seen_by = $2
        and a.artifact_no = h.artifact_no
    left join lateral (
        select s.headline, s.text from durable_context.artifact_summaries s
        where s.tenant = $1 and s.sha256 = a.sha256
        order by s.degraded, s.created_at desc limit 1
    ) s on true
    left join durable_context.artifact_contents c on c.tenant = $1 and c.sha256 = a.sha256
        and c.data is not null and c.size <= {EXCERPT_BYTES} and a.line_count is not null
    cross join lateral (
        select max(n.version) as version from durable_context.visible_artifacts n
        where n.tenant = $1 and n.seen_by = $2 and n.name = a.name and n.turn_no <= b.head_turn
    ) newest
    where h.artifact_no > 0
)"""

_SELECT = f"""
select b.head_turn, b.newest_turn, b.checkpoint_turn, b.open_run_turn, b.encoding,
    c.checkpoint_id, c.text, c.token_count, c.sections,
    (select json_agg(json_build_array(t.turn_no, t.digest, t.digest_tokens, t.ledger,
        case when t.raw then t.messages end, case when t.raw then t.message_tokens end,
        case when t.raw then t.views end) order by t.turn_no) from tail t) as tail,
    (select array_agg((w.turn_no, w.message_no, w.part_no, w.compression, w.size, w.sha256, w.data))
        from whole w) as whole,
    case when b.open_run_turn is not null then (
        select json_build_array(r.messages, r.message_tokens) from durable_context.visible_turns r
        where r.tenant = $1 and r.seen_by = $2 and r.turn_no = b.open_run_turn
    ) end as run_start,
    case when exists (
        select from durable_context.pins p where p.tenant = $1 and p.branch_uuid = $2
    ) then durable_context.pinned_turns($1, $2, b.head_turn,
        (select min(t.turn_no) from tail t where t.raw), $6, {COUNTED_WHOLE}) end as pinned"""

# Of each leaf the turns that its best messages, and those beside them, belong to.
_RETRIEVED = f""",
    (select json_agg(json_build_array(h.rank, h.score, h.level, h.from_turn, h.to_turn,
        s.summary_id, s.headline, case when h.level > 0 then s.text end, (
            select json_agg(json_build_array(p.place, p.score) order by p.place) from spoken p
            where p.branch_uuid = h.branch_uuid and p.to_turn = h.to_turn and p.level = h.level
                and p.artifact_no = h.artifact_no
        ), (
            select json_agg(json_build_array(t.turn_no, t.occurred_at, w.before, t.messages)
                order by t.turn_no)
            from (
                select h.from_turn + u.number - 1 as turn_no, u.messages,
                    sum(u.messages) over (order by u.number) - u.messages as before
                from unnest(h.turn_messages) with ordinality u (messages, number)
            ) w
            join durable_context.visible_turns t on t.tenant = $1 and t.seen_by = $2
                and t.turn_no = w.turn_no
            where exists (
                select from (
                    select p.place from spoken p
                    where p.branch_uuid = h.branch_uuid and p.to_turn = h.to_turn
                        and p.level = h.level and p.artifact_no = h.artifact_no
                    order by p.score desc, p.place limit {EXCERPT_MESSAGES}
                ) p where p.place between w.before and w.before + w.messages + 1
            )
        )))
        from hits h left join durable_context.visible_summaries s on s.tenant = $1
            and s.seen_by = $2 and s.level = h.level and s.from_turn = h.from_turn
            and s.to_turn = h.to_turn and s.branch_uuid = h.branch_uuid
        where h.artifact_no <= 0 and (h.level < 0 or s.summary_id is not null)) as nodes,
    (select array_agg((f.rank, f.score, f.handle, f.turn_no, f.source, f.name, f.media_type, f.size,
        f.headline, f.text, f.compression, f.sha256, f.data)) from found f) as artifacts,
    (select json_agg(json_build_array(q.term, q.weight)) from query q
        where exists (select from matched m where m.term = q.term)) as terms
"""

_NOT_RETRIEVED = ", null as nodes, null as artifacts, null as terms"

_FROM = """
from branch b
left join durable_context.visible_checkpoints c
    on c.tenant = $1 and c.seen_by = $2 and c.turn_no = b.checkpoint_turn
"""

# What was learned of how the budget's model counts.
_CALIBRATION = """,
    (select json_agg(json_build_array(k.kind, k.reports, k.peak))
        from durable_context.token_calibrations k
        where k.tenant = $1 and k.model = $model::text
            and k.encoding = b.encoding) as calibration"""


@cache
def read_prompt(
    bounds: Bounds | None = BOUNDS,
    *,
    similar: bool = False,
    at_turn: bool = False,
    model: bool = False,
) -> str:
    """The statement; `bounds` say how much of the index it reads, None that it searches nothing:
    half of a small statement's time is setting up what it does not run.

    Its parameters are those above, then a vector if it searches by one (`similar`), the turn if it
    reads the branch as a fork made there would be, and the model whose calibration it reads.
    """
    given = 6 if bounds is None else 11
    statement = _HEAD_AT if at_turn else _HEAD
    statement += _TAIL + (ranking(bounds, similar=similar) + _FOUND if bounds else "") + _SELECT
    statement += _RETRIEVED if bounds else _NOT_RETRIEVED
    statement += (_CALIBRATION if model else "") + _FROM
    for name, used in (("$vector", similar), ("$at", at_turn), ("$model", model)):
        given += used
        statement = statement.replace(name, f"${given}") if used else statement
    return statement


READ_PROMPT = read_prompt()
