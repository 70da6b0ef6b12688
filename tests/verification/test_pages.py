"""The pages a sweep verifies: complete, bounded, repeatable, of one tenant or of all."""

import sys
import time

from durable_context import Branch, ContextClient
from durable_context.artifacts.contents import ContentStore
from durable_context.database import Pool
from durable_context.verification.sweep import VerifiedPage, run_page
from tests.turns import numbered
from tests.verification.conftest import Damage, told

MANY = 25
LONG = 20_000


async def pages(pool: Pool, contents: ContentStore, tenant: str | None) -> list[VerifiedPage]:
    looked_at = [await run_page(pool, contents, tenant, limit=10)]
    while (cursor := looked_at[-1].cursor) is not None:
        looked_at.append(await run_page(pool, contents, tenant, cursor, limit=10))
    return looked_at


async def test_pages_come_to_every_branch_once(
    client: ContextClient, pool: Pool, database_url: str, branch: Branch, contents: ContentStore
):
    for number in range(MANY - 2):
        await (await client.open_branch(f"talk {number}")).record_turn(numbered(1))
    async with await ContextClient.connect(database_url, temporal=None, tenant="other") as other:
        for number in range(5):
            await (await other.open_branch(f"talk {number}")).record_turn(numbered(1))
    own = await pages(pool, contents, "default")
    assert [page.branches for page in own] == [10, 10, 5, 0]
    assert sum(page.turns for page in own) == MANY - 2 + 19
    everybody = await pages(pool, contents, None)
    assert sum(page.branches for page in everybody) == MANY + 5
    assert sum(page.found for page in everybody) == 0


async def test_a_page_that_is_repeated_tells_nothing_twice(
    pool: Pool, branch: Branch, damage: Damage, contents: ContentStore
):
    await damage(
        "update durable_context.turns set digest = 'x' where branch_uuid = $1 and turn_no < 4",
        branch,
    )
    alive: list[None] = []
    first = await run_page(pool, contents, alive=lambda: alive.append(None))
    assert (first.found, first.errors, first.told) == (3, 3, 3)
    assert [one.from_turn for one in first.findings] == [1, 2, 3] and len(alive) > 15
    again = await run_page(pool, contents)
    assert (again.found, again.told) == (3, 0)
    assert len(await told(branch)) == 3


async def test_a_long_branch_is_verified_in_seconds(
    client: ContextClient, pool: Pool, contents: ContentStore
):
    branch = await client.open_branch("long")
    await branch.record_turn(numbered(1))
    await pool.execute(
        "insert into durable_context.turns (tenant, branch_uuid, turn_no, turn_key, content_hash,"
        " messages, message_tokens, token_count, stored_tokens, raw_tokens, outcome, continues,"
        " digest, digest_tokens, ledger, message_terms, occurred_at, recorded_at, head_tokens)"
        " select tenant, branch_uuid, n, 'key ' || n, content_hash, messages, message_tokens,"
        " token_count, stored_tokens, raw_tokens, outcome, continues, digest, digest_tokens,"
        " ledger, message_terms, occurred_at, recorded_at, n * head_tokens"
        " from durable_context.turns, generate_series(2, $2::integer) n where branch_uuid = $1",
        branch.branch_uuid,
        LONG,
    )
    await pool.execute(
        "update durable_context.branches set head_turn = $2::integer,"
        " head_tokens = $2::integer * head_tokens where branch_uuid = $1",
        branch.branch_uuid,
        LONG,
    )
    began = time.monotonic()
    verified = await branch.verify()
    took = time.monotonic() - began
    sys.stdout.write(f"{LONG:,} turns verified in {took:.1f} s\n")
    assert (verified.turns, verified.findings) == (LONG, ())
