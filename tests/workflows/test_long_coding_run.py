"""A coding agent's long run while real workflows compact it: who reads what, and how often."""

from datetime import timedelta
from typing import Any

from durable_context import Branch, ContextClient
from durable_context.summarizers import SummaryDraft, SummaryRequest
from durable_context.summarizers.extractive import ExtractiveSummarizer
from tests.coding_run import BUDGET, COUNTER, TASK, check_call, steps
from tests.prompts import kinds
from tests.workflows.orchestration import QUICK, Orchestration, StartWorker

CALLS = 200
# The run keeps this process busy, which must not look like a lost worker.
POLICY = QUICK.model_copy(
    update={"worker_lost_after": timedelta(seconds=60), "degrade_after": timedelta(minutes=2)}
)


class Reader:
    """The extractive summarizer, with a note of what it was given to read."""

    recipe = ExtractiveSummarizer().recipe

    def __init__(self) -> None:
        self.read: list[SummaryRequest] = []

    async def summarize(self, request: SummaryRequest) -> SummaryDraft:
        self.read.append(request)
        return await ExtractiveSummarizer().summarize(request)


async def test_a_run_compacted_as_it_goes_reads_no_raw_token_twice(
    client: ContextClient, orchestration: Orchestration, start_worker: StartWorker
):
    branch = await client.open_branch("c")
    reader = Reader()
    async with start_worker(reader):
        await _run(branch, orchestration)
        await orchestration.compact(branch, POLICY)
    documents = [one.turns[0].messages[0].content for one in reader.read if one.artifact]
    assert len(set(documents)) == len(documents) > 50, "what was offloaded is read once, too"
    leaves = [one for one in reader.read if one.level == 0 and not one.artifact]
    read = [turn for leaf in leaves for turn in leaf.turns]
    assert [turn.turn_no for turn in read] == list(range(1, read[-1].turn_no + 1))
    checkpoint = (await branch.inspect()).checkpoint
    assert checkpoint and checkpoint.turn_no == read[-1].turn_no > CALLS - 80
    for request in reader.read:
        assert request.level == 0 or request.turns == (), "merges read nodes, not turns"
    recorded = await branch.turns(to_turn=read[-1].turn_no)
    # In the place of an offloaded result stand its view and what was made of it when it was read.
    made = len(documents) * (POLICY.view_tokens + POLICY.summary_max_tokens)
    assert _tokens(read) <= _tokens(recorded) + made
    whole = sum(turn.token_count for turn in recorded)
    assert sum(COUNTER.count(str(text)) for text in documents) + _tokens(read) <= whole + made
    merged = sum(node.token_count for one in reader.read for node in one.nodes)
    assert merged < _tokens(read) / 4


async def _run(branch: Branch, orchestration: Orchestration) -> None:
    """The README's loop; compaction is told of each stretch and never waited for."""
    await branch.record_turn([{"role": "user", "content": TASK}], continues=True)
    answered: list[Any] = []
    head, seen = 1, set[str]()
    for step in steps(CALLS):
        prepared = await branch.prepare(None, budget=BUDGET, pending=answered)
        assert prepared
        check_call(prepared, answered, head)
        seen.update(kinds(prepared))
        if answered:
            head = (await branch.record_turn(answered, continues=True)).turn_no
            await orchestration.hint(branch, POLICY)  # may be lost
        answered = step
    assert {"checkpoint", "raw", "task", "pending"} <= seen


def _tokens(turns: Any) -> int:
    """Of the messages as they are, views of what was offloaded among them."""
    return sum(COUNTER.count_message(message) for turn in turns for message in turn.messages)
