"""Whatever is asked and allowed, retrieved blocks keep to their caps and repeat nothing."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from durable_context import Budget, CompactionPolicy, ContextClient
from durable_context.database import Pool
from tests.compacting import compact_once
from tests.prompts import check_prompt, raw_turns
from tests.retrieving import converse
from tests.turns import chat, exchange

TURNS = 75
LONG = " ".join(f"The anvil rang {n} times near Lindau." for n in range(120))
LOG = "\n".join(f"strike {n}: anvil at {n * 7} hertz" for n in range(400))
SAID: dict[int, list[dict[str, Any]]] = {
    3: chat(LONG, "An anvil, then."),
    8: chat("The anvil cracked with E4031.", "E4031 is for anvils."),
    9: [{"role": "user", "content": "Read the log."}, *exchange("c", LOG)],
    22: chat("铁砧在林道。" * 60, "铁砧很重。"),
    41: chat("x" * 900 + " anvil " + "y" * 900, "garden"),
    60: chat("An anvil in the garden.", "Fence it."),
}

words = st.sampled_from(
    ["anvil", "Lindau", "garden fence", "E4031", "hertz", "铁砧", "sourdough", "choir", "2023"]
)
messages = st.one_of(st.lists(words, min_size=1, max_size=6).map(" ".join), st.just("And that?"))
policies = st.builds(
    CompactionPolicy,
    retrieved_blocks=st.integers(0, 10),
    retrieved_tokens=st.one_of(st.integers(0, 120), st.integers(0, 2_000)),
    keep_raw_turns=st.integers(0, 6),
)


@settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(policy=policies, message=messages, at_turn=st.one_of(st.none(), st.integers(0, TURNS)))
async def test_retrieved_blocks_keep_to_the_policy(
    client: ContextClient, pool: Pool, policy: CompactionPolicy, message: str, at_turn: int | None
):
    branch = await client.open_branch("capped")
    if not (await branch.inspect()).head_turn:
        await converse(branch, TURNS, SAID)
        await branch.put_artifact(LOG, name="anvils.log")
        for _ in range(9):  # it is behind: turns 55 to 73 are digests
            await compact_once(pool, branch.branch_uuid, branch.policy)
    branch.policy = policy
    prepared = await branch.prepare(message, budget=Budget(max_tokens=200_000), at_turn=at_turn)
    assert prepared
    check_prompt(prepared, TURNS if at_turn is None else at_turn, policy)
    shown = [block for block in prepared.manifest.blocks if block.kind == "retrieved"]
    assert len(shown) <= policy.retrieved_blocks
    assert sum(block.token_count for block in shown) <= policy.retrieved_tokens
    turns = [
        turn
        for block in shown
        if not any(source.startswith("art_") for source in block.source_ids)
        for turn in range(block.from_turn or 0, (block.to_turn or 0) + 1)
    ]
    assert len(turns) == len(set(turns))
    assert not set(turns) & set(raw_turns(prepared))
    sources = [source for block in shown for source in block.source_ids]
    assert len(sources) == len(set(sources))
