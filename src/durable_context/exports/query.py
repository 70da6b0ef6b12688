"""What an export reads: everything a branch sees, its ancestors' rows as if they were its own.

Parameters: $1 tenant, $2 branch. Columns are named as the fields of the records are.
"""

BRANCH = """
select b.conversation_id, b.branch_id, b.created_at, b.last_turn_at, b.encoding,
    b.text_search::text as text_search, b.head_turn, b.head_tokens, b.open_run_turn,
    b.checkpoint_turn, b.checkpoint_tokens,
    (
        select json_agg(
            json_build_object('branch_id', a.branch_id, 'to_turn', l.to_turn) order by l.depth
        )
        from durable_context.lineage l
        join durable_context.branches a on a.tenant = l.tenant and a.branch_uuid = l.ancestor_uuid
        where l.tenant = b.tenant and l.branch_uuid = b.branch_uuid and l.depth > 0
    ) as lineage
from durable_context.branches b where b.tenant = $1 and b.branch_uuid = $2
"""

# Artifact numbers count along the lineage, with gaps where a branch was forked before others came.
# The copy counts without. A document that a child and later its parent indexed is there once, and
# one of a node that only a fork still sees is not there.
_SEEN = """
with artifacts as (
    select a.*, row_number() over (order by a.artifact_no)::integer as new_no
    from durable_context.visible_artifacts a where a.tenant = $1 and a.seen_by = $2
), documents as (
    select distinct on (d.to_turn, d.level, d.artifact_no) d.*
    from durable_context.lineage l
    join durable_context.indexed_documents d
        on d.tenant = l.tenant and d.branch_uuid = l.ancestor_uuid
        and d.to_turn <= case when d.artifact_no <= 0 then l.compacted_turn else l.to_turn end
        and d.artifact_no <= l.artifact_limit
    where l.tenant = $1 and l.branch_uuid = $2 and (d.artifact_no > 0 or exists (
        select from durable_context.visible_summaries s
        where s.tenant = $1 and s.seen_by = $2 and s.branch_uuid = d.branch_uuid
            and s.level = d.level and s.from_turn = d.from_turn and s.to_turn = d.to_turn
    ))
    order by d.to_turn, d.level, d.artifact_no, l.depth
)"""

_CONTENTS = """
from durable_context.artifact_contents c where c.tenant = $1 and c.sha256 in (
    select a.sha256 from durable_context.visible_artifacts a where a.tenant = $1 and a.seen_by = $2
)"""

_ARTIFACT_SUMMARIES = """
from durable_context.artifact_summaries s where s.tenant = $1 and s.sha256 in (
    select a.sha256 from durable_context.visible_artifacts a where a.tenant = $1 and a.seen_by = $2
)"""

_PROMPT_PARTS = """
from durable_context.prompt_parts p where p.tenant = $1 and p.hash in (
    select t.prompt_parts_hash from durable_context.visible_turns t
    where t.tenant = $1 and t.seen_by = $2
)"""

# Older checkpoints name nodes as they were then, exports what the branch has instead by now.
_CHECKPOINTS = """
from durable_context.visible_checkpoints c cross join lateral (
    select array_agg(n.summary_id order by f.position) as frontier,
        count(*) = count(n.summary_id) as whole
    from unnest(c.frontier) with ordinality f (summary_id, position)
    left join durable_context.summaries o on o.tenant = $1 and o.summary_id = f.summary_id
    left join durable_context.visible_summaries n on n.tenant = $1 and n.seen_by = $2
        and n.level = o.level and n.from_turn = o.from_turn and n.to_turn = o.to_turn
) by_now
where c.tenant = $1 and c.seen_by = $2 and by_now.whole
"""

# Of those that are running nobody here knows the end.
_COMPACTIONS = """
from durable_context.compactions c
where c.tenant = $1 and c.branch_uuid = $2 and c.status <> 'running'
"""

COUNTS = f"""{_SEEN}
select
    (select count(*) {_CONTENTS}) as contents,
    (select count(*) from durable_context.visible_artifacts a
        where a.tenant = $1 and a.seen_by = $2) as artifacts,
    (select count(*) {_ARTIFACT_SUMMARIES}) as artifact_summaries,
    (select count(*) {_PROMPT_PARTS}) as prompt_parts,
    (select count(*) from durable_context.visible_turns t
        where t.tenant = $1 and t.seen_by = $2) as turns,
    (select count(*) from durable_context.visible_summaries s
        where s.tenant = $1 and s.seen_by = $2) as summaries,
    (select count(*) {_CHECKPOINTS}) as checkpoints,
    (select count(*) from documents) as documents,
    (select count(*) {_COMPACTIONS}) as compactions,
    (select count(*) from durable_context.pins p
        where p.tenant = $1 and p.branch_uuid = $2) as pins
"""

