"""The statement behind `search`: BM25 as prompts rank by it, and bounded as theirs, but whatever
matches counts: whoever searches looks at the hits.
"""

from typing import Final

from durable_context.prompts import ranking_query
from durable_context.prompts.query import EXCERPT_BYTES
from durable_context.prompts.ranking_query import K1, LONGEST, B
from durable_context.prompts.term_query import QUERY_TERMS

WEAKEST: Final = 0.2
"""Share of the best hit's score below which a hit is noise, as is a passage within its hit."""
BOUNDS: Final = ranking_query.BOUNDS._replace(whole=2_000, newest=256, candidates=100)
"""More than prompts need: a search may ask for 50 hits."""
FRESH_TURNS: Final = 500
"""Turns that no index has yet: so many of the newest are searched."""
EXCERPT_TURNS: Final = 3
"""Turns of each hit that passages are looked for in."""

# $1 tenant, $2 branch, $3 text, $4 terms taken as they are with $5 weights, $6 hits.
# Turns that are not indexed yet are documents, too: short ones against leaves, and therefore
# measured by their own mean length, as are artifacts where there is no leaf yet.
_QUERY = f"""
with branch as materialized (
    select b.text_search, b.checkpoint_turn from durable_context.branches b
    where b.tenant = $1 and b.branch_uuid = $2
), indexed as materialized (
    select coalesce(sum(d.nth), 0)::float8 as leaves, coalesce(max(d.to_turn), 0) as to_turn,
        coalesce(sum(d.total_length)::float8 / nullif(sum(d.nth), 0), (
            select avg(d.length)::float8 from durable_context.lineage a
            join durable_context.indexed_documents d on d.branch_uuid = a.ancestor_uuid
                and d.to_turn <= a.to_turn and d.artifact_no between 1 and a.artifact_limit
            where a.tenant = $1 and a.branch_uuid = $2
        ), 1) as mean_length
    from branch b cross join durable_context.lineage a cross join lateral (
        select d.nth, d.total_length, d.to_turn from durable_context.indexed_documents d
        where d.branch_uuid = a.ancestor_uuid and d.level = 0 and d.artifact_no = 0
            and d.to_turn <= least(a.compacted_turn, b.checkpoint_turn)
        order by d.to_turn desc limit 1
    ) d
    where a.tenant = $1 and a.branch_uuid = $2
), asked as materialized (
    select w.term, max(w.weight) as weight from (
        select u.lexeme as term, 1::float8 as weight
        from branch b cross join unnest(to_tsvector(b.text_search, $3)) u
        union all
        select t.term, t.weight
        from branch b cross join unnest($4::text[], $5::float8[]) t (term, weight)
    ) w
    group by w.term order by max(w.weight) desc, length(w.term) desc, w.term limit {QUERY_TERMS}
), fresh as materialized (
    select t.branch_uuid, t.turn_no, t.message_terms, (
        select sum(length(m.terms)) from unnest(t.message_terms) m (terms)
    ) as length
    from indexed i join durable_context.visible_turns t on t.tenant = $1 and t.seen_by = $2
        and t.turn_no > i.to_turn
    order by t.turn_no desc limit {FRESH_TURNS}
), said as materialized (
    select f.branch_uuid, f.turn_no, f.length, a.term,
        sum(coalesce(cardinality(u.positions), 1)) as frequency
    from fresh f cross join unnest(f.message_terms) m (terms) cross join unnest(m.terms) u
    join asked a on a.term = u.lexeme
    group by f.branch_uuid, f.turn_no, f.length, a.term
), query as materialized (
    select q.term, q.leaves, q.weight * ln(1 + (greatest(d.documents - q.documents, 0) + 0.5)
        / (q.documents + 0.5)) as weight
    from (
        select a.term, a.weight, l.leaves, l.leaves + coalesce(t.turns, 0) as documents
        from asked a left join (
            select s.term, count(*) as turns from said s group by s.term
        ) t on t.term = a.term cross join lateral (
            select coalesce(sum(p.nth), 0)::float8 as leaves
            from branch b cross join durable_context.lineage v cross join lateral (
                select p.nth from durable_context.postings p
                where p.branch_uuid = v.ancestor_uuid and p.term = a.term and p.level = 0
                    and p.artifact_no = 0
                    and p.to_turn <= least(v.compacted_turn, b.checkpoint_turn)
                order by p.to_turn desc limit 1
            ) p
            where v.tenant = $1 and v.branch_uuid = $2
        ) l
    ) q cross join (
        select i.leaves + (select count(*) from fresh) as documents from indexed i
    ) d
), lists as materialized (
    select q.term, q.weight,
        case when sum(q.leaves) over (order by q.leaves, q.term) <= {BOUNDS.whole}
            then q.leaves::integer + {BOUNDS.others} else {BOUNDS.newest} end as postings
    from (select * from query order by weight desc, term limit {BOUNDS.terms}) q
)"""

_RANK = f"""sum(f.weight * f.frequency * {K1 + 1:.1f}::float8 / (f.frequency
        + {K1}::float8 * ({1 - B}::float8 + {B}::float8
            * least(f.length / f.mean_length, {LONGEST})))
        order by f.term)"""

