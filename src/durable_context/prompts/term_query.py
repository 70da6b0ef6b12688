"""The part of the statement behind `prepare` that weighs what a message asks for: its terms, and
where it leans on what was said before, those of the last turn, by how rare they are in what the
branch sees.
"""

from typing import Final

from durable_context.search_queries import CONTEXT_WEIGHT

QUERY_TERMS: Final = 64
"""Terms of a query that are looked at: whole words before those of earlier turns, long ones before
short ones.
"""
OF_CONTEXT: Final = 2.0
"""What the last turn lends to a message that says something itself weighs at most this many times
what a term that no leaf has does.
"""
FRESH_TURNS: Final = 64
FRESH_BYTES: Final = 200_000
"""Turns that no leaf covers yet and that stand as digests: so many of the newest are candidates, as
long as their terms take up to so much room.
"""
LENDING: Final = 2
"""Of the turn that lends terms so many messages, from its beginning and from its end."""
COMMON: Final = 0.4
"""Terms that weigh less than this share of one that no leaf has are not lent, and a message that
says one that weighs more needs none.
"""
FIRST_UNSPACED: Final = 0x0E00
OF_UNKNOWN_PAIR: Final = 0.1
"""Share that a pair of characters beyond this one counts when no leaf has it."""
EXACT: Final = 1_000_000
"""Sums of weights and scores are of whole numbers, this many to 1, so that they do not depend on
the order of the rows.
"""

