"""The part of the statement behind `prepare` that finds what a message asks for: BM25 over
documents, and over each message of a leaf together with the one before it.

Exact ranking would read every posting of every term. Here only lists that are short in sum are
read whole, of longer ones the newest part; the best documents found there are then scored by all
the heaviest terms. So the work is bounded, however long the lineage.
"""

from typing import Final, NamedTuple

from durable_context.embeddings.query import similar_leaves
from durable_context.prompts.term_query import EXACT, WEIGHED_TERMS

HITS: Final = 3
"""Hits for each block that a prompt may show: hits that stand side by side share one."""


class Bounds(NamedTuple):
    """How much is read. Of the heaviest `terms` lists of postings are read whole, rarest first, up
    to `whole` leaves in sum (and `others`: nodes and artifacts), and of each other list the
    `newest`. The best `candidates` of this first look are scored with these terms.
    """

    terms: int
    whole: int
    newest: int
    candidates: int
    others: int = 200


BOUNDS: Final = Bounds(terms=16, whole=3_000, newest=16, candidates=16)

K1: Final = 0.9
B: Final = 0.5
MESSAGE_K1: Final = 0.9
MESSAGE_B: Final = 0.75
MESSAGE: Final = 2.0
"""BM25's constants, and how often the best message counts beside its leaf: chosen on three
conversations of LoCoMo and checked on two others; a flat optimum.
"""
LONGEST: Final = 4
"""Times the mean length that a document counts as at most: of a long file a passage answers."""
UNSPOKEN: Final = 0.8
"""What has no messages (a node, an artifact) gets this share of its score for its best message:
about what leaves have.
"""
ABOVE: Final = 0.5
"""A node says less of what it covers than its leaves do, and gets this share of its score."""
SIMILAR: Final = 1.0
"""Where the query has a vector: what the leaf nearest to it gets, as a term would that no leaf has,
so many times. Others get less, down to nothing for the last of those that are found.
"""
NEAR: Final = 0.25
"""Cosine below which a vector is a stranger's."""

LEAST_SHARE: Final = 0.15
"""Share of the query's weight that the best hit must hold in one place ..."""
ENOUGH: Final = 2.0
"""... or the weight of so many terms that no leaf has, if that is less ..."""
LEAST: Final = 0.15
"""... and never less than this of one such term: common words do not retrieve."""
BESIDE_BEST: Final = 0.5
"""Share of that which is enough for what comes beside the best hit ..."""
WEAKEST: Final = 0.2
"""... if it has this share of its score."""

_LISTS = """, lists as materialized (
    select q.term, q.weight,
        case when sum(q.leaves) over (order by q.leaves, q.term) <= {bounds.whole}
            then q.leaves::integer + {bounds.others} else {bounds.newest} end as postings
    from (select * from query order by weight desc, term limit {bounds.terms}) q
)"""

_BM25 = f"""sum(({EXACT} * q.weight * p.frequency * {K1 + 1:.1f}::float8 / (p.frequency
        + {K1}::float8 * ({1 - B}::float8 + {B}::float8
            * least(p.length / s.mean_length, {LONGEST}))))::integer)"""

