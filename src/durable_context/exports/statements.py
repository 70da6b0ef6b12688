"""What an import writes: a statement for each kind of record, whose parameters are the tenant, the
new branch where a row has one, and the record's fields in their order.

Ids are new ones, each a function of the new branch and the old id: a stream can name nothing but
what is in it.
"""

from typing import Any, Final, NamedTuple, TypeAlias, cast
from uuid import UUID, uuid5

from pydantic import BaseModel

from durable_context import stored_json
from durable_context.exports.records import DocumentRecord, NodeSection, ShortForm

BRANCH = """
insert into durable_context.branches (tenant, conversation_id, branch_id, encoding, text_search)
values ($1, $2, $3, $4, $5::text::regconfig) on conflict do nothing returning branch_uuid
"""

TEXT_SEARCH = "select oid from pg_catalog.pg_ts_config where oid = $1::text::regconfig"

HEAD = """
update durable_context.branches set head_turn = $3, head_tokens = $4, open_run_turn = $5,
    last_turn_at = $6
where tenant = $1 and branch_uuid = $2
"""
FIGURES = """
update durable_context.branches set checkpoint_turn = $3, checkpoint_tokens = $4,
    artifact_count = $5
where tenant = $1 and branch_uuid = $2
"""

KEEP_CONTENTS = "select durable_context.keep_contents($1, $2, $3, $4, $5, $6)"

_ARTIFACT = """
insert into durable_context.artifacts (
    tenant, branch_uuid, artifact_no, handle, turn_no, source, message_no, part_no, name, version,
    media_type, sha256, size, token_count, line_count, width, height, schema_version, created_at
) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)
"""

# Summaries of a content the tenant already has stay as they are.
# Summaries belong to the tenant's content. Where it was there before this import (the beginning of
# which is now()) with one, other branches show that, and it stays the only one.
_ARTIFACT_SUMMARY = """
insert into durable_context.artifact_summaries (
    tenant, sha256, recipe, headline, text, token_count, input_tokens, made_by, degraded, usage,
    schema_version, created_at
)
select $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12
where exists (
    select from durable_context.artifact_contents c
    where c.tenant = $1 and c.sha256 = $2 and c.created_at >= now()
) or not exists (
    select from durable_context.artifact_summaries s where s.tenant = $1 and s.sha256 = $2
)
on conflict do nothing
"""

_PROMPT_PARTS = """
insert into durable_context.prompt_parts (tenant, hash, parts) values ($1, $2, $3)
on conflict do nothing
"""

_TURN = """
insert into durable_context.turns (
    tenant, branch_uuid, turn_no, turn_key, content_hash, messages, message_tokens, views,
    token_count, stored_tokens, raw_tokens, head_tokens, open_run_turn, artifact_count, outcome,
    continues, digest, digest_tokens, ledger, message_terms, speakers, occurred_at, recorded_at,
    usage, metadata, manifest, prompt_parts_hash, schema_version
) values (
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19,
    $20::text[]::tsvector[], $21, $22, $23, $24, $25, $26, $27, $28
)
"""

_SUMMARY = """
insert into durable_context.summaries (
    tenant, branch_uuid, summary_id, level, from_turn, to_turn, recipe, input_hash, revision, state,
    headline, text, token_count, input_tokens, covered_tokens, made_by, degraded, usage,
    schema_version, created_at
) values (
    $1, $2, $3, $4, $5, $6, $7, $8, $9, 'current', $10, $11, $12, $13, $14, $15, $16, $17, $18, $19
)
"""

_CHECKPOINT = """
insert into durable_context.checkpoints (
    tenant, branch_uuid, checkpoint_id, turn_no, parent_id, frontier, leaf_count, sections, ledger,
    text, token_count, token_usage, artifact_handles, schema_version, created_at
) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
"""

_DOCUMENT = """
insert into durable_context.indexed_documents (
    tenant, branch_uuid, to_turn, level, artifact_no, from_turn, length, nth, total_length,
    turn_messages, message_lengths, summary_id
) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, (
    select s.summary_id from durable_context.summaries s
    where s.tenant = $1 and s.branch_uuid = $2 and s.level = $4 and s.from_turn = $6
        and s.to_turn = $3 and $5::integer = 0
))
"""

POSTING_COLUMNS = (
    "branch_uuid",
    "term",
    "to_turn",
    "level",
    "artifact_no",
    "length",
    "frequency",
    "nth",
    "places",
)

