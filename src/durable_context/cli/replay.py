"""Replays recorded conversations through the public client, forking them in the middle if asked
to.
"""

import time
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import timedelta

from durable_context import Branch, Budget, ContextClient
from durable_context.cli.branch_reading import caught_up
from durable_context.cli.replay_branch import ALL_COMPACTIONS, BranchReplay
from durable_context.cli.replay_model import ReplayedTurn, ReplayOptions
from durable_context.models import Compaction
from durable_context.transcripts import Transcript


async def warm_up(client: ContextClient, transcript: Transcript, options: ReplayOptions) -> None:
    """A process's first prepare loads the vocabulary; what follows is what an agent sees."""
    branch = await client.open_branch(options.conversation_id(transcript))
    await branch.prepare("warm up", budget=Budget(max_tokens=options.budget))


async def replay_conversation(
    client: ContextClient, transcript: Transcript, options: ReplayOptions
) -> AsyncIterator[ReplayedTurn]:
    """Turns as they are recorded. From the fork on, each turn of the main branch is followed by the
    same turn of the fork.
    """
    root = await client.open_branch(options.conversation_id(transcript))
    pieces = options.pieces(transcript)
    fork_turn = options.fork_turn(len(pieces))
    branches = [await BranchReplay.of(root, transcript, options)]
    for number, piece in enumerate(pieces, start=1):
        if fork_turn is not None and number == fork_turn + 1:
            branches.append(await branches[0].forked(fork_turn))
        for branch in branches:
            yield await branch.replay(number, piece, last=number == len(pieces))


async def branches_of(client: ContextClient, turns: Iterable[ReplayedTurn]) -> list[Branch]:
    """Those the turns are of, in the order they were begun."""
    names = dict.fromkeys((turn.conversation_id, turn.branch_id) for turn in turns)
    return [await client.find_branch(*name) for name in names]


async def compactions_of(branches: Iterable[Branch]) -> list[Compaction]:
    """Of each branch its own, newest first."""
    return [one for branch in branches for one in await branch.compactions(ALL_COMPACTIONS)]


async def offloaded_artifacts(branches: Iterable[Branch]) -> int:
    """How many artifacts turns brought; what a fork inherited counts once."""
    handles = {
        artifact.handle
        for branch in branches
        for artifact in await branch.artifacts()
        if artifact.source != "put"
    }
    return len(handles)


async def wait_for_compaction(branches: Sequence[Branch], timeout: timedelta) -> list[Branch]:
    """Wait until nothing is due in any; the branches that were not done in time."""
    deadline = time.monotonic() + timeout.total_seconds()
    late: list[Branch] = []
    for branch in branches:
        left = timedelta(seconds=max(0.0, deadline - time.monotonic()))
        if not await caught_up(branch, left):
            late.append(branch)
    return late