_CANDIDATES = f""", standing as materialized (
    select n.level, n.to_turn from branch b
    join durable_context.visible_checkpoints c on c.tenant = $1 and c.seen_by = $2
        and c.turn_no = b.checkpoint_turn
    cross join unnest(c.frontier) f (summary_id)
    join durable_context.summaries n on n.tenant = $1 and n.summary_id = f.summary_id
), candidates as materialized (
    (select p.branch_uuid, p.to_turn, p.level, p.artifact_no
    from branch b cross join stats s cross join lists q
    join durable_context.lineage a on a.tenant = $1 and a.branch_uuid = $2
    cross join lateral (
        select p.branch_uuid, p.to_turn, p.level, p.artifact_no, p.frequency, p.length
        from durable_context.postings p
        where p.branch_uuid = a.ancestor_uuid and p.term = q.term
            and p.to_turn <= least(a.compacted_turn, b.artifact_turn)
            and p.artifact_no <= a.artifact_limit
            and (p.artifact_no > 0 or p.to_turn <= b.checkpoint_turn)
        order by p.to_turn desc limit q.postings
    ) p
    where p.level = 0 or not exists (
        select from standing n where n.level = p.level and n.to_turn = p.to_turn
    )
    group by p.branch_uuid, p.to_turn, p.level, p.artifact_no
    order by case when p.level > 0 then {ABOVE}::float8 else 1 end * {_BM25} desc, p.to_turn desc,
        p.level, p.artifact_no, p.branch_uuid
    limit {{bounds.candidates}}){{similar_candidates}}
), documents as materialized (
    select d.branch_uuid, d.to_turn, d.level, d.artifact_no, d.from_turn, d.turn_messages,
        d.message_lengths
    from candidates c join durable_context.indexed_documents d on d.branch_uuid = c.branch_uuid
        and d.to_turn = c.to_turn and d.level = c.level and d.artifact_no = c.artifact_no
    union all
    select f.branch_uuid, f.turn_no, -1, 0, f.turn_no,
        array[cardinality(f.message_terms)],
        array(select length(m.terms) from unnest(f.message_terms) m (terms))
    from fresh f
), arrays as materialized ( -- faster than a join with the terms
    select array_agg(q.term order by q.term) as terms,
        array_agg(q.weight order by q.term) as weights
    from lists q
), matched as materialized (
    select p.branch_uuid, p.to_turn, p.level, p.artifact_no, p.term,
        q.weights[array_position(q.terms, p.term)] as weight, p.frequency,
        least(p.length / s.mean_length, {LONGEST}) as length, p.places
    from candidates c cross join arrays q cross join stats s cross join lateral (
        select p.* from durable_context.postings p
        where p.branch_uuid = c.branch_uuid and p.term = any (q.terms)
            and p.to_turn = c.to_turn and p.level = c.level and p.artifact_no = c.artifact_no
    ) p
    union all
    select f.branch_uuid, f.turn_no, -1, 0, q.term, q.weight, f.frequency, f.length, f.places
    from fresh_postings f join lists q on q.term = f.term{{similar_matched}}
)"""