_COMPACTION = """
insert into durable_context.compactions (
    tenant, branch_uuid, from_turn, to_turn, status, reason, attempts, error, recipe, tokens_before,
    tokens_after, usage, workflow_id, run_id, started_at, finished_at, level, focus, input_tokens,
    output_tokens, price, head_turn, saved_tokens, broken_tokens
) values (
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21,
    $22, $23, $24
)
"""

_PIN = """
insert into durable_context.pins (tenant, branch_uuid, turn_no, kind, value, pinned_at)
values ($1, $2, $3, coalesce($4, ''), coalesce($5, ''), $6)
"""

Values: TypeAlias = "tuple[Any, ...]"


class Insert(NamedTuple):
    """`of_branch`: the rows are a branch's, not the tenant's."""

    statement: str
    of_branch: bool = True


INSERTS: Final = {
    "artifact": Insert(_ARTIFACT),
    "artifact_summary": Insert(_ARTIFACT_SUMMARY, of_branch=False),
    "prompt_parts": Insert(_PROMPT_PARTS, of_branch=False),
    "turn": Insert(_TURN),
    "summary": Insert(_SUMMARY),
    "checkpoint": Insert(_CHECKPOINT),
    "document": Insert(_DOCUMENT),
    "compaction": Insert(_COMPACTION),
    "pin": Insert(_PIN),
}

_NOT_OF_THE_ROW: Final = {"kind", "postings"}
_HASHES: Final = {"sha256", "hash", "content_hash", "input_hash", "prompt_parts_hash"}
_IDS: Final = {"summary_id", "checkpoint_id", "parent_id"}
_JSON: Final = {"usage", "metadata", "token_usage"}


def values(tenant: str, branch_uuid: UUID, record: BaseModel, insert: Insert) -> Values:
    """Parameters of the statement."""
    fields = (
        _value(name, getattr(record, name), branch_uuid)
        for name in type(record).model_fields
        if name not in _NOT_OF_THE_ROW
    )
    return (tenant, branch_uuid, *fields) if insert.of_branch else (tenant, *fields)


def postings(branch_uuid: UUID, record: DocumentRecord) -> list[Values]:
    document = (record.to_turn, record.level, record.artifact_no, record.length)
    return [
        (branch_uuid, term, *document, frequency, nth, bytes.fromhex(places))
        for term, (frequency, nth, places) in record.postings.items()
    ]


def new_id(branch_uuid: UUID, old: UUID) -> UUID:
    return uuid5(branch_uuid, old.hex)


def _value(name: str, value: Any, branch_uuid: UUID) -> Any:
    if value is None:
        return None
    if name in _HASHES:
        return bytes.fromhex(value)
    if name in _IDS:
        return new_id(branch_uuid, value)
    if name in _JSON:
        return stored_json.dumps(value)
    match name:
        case "frontier":
            return [new_id(branch_uuid, node) for node in value]
        case "messages":
            return stored_json.dump_messages(value)
        case "ledger":
            return stored_json.dumps([entry.model_dump(exclude_defaults=True) for entry in value])
        case "views":
            return _views(value)
        case "sections":
            return stored_json.dumps([_section(part, branch_uuid) for part in value])
        case "manifest":
            return stored_json.dumps(_manifest(value, branch_uuid))
        case _:
            return value


def _views(views: dict[str, ShortForm]) -> str:
    return stored_json.dumps(
        {position: view.model_dump(exclude_defaults=True) for position, view in views.items()}
    )


def _section(section: BaseModel, branch_uuid: UUID) -> dict[str, Any]:
    fields = section.model_dump(exclude_none=True)
    if "facts" in fields:
        fields["facts"] = stored_json.dumps(fields["facts"])
    if isinstance(section, NodeSection):
        fields["id"] = str(new_id(branch_uuid, section.id))
    return fields


def _manifest(manifest: dict[str, Any], branch_uuid: UUID) -> dict[str, Any]:
    """With the new ids of the checkpoint and the summaries that its blocks name."""
    blocks = manifest.get("blocks")
    if not isinstance(blocks, list):
        return manifest
    return manifest | {"blocks": [_block(one, branch_uuid) for one in cast(list[Any], blocks)]}


def _block(block: Any, branch_uuid: UUID) -> Any:
    if not isinstance(block, dict):
        return block
    fields = cast(dict[str, Any], block)
    sources = fields.get("source_ids")
    if not isinstance(sources, list):
        return fields
    renamed = [_source(one, branch_uuid) for one in cast(list[Any], sources)]
    return fields | {"source_ids": renamed}


def _source(source: Any, branch_uuid: UUID) -> Any:
    try:
        return str(new_id(branch_uuid, UUID(source)))
    except (ValueError, TypeError, AttributeError):
        return source