# Sizes first, so that a page is chosen by its bytes.
CONTENT_SIZES = f"select c.sha256, c.size {_CONTENTS} order by c.sha256"
CONTENTS = """
select c.sha256, c.size, c.compression, c.data, c.object_key
from durable_context.artifact_contents c
where c.tenant = $1 and c.sha256 = any($2::bytea[]) order by c.sha256
"""
TURN_SIZES = """
select t.turn_no, octet_length(t.messages::text) + octet_length(t.message_terms::text) as size
from durable_context.visible_turns t where t.tenant = $1 and t.seen_by = $2 order by t.turn_no
"""
# A child may have used the turn key of an inherited turn again. Nobody looks for that one any more.
TURNS = """
select t.turn_no, case when t.branch_uuid <> $2 and exists (
        select from durable_context.visible_turns l
        where l.tenant = $1 and l.seen_by = $2 and l.turn_key = t.turn_key and l.turn_no > t.turn_no
    ) then 'inherited-' || t.turn_no || '-' || md5(t.turn_key) else t.turn_key end as turn_key,
    t.content_hash, t.messages, t.message_tokens, t.views, t.token_count, t.stored_tokens,
    t.raw_tokens, t.head_tokens, t.open_run_turn, t.artifact_count, t.outcome, t.continues,
    t.digest, t.digest_tokens, t.ledger, t.message_terms::text[] as message_terms, t.speakers,
    t.occurred_at, t.recorded_at, t.usage, t.metadata, t.manifest, t.prompt_parts_hash,
    t.schema_version
from durable_context.visible_turns t
where t.tenant = $1 and t.seen_by = $2 and t.turn_no between $3 and $4 order by t.turn_no
"""

ARTIFACTS = f"""{_SEEN}
select a.new_no as artifact_no, a.handle, a.turn_no, a.source,
    a.message_no, a.part_no, a.name, a.version, a.media_type, a.sha256, a.size, a.token_count,
    a.line_count, a.width, a.height, a.schema_version, a.created_at
from artifacts a order by a.new_no
"""

ARTIFACT_SUMMARIES = f"""
select s.sha256, s.recipe, s.headline, s.text, s.token_count, s.input_tokens, s.made_by, s.degraded,
    s.usage, s.schema_version, s.created_at
{_ARTIFACT_SUMMARIES} order by s.sha256, s.recipe
"""

PROMPT_PARTS = f"select p.hash, p.parts {_PROMPT_PARTS} order by p.hash"

SUMMARIES = """
select s.summary_id, s.level, s.from_turn, s.to_turn, s.recipe, s.input_hash, s.revision,
    s.headline, s.text, s.token_count, s.input_tokens, s.covered_tokens, s.made_by, s.degraded,
    s.usage, s.schema_version, s.created_at
from durable_context.visible_summaries s where s.tenant = $1 and s.seen_by = $2
order by s.to_turn, s.level
"""

CHECKPOINTS = f"""
select c.checkpoint_id, c.turn_no,
    lag(c.checkpoint_id) over (order by c.turn_no) as parent_id, by_now.frontier, c.leaf_count,
    c.frontier as of_sections, c.sections, c.ledger, c.text, c.token_count, c.token_usage,
    c.artifact_handles, c.schema_version, c.created_at
{_CHECKPOINTS} order by c.turn_no
"""

# Postings are grouped once: no index finds those of one document. Each ancestor numbers its leaves,
# and the leaves that hold a term, from 1; the copy numbers them through.
DOCUMENTS = f"""{_SEEN}, posted as materialized (
    select p.branch_uuid, p.to_turn, p.level, p.artifact_no, json_object_agg(
        p.term, json_build_array(p.frequency, p.nth, encode(p.places, 'hex'))
        order by p.term collate "C"
    ) as postings
    from (
        select p.branch_uuid, p.to_turn, p.level, p.artifact_no, p.term, p.frequency, p.places,
            case when p.nth > 0 then row_number() over (
                partition by p.term, p.nth > 0 order by p.to_turn
            ) else 0 end as nth
        from documents d join durable_context.postings p
            on (p.branch_uuid, p.to_turn, p.level, p.artifact_no)
            = (d.branch_uuid, d.to_turn, d.level, d.artifact_no)
        where p.branch_uuid in (
            select l.ancestor_uuid from durable_context.lineage l
            where l.tenant = $1 and l.branch_uuid = $2
        )
    ) p
    group by p.branch_uuid, p.to_turn, p.level, p.artifact_no
)
select d.to_turn, d.level, coalesce(a.new_no, 0) as artifact_no, d.from_turn, d.length,
    case when d.nth > 0 then row_number() over leaves else 0 end as nth,
    case when d.nth > 0 then sum(d.length) over leaves else 0 end::bigint as total_length,
    d.turn_messages, d.message_lengths, coalesce(p.postings, '{{}}') as postings
from documents d
left join artifacts a on a.artifact_no = d.artifact_no
left join posted p on (p.branch_uuid, p.to_turn, p.level, p.artifact_no)
    = (d.branch_uuid, d.to_turn, d.level, d.artifact_no)
window leaves as (partition by d.nth > 0 order by d.to_turn)
order by d.to_turn, d.level, artifact_no
"""

COMPACTIONS = f"""
select c.from_turn, c.to_turn, c.status, c.reason, c.attempts, c.error, c.recipe, c.tokens_before,
    c.tokens_after, c.usage, c.workflow_id, c.run_id, c.started_at, c.finished_at, c.level, c.focus,
    c.input_tokens, c.output_tokens, c.price::text as price, c.head_turn, c.saved_tokens,
    c.broken_tokens
{_COMPACTIONS} order by c.started_at, c.from_turn, c.compaction_id
"""

PINS = """
select p.turn_no, nullif(p.kind, '') as fact_kind, nullif(p.value, '') as fact, p.pinned_at
from durable_context.pins p where p.tenant = $1 and p.branch_uuid = $2
order by p.turn_no, p.kind collate "C", p.value collate "C"
"""
