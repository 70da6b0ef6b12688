"""What an import writes: for each kind of record a statement, and the values of its parameters.

$1 is the tenant and $2 the new branch, where a row has one. Ids are new ones, and a function of the
new branch and the old id: a stream can name nothing outside itself.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, cast
from uuid import UUID, uuid5

from pydantic import BaseModel

from durable_context import stored_json
from durable_context.export_format import (
    ArtifactRecord,
    ArtifactSummaryRecord,
    CheckpointRecord,
    CompactionRecord,
    DocumentRecord,
    PromptPartsRecord,
    SummaryRecord,
    TurnRecord,
)

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
    indexed_documents = $5, indexed_terms = $6, artifact_count = $7
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
_ARTIFACT_SUMMARY = """
insert into durable_context.artifact_summaries (
    tenant, sha256, recipe, headline, text, token_count, input_tokens, made_by, degraded, usage,
    schema_version, created_at
) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) on conflict do nothing
"""

_PROMPT_PARTS = """
insert into durable_context.prompt_parts (tenant, hash, parts) values ($1, $2, $3)
on conflict do nothing
"""

_TURN = """
insert into durable_context.turns (
    tenant, branch_uuid, turn_no, turn_key, content_hash, messages, message_tokens, views,
    token_count, stored_tokens, raw_tokens, head_tokens, open_run_turn, artifact_count, outcome,
    continues, digest, digest_tokens, ledger, terms, occurred_at, recorded_at, usage, metadata,
    manifest, prompt_parts_hash, schema_version
) values (
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19,
    $20::text::tsvector, $21, $22, $23, $24, $25, $26, $27
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
    tenant, branch_uuid, from_turn, to_turn, artifact_no, length
) values ($1, $2, $3, $4, $5, $6)
"""

POSTING_COLUMNS = (
    "branch_uuid",
    "term",
    "to_turn",
    "from_turn",
    "frequency",
    "length",
    "artifact_no",
)

_COMPACTION = """
insert into durable_context.compactions (
    tenant, branch_uuid, from_turn, to_turn, status, reason, attempts, error, recipe, tokens_before,
    tokens_after, usage, workflow_id, run_id, started_at, finished_at
) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
"""

Values: TypeAlias = "tuple[Any, ...]"


class Insert(NamedTuple):
    """A statement, and its parameters from tenant, branch and record."""

    statement: str
    values: Callable[[str, UUID, Any], Values]


def new_id(branch_uuid: UUID, old: UUID) -> UUID:
    return uuid5(branch_uuid, old.hex)


def postings(branch_uuid: UUID, record: DocumentRecord) -> list[Values]:
    rest = (record.to_turn, record.from_turn)
    return [
        (branch_uuid, term, *rest, frequency, record.length, record.artifact_no)
        for term, frequency in record.frequencies.items()
    ]


def _artifact(tenant: str, branch_uuid: UUID, record: ArtifactRecord) -> Values:
    return (
        tenant,
        branch_uuid,
        record.artifact_no,
        record.handle,
        record.turn_no,
        record.source,
        record.message_no,
        record.part_no,
        record.name,
        record.version,
        record.media_type,
        bytes.fromhex(record.sha256),
        record.size,
        record.token_count,
        record.line_count,
        record.width,
        record.height,
        record.schema_version,
        record.created_at,
    )


def _artifact_summary(tenant: str, _: UUID, record: ArtifactSummaryRecord) -> Values:
    return (
        tenant,
        bytes.fromhex(record.sha256),
        record.recipe,
        record.headline,
        record.text,
        record.token_count,
        record.input_tokens,
        record.made_by,
        record.degraded,
        _dumped(record.usage),
        record.schema_version,
        record.created_at,
    )


def _prompt_parts(tenant: str, _: UUID, record: PromptPartsRecord) -> Values:
    return (tenant, bytes.fromhex(record.hash), record.parts)


def _turn(tenant: str, branch_uuid: UUID, record: TurnRecord) -> Values:
    return (
        tenant,
        branch_uuid,
        record.turn_no,
        record.turn_key,
        bytes.fromhex(record.content_hash),
        stored_json.dump_messages(record.messages),
        record.message_tokens,
        _views(record),
        record.token_count,
        record.stored_tokens,
        record.raw_tokens,
        record.head_tokens,
        record.open_run_turn,
        record.artifact_count,
        record.outcome,
        record.continues,
        record.digest,
        record.digest_tokens,
        _models(record.ledger),
        record.terms,
        record.occurred_at,
        record.recorded_at,
        _dumped(record.usage),
        _dumped(record.metadata),
        _dumped(_renamed_sources(record.manifest, branch_uuid)),
        bytes.fromhex(record.prompt_parts_hash) if record.prompt_parts_hash else None,
        record.schema_version,
    )


def _summary(tenant: str, branch_uuid: UUID, record: SummaryRecord) -> Values:
    return (
        tenant,
        branch_uuid,
        new_id(branch_uuid, record.summary_id),
        record.level,
        record.from_turn,
        record.to_turn,
        record.recipe,
        bytes.fromhex(record.input_hash),
        record.revision,
        record.headline,
        record.text,
        record.token_count,
        record.input_tokens,
        record.covered_tokens,
        record.made_by,
        record.degraded,
        _dumped(record.usage),
        record.schema_version,
        record.created_at,
    )


def _checkpoint(tenant: str, branch_uuid: UUID, record: CheckpointRecord) -> Values:
    return (
        tenant,
        branch_uuid,
        new_id(branch_uuid, record.checkpoint_id),
        record.turn_no,
        new_id(branch_uuid, record.parent_id) if record.parent_id else None,
        [new_id(branch_uuid, node) for node in record.frontier],
        record.leaf_count,
        stored_json.dumps(_sections(record, branch_uuid)),
        _models(record.ledger),
        record.text,
        record.token_count,
        stored_json.dumps(record.token_usage),
        record.artifact_handles,
        record.schema_version,
        record.created_at,
    )


def _document(tenant: str, branch_uuid: UUID, record: DocumentRecord) -> Values:
    return (
        tenant,
        branch_uuid,
        record.from_turn,
        record.to_turn,
        record.artifact_no,
        record.length,
    )


def _compaction(tenant: str, branch_uuid: UUID, record: CompactionRecord) -> Values:
    return (
        tenant,
        branch_uuid,
        record.from_turn,
        record.to_turn,
        record.status,
        record.reason,
        record.attempts,
        record.error,
        record.recipe,
        record.tokens_before,
        record.tokens_after,
        stored_json.dumps(record.usage),
        record.workflow_id,
        record.run_id,
        record.started_at,
        record.finished_at,
    )


INSERTS: dict[str, Insert] = {
    "artifact": Insert(_ARTIFACT, _artifact),
    "artifact_summary": Insert(_ARTIFACT_SUMMARY, _artifact_summary),
    "prompt_parts": Insert(_PROMPT_PARTS, _prompt_parts),
    "turn": Insert(_TURN, _turn),
    "summary": Insert(_SUMMARY, _summary),
    "checkpoint": Insert(_CHECKPOINT, _checkpoint),
    "document": Insert(_DOCUMENT, _document),
    "compaction": Insert(_COMPACTION, _compaction),
}


def _dumped(value: object) -> str | None:
    return None if value is None else stored_json.dumps(value)


def _models(models: "tuple[BaseModel, ...]") -> str:
    return stored_json.dumps([model.model_dump(exclude_defaults=True) for model in models])


def _views(record: TurnRecord) -> str | None:
    if record.views is None:
        return None
    return stored_json.dumps(
        {
            position: view.model_dump(exclude_defaults=True)
            for position, view in record.views.items()
        }
    )


def _sections(record: CheckpointRecord, branch_uuid: UUID) -> list[dict[str, Any]]:
    sections = [section.model_dump() for section in record.sections]
    for section in sections:
        if "id" in section:
            section["id"] = str(new_id(branch_uuid, section["id"]))
    return sections


def _renamed_sources(manifest: dict[str, Any] | None, branch_uuid: UUID) -> dict[str, Any] | None:
    """The manifest with the new ids of the checkpoint and the summaries its blocks name."""
    blocks = (manifest or {}).get("blocks")
    if manifest is None or not isinstance(blocks, list):
        return manifest
    return manifest | {
        "blocks": [_renamed(block, branch_uuid) for block in cast(list[Any], blocks)]
    }


def _renamed(block: Any, branch_uuid: UUID) -> Any:
    if not isinstance(block, dict):
        return block
    fields = cast(dict[str, Any], block)
    sources = fields.get("source_ids")
    if not isinstance(sources, list):
        return fields
    return fields | {
        "source_ids": [_new_source(one, branch_uuid) for one in cast(list[Any], sources)]
    }


def _new_source(source: Any, branch_uuid: UUID) -> Any:
    try:
        return str(new_id(branch_uuid, UUID(source)))
    except (ValueError, TypeError, AttributeError):
        return source