_SCORED = f""", said as materialized (
    select greatest(2 * avg(u.length), 1)::float8 as mean_length
    from documents d cross join unnest(d.message_lengths) u (length)
), spoken as materialized (
    select w.branch_uuid, w.to_turn, w.level, w.artifact_no, w.place,
        sum(({EXACT} * w.weight)::integer) / {EXACT}::float8 as matched,
        sum(({EXACT} * w.weight * w.frequency * {MESSAGE_K1 + 1:.1f}::float8 / (w.frequency
            + {MESSAGE_K1}::float8 * ({1 - MESSAGE_B}::float8 + {MESSAGE_B}::float8
                * (d.message_lengths[w.place] + coalesce(d.message_lengths[w.place - 1], 0))
                / n.mean_length)))::integer) / {EXACT}::float8 as score
    from (
        select m.branch_uuid, m.to_turn, m.level, m.artifact_no, m.weight, e.place, e.frequency
        from matched m cross join lateral (
            select u.place, lag(u.place, 1, -1) over before as last,
                lead(u.place, 1, 99999) over before as next
            from (
                select 256 * get_byte(m.places, 2 * i) + get_byte(m.places, 2 * i + 1) as place
                from generate_series(0, length(m.places) / 2 - 1) i
            ) u window before as (order by u.place)
        ) u cross join lateral (
            select u.place, case when u.last = u.place - 1 then 2 else 1 end as frequency
            union all
            select u.place + 1, 1 where u.next > u.place + 1
        ) e
    ) w
    join documents d on d.branch_uuid = w.branch_uuid and d.to_turn = w.to_turn
        and d.level = w.level and d.artifact_no = w.artifact_no
    cross join said n
    where w.place <= cardinality(d.message_lengths)
    group by w.branch_uuid, w.to_turn, w.level, w.artifact_no, w.place
), scored as (
    select m.branch_uuid, m.to_turn, m.level, m.artifact_no,
        sum(({EXACT} * m.weight)::integer) / {EXACT}::float8 as matched,
        sum(({EXACT} * m.weight * m.frequency * {K1 + 1:.1f}::float8 / (m.frequency
            + {K1}::float8 * ({1 - B}::float8 + {B}::float8 * m.length)))::integer)
            / {EXACT}::float8 as score
    from matched m group by m.branch_uuid, m.to_turn, m.level, m.artifact_no
), weighed as materialized (
    select distinct on (c.level, c.to_turn, c.artifact_no) -- an artifact may be indexed twice
        c.branch_uuid, c.to_turn, c.level, c.artifact_no, coalesce(p.matched, c.matched) as matched,
        case when c.level > 0 then {ABOVE}::float8 else 1 end * (
            c.score + {MESSAGE}::float8 * coalesce(p.score, {UNSPOKEN}::float8 * c.score)
        ) as score
    from scored c left join (
        select p.branch_uuid, p.to_turn, p.level, p.artifact_no, max(p.score) as score,
            max(p.matched) as matched
        from spoken p group by p.branch_uuid, p.to_turn, p.level, p.artifact_no
    ) p on p.branch_uuid = c.branch_uuid and p.to_turn = c.to_turn and p.level = c.level
        and p.artifact_no = c.artifact_no
    order by c.level, c.to_turn, c.artifact_no, c.score desc, c.branch_uuid
), ranked as (
    select w.* from weighed w cross join (
        select greatest({LEAST}::float8 * s.rarest, least(
            {LEAST_SHARE}::float8 * (select t.weight from total t),
            {ENOUGH}::float8 * s.rarest
        )) as matched
        from stats s
    ) least
    where (select max(w.matched) from weighed w) >= least.matched
        and w.matched >= {BESIDE_BEST}::float8 * least.matched
        and w.score >= {WEAKEST}::float8 * (select max(w.score) from weighed w)
), hits as materialized (
    select r.*, d.from_turn, d.turn_messages, row_number() over (
        order by r.score desc, r.to_turn desc, r.level, r.artifact_no
    ) as rank
    from ranked r join documents d on d.branch_uuid = r.branch_uuid and d.to_turn = r.to_turn
        and d.level = r.level and d.artifact_no = r.artifact_no
    order by rank limit {HITS} * $11::integer
)"""


# The turn nearest to the query's vector holds a term of its own, whose weight is the nearness.
_SIMILAR = f""", nearest as materialized (
    select n.branch_uuid, n.to_turn, n.turn_no, n.similarity,
        {SIMILAR}::float8 * s.rarest * coalesce((n.similarity - min(n.similarity) over ())
            / nullif(max(n.similarity) over () - min(n.similarity) over (), 0), 1
    ) as weight
    from branch b cross join stats s
    cross join {similar_leaves(vector="$vector", up_to="b.checkpoint_turn")} n
)"""
_SIMILAR_CANDIDATES = """
    union
    select n.branch_uuid, n.to_turn, 0::smallint, 0 from nearest n
"""
_SIMILAR_MATCHED = f"""
    union all
    select n.branch_uuid, n.to_turn, 0, 0, '', n.weight, 1, 1, (
        select string_agg(int2send(least(p.place, 32767)::smallint), '' order by p.place)
        from generate_series(
            w.before + 1, w.before + d.turn_messages[n.turn_no - d.from_turn + 1]
        ) p (place)
    )
    from nearest n join documents d on d.branch_uuid = n.branch_uuid and d.to_turn = n.to_turn
        and d.level = 0 and d.artifact_no = 0
    cross join lateral (
        select coalesce(sum(u.messages), 0) as before
        from unnest(d.turn_messages[:n.turn_no - d.from_turn]) u (messages)
    ) w
    where n.weight > 0 and n.similarity >= {NEAR}
"""


def ranking(bounds: Bounds = BOUNDS, *, similar: bool = False) -> str:
    """The part of the statement, up to `hits`; $11 is the number of blocks.

    `similar`: also by $vector, the query's.
    """
    candidates = (_LISTS + _CANDIDATES).format(
        bounds=bounds,
        similar_candidates=_SIMILAR_CANDIDATES if similar else "",
        similar_matched=_SIMILAR_MATCHED if similar else "",
    )
    return WEIGHED_TERMS + (_SIMILAR if similar else "") + candidates + _SCORED