_SCORED = f""", candidates as materialized (
    select f.branch_uuid, f.to_turn, f.artifact_no from (
        select p.*, q.term, q.weight, i.mean_length
        from branch b cross join lists q cross join indexed i
        join durable_context.lineage a on a.tenant = $1 and a.branch_uuid = $2
        cross join lateral (
            select p.branch_uuid, p.to_turn, p.artifact_no, p.frequency, p.length
            from durable_context.postings p
            where p.branch_uuid = a.ancestor_uuid and p.term = q.term and p.level = 0
                and p.to_turn <= a.to_turn and p.artifact_no <= a.artifact_limit
                and (
                    p.artifact_no > 0 or p.to_turn <= least(a.compacted_turn, b.checkpoint_turn)
                )
            order by p.to_turn desc limit q.postings
        ) p
    ) f
    group by f.branch_uuid, f.to_turn, f.artifact_no
    order by {_RANK} desc, f.to_turn desc, f.artifact_no, f.branch_uuid
    limit {BOUNDS.candidates}
), found as materialized (
    select p.branch_uuid, p.to_turn, p.artifact_no, false as fresh, q.term, q.weight, p.frequency,
        p.length, i.mean_length
    from candidates c cross join (select array(select q.term from query q) as terms) asked
    cross join lateral (
        select p.* from durable_context.postings p
        where p.branch_uuid = c.branch_uuid and p.term = any (asked.terms)
            and p.to_turn = c.to_turn and p.level = 0 and p.artifact_no = c.artifact_no
    ) p
    join query q on q.term = p.term cross join indexed i
    union all
    select s.branch_uuid, s.turn_no, 0, true, q.term, q.weight, s.frequency, s.length, m.length
    from said s join query q on q.term = s.term
    cross join (select greatest(avg(f.length), 1)::float8 as length from fresh f) m
), scored as materialized (
    select f.branch_uuid, f.to_turn, f.artifact_no, f.fresh, {_RANK} as score
    from found f group by f.branch_uuid, f.to_turn, f.artifact_no, f.fresh
)"""

_HITS = f""", matches as materialized (
    select s.*, a.handle, a.name, a.media_type, a.size, a.line_count, a.sha256, row_number() over (
        partition by a.sha256, case when a.sha256 is null then s.to_turn end,
            least(s.artifact_no, 0)
        order by s.to_turn desc, s.artifact_no desc, s.branch_uuid
    ) as repetition
    from scored s
    left join durable_context.visible_artifacts a on s.artifact_no > 0 and a.tenant = $1
        and a.seen_by = $2 and a.artifact_no = s.artifact_no
), hits as materialized ( -- a document may be of a leaf that only a fork still sees
    select m.*, coalesce(d.from_turn, m.to_turn) as from_turn, l.headline as of_leaf
    from matches m
    left join durable_context.indexed_documents d on not m.fresh and d.branch_uuid = m.branch_uuid
        and d.to_turn = m.to_turn and d.level = 0 and d.artifact_no = m.artifact_no
    left join durable_context.visible_summaries l on m.artifact_no <= 0 and l.tenant = $1
        and l.seen_by = $2 and l.branch_uuid = m.branch_uuid and l.level = 0
        and l.from_turn = d.from_turn and l.to_turn = d.to_turn
    where m.repetition = 1 and m.score >= {WEAKEST} * (select max(s.score) from scored s)
        and (m.fresh or m.artifact_no > 0 or l.summary_id is not null)
    order by m.score desc, m.to_turn desc, m.handle limit $6
)
select h.score, h.from_turn, h.to_turn, h.handle, h.name, h.media_type, h.size,
    t.headline, t.text as summary, case when h.fresh then (
        select f.digest from durable_context.visible_turns f
        where f.tenant = $1 and f.seen_by = $2 and f.turn_no = h.to_turn
    ) when h.artifact_no <= 0 then h.of_leaf end as said,
    c.compression, c.sha256, c.data, (
        select json_agg(json_build_array(e.turn_no, e.occurred_at, e.messages) order by e.turn_no)
        from (
            select v.turn_no, v.occurred_at, v.messages
            from durable_context.visible_turns v cross join lateral (
                select sum(q.weight) as matched from query q where q.term in (
                    select u.lexeme from unnest(v.message_terms) m (terms)
                    cross join unnest(m.terms) u
                )
            ) m
            where h.artifact_no <= 0 and v.tenant = $1 and v.seen_by = $2
                and v.turn_no between h.from_turn and h.to_turn and m.matched > 0
            order by m.matched desc, v.turn_no desc limit {EXCERPT_TURNS}
        ) e
    ) as turns,
    (select json_agg(json_build_array(q.term, q.weight)) from query q
        where exists (select from found f where f.term = q.term)) as terms
from hits h
left join lateral (
    select t.headline, t.text from durable_context.artifact_summaries t
    where t.tenant = $1 and t.sha256 = h.sha256
    order by t.degraded, t.created_at desc, t.recipe limit 1
) t on true
left join durable_context.artifact_contents c on c.tenant = $1 and c.sha256 = h.sha256
    and c.data is not null and c.size <= {EXCERPT_BYTES} and h.line_count is not null
order by h.score desc, h.to_turn desc, h.handle
"""

SEARCH: Final = _QUERY + _SCORED + _HITS