# $1 tenant, $2 branch, $7 query or null, $8 terms taken as they are with $9 weights, $10 weight of
# the terms of the last turn and of the open run's first. Leaves are counted by `nth` of the newest
# that the branch sees, and turns that no leaf covers yet count as leaves.
WEIGHED_TERMS: Final = f""", fresh as materialized (
    select t.branch_uuid, t.turn_no, t.message_terms, (
        select coalesce(sum(length(m.terms)), 0) from unnest(t.message_terms) m (terms)
    ) as length
    from (
        select t.*, sum(pg_column_size(t.message_terms)) over (order by t.turn_no desc) as stored
        from tail t where t.raw is not true
    ) t
    where t.stored - pg_column_size(t.message_terms) <= {FRESH_BYTES}
    order by t.turn_no desc limit {FRESH_TURNS}
), speakers as materialized (
    select array(
        select unnest(t.speakers) from branch b join tail t on t.turn_no >= b.head_turn - 1
    ) as names
), lent as materialized (
    select u.lexeme as term
    from (
        select t.message_terms from branch b join tail t on t.turn_no = b.head_turn
        union all
        select t.message_terms from branch b cross join lateral (
            select t.message_terms from durable_context.visible_turns t
            where t.tenant = $1 and t.seen_by = $2 and t.turn_no = b.open_run_turn
                and t.turn_no < b.head_turn
            offset 0
        ) t
    ) t cross join unnest(t.message_terms) with ordinality m (terms, place)
    cross join unnest(m.terms) u cross join branch b
    where $10::float8 > 0 and ($7::text is not null or b.open_run_turn is not null)
        and (m.place <= {LENDING} or m.place > cardinality(t.message_terms) - {LENDING})
        and u.lexeme !~ '^=([0-9]{{4}}|--)'
), stats as materialized (
    select l.leaves, l.mean_length, ln(2 * l.leaves + 2) as rarest
    from (
        select coalesce(sum(d.nth), 0)::float8 + (select count(*) from fresh) as leaves,
            coalesce(sum(d.total_length)::float8 / nullif(sum(d.nth), 0), (
                select avg(i.length)::float8 from durable_context.lineage a
                join durable_context.indexed_documents i on i.branch_uuid = a.ancestor_uuid
                    and i.artifact_no > 0 and i.artifact_no <= a.artifact_limit
                    and i.to_turn <= least(a.compacted_turn, (select b.artifact_turn from branch b))
                where a.tenant = $1 and a.branch_uuid = $2
            ), 1) as mean_length
        from branch b join durable_context.lineage a on a.tenant = $1 and a.branch_uuid = $2
        cross join lateral (
            select d.nth, d.total_length from durable_context.indexed_documents d
            where d.branch_uuid = a.ancestor_uuid and d.level = 0 and d.artifact_no = 0
                and d.to_turn <= least(a.compacted_turn, b.checkpoint_turn)
            order by d.to_turn desc limit 1
        ) d
    ) l
), asked as materialized (
    select w.term, max(w.weight) as weight, bool_or(w.own) as own
    from branch b cross join lateral (
        select u.lexeme as term, 1::float8 as weight, true as own
        from unnest(to_tsvector(b.text_search, $7::text)) u
        union all
        select t.term, t.weight, true from unnest($8::text[], $9::float8[]) t (term, weight)
        union all
        select l.term, $10::float8, false from lent l
    ) w
    where w.term <> all ((select p.names from speakers p)::text[])
    group by w.term order by max(w.weight) desc, length(w.term) desc, w.term limit {QUERY_TERMS}
), fresh_postings as materialized (
    select f.branch_uuid, f.turn_no, q.term, count(*) as frequency,
        f.length / (select greatest(avg(f.length), 1)::float8 from fresh f) as length,
        string_agg(int2send(least(m.place, 32767)::smallint), '' order by m.place) as places
    from fresh f cross join unnest(f.message_terms) with ordinality m (terms, place)
    cross join unnest(m.terms) u join asked q on q.term = u.lexeme
    group by f.branch_uuid, f.turn_no, f.length, q.term
), rated as materialized (
    select q.term, q.own, d.leaves, w.rarity, q.weight * w.rarity as weight,
        -- Half of the pairs of a script without spaces are of no word.
        case when d.leaves = 0 and length(q.term) = 2 and ascii(q.term) >= {FIRST_UNSPACED}
            then {OF_UNKNOWN_PAIR}::float8 else 1 end as counts
    from branch b cross join stats s cross join asked q cross join lateral (
        select coalesce(sum(p.nth), 0)::float8
            + (select count(*) from fresh_postings f where f.term = q.term) as leaves
        from durable_context.lineage a cross join lateral (
            select p.nth from durable_context.postings p
            where p.branch_uuid = a.ancestor_uuid and p.term = q.term and p.level = 0
                and p.artifact_no = 0 and p.to_turn <= least(a.compacted_turn, b.checkpoint_turn)
            order by p.to_turn desc limit 1
        ) p
        where a.tenant = $1 and a.branch_uuid = $2
    ) d cross join lateral (
        select ln(1 + (greatest(s.leaves - d.leaves, 0) + 0.5) / (d.leaves + 0.5)) as rarity
    ) w
), total as materialized ( -- of what the message says; where it says nothing, of what is known
    select coalesce(case when r.own > 0 then r.own else r.known end, 0) as weight, case
        -- It says nobody's name but a speaker's, what nobody has said, or what few have.
        when $7::text <> '' and r.heaviest is null and $10::float8 < {CONTEXT_WEIGHT}::float8
            or r.heaviest >= {COMMON}::float8 * s.rarest then 0
        when r.own > 0 then least(1, {OF_CONTEXT}::float8 * s.rarest / nullif(r.lent, 0))
        else 1 end as context
    from stats s cross join (
        select sum(({EXACT} * r.weight)::integer * r.counts) filter (where r.own)
                / {EXACT}::float8 as own,
            sum(({EXACT} * r.weight)::integer) filter (where not r.own) / {EXACT}::float8 as lent,
            sum(({EXACT} * r.weight)::integer) filter (where r.leaves > 0) / {EXACT}::float8
                as known,
            max(r.weight) filter (where r.own and r.leaves > 0) as heaviest
        from rated r
    ) r
), query as materialized (
    select r.term, r.leaves, case when r.own then 1 else t.context end * r.weight as weight
    from rated r cross join total t cross join stats s
    where r.own or (t.context > 0 and r.rarity >= {COMMON}::float8 * s.rarest)
)"""
