"""Statements that damage a branch, $1, and the findings that each leads to."""

Place = tuple[str, int | None, int | None]

OF_TURNS: dict[str, tuple[str, set[Place]]] = {
    "messages of a turn": (
        'update durable_context.turns set messages = \'[{"role":"user","content":"No"}]\''
        " where branch_uuid = $1 and turn_no = 3",
        {("turn_hash", 3, 3)},
    ),
    "messages of a turn with views of artifacts": (
        "update durable_context.turns set messages = replace(messages::text, 'Worn', 'Fine')::json"
        " where branch_uuid = $1 and turn_no = 9",
        {("turn_hash", 9, 9)},
    ),
    "outcome of a turn of before there was a stored hash": (
        "update durable_context.turns set stored_hash = null, outcome = 'failed'"
        " where branch_uuid = $1 and turn_no = 3",
        {("turn_hash", 3, 3)},
    ),
    "a turn that can be read no more": (
        "update durable_context.turns set content_hash = sha256('x'), messages = '[5]'"
        " where branch_uuid = $1 and turn_no = 9",
        {("turn_hash", 9, 9)},
    ),
    "the ledger of a turn that can be read no more": (
        "update durable_context.turns set content_hash = sha256('x'), ledger = '[5]'"
        " where branch_uuid = $1 and turn_no = 9",
        {("turn_hash", 9, 9)},
    ),
    "digest of a turn": (
        "update durable_context.turns set digest = ' Nothing.' where branch_uuid = $1"
        " and turn_no = 12",
        {("turn_hash", 12, 12)},
    ),
    "content hash of a turn of a leaf": (
        "update durable_context.turns set content_hash = sha256('x') where branch_uuid = $1"
        " and turn_no = 3",
        {("turn_hash", 3, 3), ("node_input", 3, 4)},
    ),
    "a turn": (
        "delete from durable_context.turns where branch_uuid = $1 and turn_no = 12",
        {("turn_numbers", 12, 12)},
    ),
    "the newest turn": (
        "delete from durable_context.turns where branch_uuid = $1 and turn_no = 15",
        {("branch_head", None, None), ("turn_artifacts", 15, 15)},
    ),
    "the tokens of a turn": (
        "update durable_context.turns set stored_tokens = stored_tokens + 1"
        " where branch_uuid = $1 and turn_no = 5",
        {("turn_tokens", 5, 5)},
    ),
    "the tokens of a message": (
        "update durable_context.turns set message_tokens[1] = 7777"
        " where branch_uuid = $1 and turn_no = 5",
        {("turn_tokens", 5, 5)},
    ),
    "prompt parts": (
        "update durable_context.prompt_parts set parts = '{}' where hash in ("
        " select prompt_parts_hash from durable_context.turns where branch_uuid = $1)",
        {("prompt_parts_hash", 11, 13)},
    ),
}
OF_BRANCHES: dict[str, tuple[str, set[Place]]] = {
    "the head": (
        "update durable_context.branches set head_turn = 14 where branch_uuid = $1",
        {("branch_head", None, None)},
    ),
    "the head's tokens": (
        "update durable_context.branches set head_tokens = 14 where branch_uuid = $1",
        {("branch_head", None, None)},
    ),
    "the open run": (
        "update durable_context.branches set open_run_turn = null where branch_uuid = $1",
        {("branch_head", None, None)},
    ),
    "the checkpoint's turn": (
        "update durable_context.branches set checkpoint_turn = 8 where branch_uuid = $1",
        {("branch_checkpoint", None, None), ("node_cover", None, None)},
    ),
    "the checkpoint's tokens": (
        "update durable_context.branches set checkpoint_tokens = 8 where branch_uuid = $1",
        {("branch_checkpoint", None, None)},
    ),
    "the number of artifacts": (
        "update durable_context.branches set artifact_count = 99 where branch_uuid = $1",
        {("branch_artifacts", None, None)},
    ),
    "the publications": (
        "update durable_context.branches set publication = 4 where branch_uuid = $1",
        {("node_order", 9, 10), ("checkpoint_order", 10, 10)},
    ),
}
OF_NODES: dict[str, tuple[str, set[Place]]] = {
    "the text of a leaf": (
        "update durable_context.summaries set text = 'Nothing.' where branch_uuid = $1"
        " and level = 0 and from_turn = 3",
        {("node_hash", 3, 4), ("node_input", 1, 4)},
    ),
    "the input of a merged node": (
        "update durable_context.summaries set input_hash = sha256('x') where branch_uuid = $1"
        " and level = 1 and from_turn = 1",
        {("node_input", 1, 4)},
    ),
    "the input of a leaf": (
        "update durable_context.summaries set input_hash = sha256('x') where branch_uuid = $1"
        " and level = 0 and from_turn = 1",
        {("node_input", 1, 2)},
    ),
    "the state of a node": (
        "update durable_context.summaries set replaced_in = 1 where branch_uuid = $1"
        " and level = 0 and from_turn = 1",
        {("node_order", 1, 2), ("node_cover", 1, 2)},
    ),
    "a node twice": (
        "insert into durable_context.summaries (tenant, branch_uuid, level, from_turn, to_turn,"
        " recipe, input_hash, headline, text, token_count, input_tokens, covered_tokens, made_by,"
        " state, published_in)"
        " select tenant, branch_uuid, level, from_turn + 1, to_turn, 'other', input_hash, headline,"
        " text, token_count, input_tokens, covered_tokens, made_by, state, published_in"
        " from durable_context.summaries where branch_uuid = $1 and level = 1 and from_turn = 1",
        {("node_overlap", 2, 4)},
    ),
    "a node": (
        "delete from durable_context.summaries where branch_uuid = $1 and level = 0"
        " and from_turn = 9",
        {("node_cover", None, None), ("checkpoint_cover", 1, 10), ("orphan_document", 9, 10)},
    ),
}
OF_CHECKPOINTS: dict[str, tuple[str, set[Place]]] = {
    "the text of a checkpoint": (
        "update durable_context.checkpoints set text = 'Nothing.' where branch_uuid = $1"
        " and turn_no = 6",
        {("checkpoint_hash", 6, 6)},
    ),
    "a node of a frontier": (
        "update durable_context.checkpoints set frontier = frontier[2:] where branch_uuid = $1"
        " and turn_no = 6",
        {("checkpoint_cover", 6, 6)},
    ),
    "the end of a frontier": (
        "update durable_context.checkpoints set frontier = frontier[:1] where branch_uuid = $1"
        " and turn_no = 6",
        {("checkpoint_cover", 6, 6)},
    ),
    "an unknown node": (
        "update durable_context.checkpoints set frontier = frontier || gen_random_uuid()"
        " where branch_uuid = $1 and turn_no = 6",
        {("checkpoint_cover", 1, 6)},
    ),
    "the newest checkpoint": (
        "delete from durable_context.checkpoints where branch_uuid = $1 and turn_no = 10",
        {("branch_checkpoint", None, None)},
    ),
    "publications of a checkpoint": (
        "update durable_context.checkpoints set published_in = 99 where branch_uuid = $1"
        " and turn_no = 6",
        {("checkpoint_order", 6, 6)},
    ),
}
OF_THE_REST: dict[str, tuple[str, set[Place]]] = {
    "a number that nothing can be counted from": (
        "update durable_context.summaries set to_turn = 2147483647 where branch_uuid = $1"
        " and level = 1 and from_turn = 1",
        {("unreadable", None, None)},
    ),
    "data of a content": (
        "update durable_context.artifact_contents set data = 'x' where object_key is null"
        " and sha256 = (select min(sha256) from durable_context.artifacts where branch_uuid = $1"
        " and turn_no = 10 and source = 'part')",
        {("content_hash", 10, 10)},
    ),
    "a content": (
        "delete from durable_context.artifact_contents where sha256 ="
        " (select min(sha256) from durable_context.artifacts where branch_uuid = $1"
        " and turn_no = 10 and source = 'part')",
        {("content_missing", 10, 10)},
    ),
    "an artifact": (
        "delete from durable_context.artifacts where branch_uuid = $1 and turn_no = 10"
        " and source = 'part'",
        {
            *[("turn_artifacts", 10, 10), ("branch_artifacts", None, None)],
            ("orphan_document", 10, 10),
        },
    ),
    "a document's node": (
        "update durable_context.indexed_documents set from_turn = 1 where branch_uuid = $1"
        " and level = 0 and artifact_no = 0 and to_turn = 4",
        {("orphan_document", 1, 4)},
    ),
    "postings without a document": (
        "delete from durable_context.indexed_documents where branch_uuid = $1"
        " and level = 0 and artifact_no = 0 and to_turn = 4",
        {("orphan_posting", 4, 4)},
    ),
    "a compaction that nobody runs": (
        "insert into durable_context.compactions (tenant, branch_uuid, from_turn, to_turn, status,"
        " reason, started_at) values ('default', $1, 11, 12, 'running', 'turn',"
        " now() - interval '25 hours')",
        {("compaction_stuck", 11, 12)},
    ),
    "a pin of a turn that is not there": (
        "insert into durable_context.pins (tenant, branch_uuid, turn_no)"
        " values ('default', $1, 99)",
        {("pin_turn", 99, 99)},
    ),
}
OF_FORKS: dict[str, tuple[str, set[Place]]] = {
    "more of the parent's turns": (
        "update durable_context.lineage set to_turn = 14 where branch_uuid = $1 and depth = 1",
        {("lineage", None, None)},
    ),
    "a publication that the parent never had": (
        "update durable_context.lineage set publication = 99 where branch_uuid = $1 and depth = 1",
        {("lineage", None, None)},
    ),
    "a checkpoint after the fork": (
        "update durable_context.lineage set compacted_turn = 14 where branch_uuid = $1"
        " and depth = 1",
        {("lineage", None, None)},
    ),
    "no lineage": (
        "delete from durable_context.lineage where branch_uuid = $1 and depth = 1",
        {
            ("lineage", None, None),
            *[("branch_artifacts", None, None), ("turn_tokens", 14, 14), ("node_cover", 1, 10)],
            *[("checkpoint_cover", 1, turn) for turn in (8, 12, 14)],
            *[("pin_turn", 3, 3), ("pin_turn", 7, 7)],
        },
    ),
    "an earlier fork turn": (
        "update durable_context.branches set fork_turn = 12 where branch_uuid = $1",
        {("lineage", None, None), ("turn_numbers", 13, 13)},
    ),
    "a parent in another conversation": (
        "update durable_context.branches set conversation_id = 'elsewhere' where branch_uuid = $1",
        {("lineage", None, None)},
    ),
}
ALL = OF_TURNS | OF_BRANCHES | OF_NODES | OF_CHECKPOINTS | OF_THE_REST
