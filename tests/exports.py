"""A branch with something of everything in it, and what of a branch an export must keep."""

import base64
import json
import random
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from durable_context import Branch, Budget, CompactionPolicy, ContextClient, PreparedContext
from durable_context.database import Pool
from tests.compacting import compact_all
from tests.turns import chat, exchange, numbered

# Small enough for merges, and for contents in the object store.
POLICY = CompactionPolicy(segment_turns=2, fan_out=2, offload_tokens=200)
INLINE_LIMIT = 20_000
BUDGET = Budget(max_tokens=8_000, instructions="You answer for a freight company.")
QUERIES = (
    "Where is shipment SHP-0003?",
    "What did the inspection report of the crane say about bearing 77?",
    "Which figures are in the ledger of ports?",
    "nothing of all this, only xylophones",
)
ODD = "a NUL \x00, a lone \ud83d surrogate, \u2028 a line separator and \x85 another"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)
TABLES = [
    *("branches", "lineage", "turns", "prompt_parts", "summaries", "checkpoints", "compactions"),
    *("indexed_documents", "postings", "artifacts", "artifact_contents", "artifact_summaries"),
    *("events", "pins"),
]


async def exported(client: ContextClient, conversation: str, branch: str = "main") -> list[str]:
    return [line async for line in client.export_branch(conversation, branch)]


async def eventful(client: ContextClient, pool: Pool, conversation: str = "harbour") -> Branch:
    """A branch with something of everything: 15 turns, compacted, and a long run that is open."""
    branch = await client.open_branch(conversation)
    for number in range(1, 7):
        await branch.record_turn(numbered(number), turn_key=f"key-{number}")
    await branch.record_turn(
        chat(f"Odd text: {ODD}", f"Odd indeed: {ODD}"),
        metadata={"odd": ODD, "share": 0.1, "large": 2**80},
        usage={"input_tokens": 12},
        occurred_at=datetime(2024, 2, 29, 23, 59, tzinfo=UTC),
    )
    await branch.record_turn([{"role": "user", "content": "Stop"}], outcome="interrupted")
    await compact_all(pool, branch.branch_uuid, POLICY)
    await branch.record_turn([{"role": "user", "content": "Inspect."}, *report(77), *said("Worn.")])
    await branch.record_turn([{"role": "user", "content": picture()}, *said("A dot.")])
    await branch.put_artifact("port,figure\nRotterdam,7\n", name="ports.csv")
    await branch.put_artifact("port,figure\nRotterdam,8\n", name="ports.csv")
    await branch.put_artifact(random.Random(7).randbytes(50_000), name="noise.bin")
    await branch.put_artifact("large and dull\n" * 200_000, name="dull.txt")
    for number in range(11, 14):
        prepared = await branch.prepare(f"Question {number}", budget=BUDGET)
        assert isinstance(prepared, PreparedContext)
        await branch.record_turn(numbered(number), prepared=prepared)
    await compact_all(pool, branch.branch_uuid, POLICY)
    await branch.record_turn(
        [{"role": "user", "content": "Unload the ship."}, *exchange("c1", "crane 1 is free")],
        continues=True,
    )
    await branch.record_turn(report(88, "c2"), continues=True)
    await branch.pin(7)
    await branch.pin(3, fact="SHP-0003")
    return branch


def said(text: str) -> list[dict[str, Any]]:
    return [{"role": "assistant", "content": text}]


def report(bearing: int, call_id: str = "c0") -> list[Any]:
    lines = [f"bearing {number} of the crane shows wear {number % 7}" for number in range(200)]
    lines[bearing] += ", replace it: inspection report"
    return exchange(call_id, "\n".join(lines), "inspect", crane=bearing)


def picture() -> list[dict[str, Any]]:
    url = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    return [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": url}},
    ]


async def prompts(branch: Branch) -> list[Any]:
    """What prepare gives now and at older turns: messages, and those with their binary parts."""
    head = (await branch.inspect()).head_turn
    made: list[Any] = []
    for query in (*QUERIES, None):
        for turn in (None, head - 1, 9, 5, 1):
            if query is None and turn is not None:
                continue
            prepared = await branch.prepare(query, budget=BUDGET, at_turn=turn)
            assert isinstance(prepared, PreparedContext)
            made += [prepared.messages, (await prepared.load_parts()).messages]
            made.append([block.kind for block in prepared.manifest.blocks])
    return made


def without_ids(lines: Iterable[str]) -> list[str]:
    """The stream with its ids numbered, and without what only informs and the hash of it all."""
    *middle, last = [json.loads(line) for line in lines]
    for name in ("conversation_id", "branch_id", "lineage", "created_at"):
        middle[0].pop(name, None)
    last.pop("sha256")
    text = "\n".join(json.dumps(record) for record in [*middle, last])
    numbers: dict[str, int] = {}
    pattern = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    return re.sub(
        pattern, lambda found: f"id {numbers.setdefault(found[0], len(numbers))}", text
    ).split("\n")


async def rows(pool: Pool) -> dict[str, int]:
    return {
        table: await pool.fetchval(f"select count(*) from durable_context.{table}")
        for table in TABLES
    }
