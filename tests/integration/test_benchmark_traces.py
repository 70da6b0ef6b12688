import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.cache.measure import OURS, REPLAY, measure_agents, measure_dialogues
from benchmarks.database import Database, silence
from benchmarks.playing import Moment, moments
from benchmarks.recall.measure import measure
from benchmarks.recall.values import argument_values
from benchmarks.traces import Task, Trace
from durable_context import ContextClient
from durable_context.database import Pool
from durable_context.transcripts import Transcript, TranscriptTurn

JsonObject = dict[str, Any]
ROOT = Path(__file__).parents[2]


def user(text: str) -> JsonObject:
    return {"role": "user", "content": text}


def answer(text: str) -> JsonObject:
    return {"role": "assistant", "content": text}


def exchange(number: int, result: str, **arguments: Any) -> tuple[JsonObject, JsonObject]:
    function = {"name": "track", "arguments": json.dumps(arguments)}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    return (
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": result},
    )


def parcels(first: int, count: int) -> Task:
    """A user asks for parcels by number; the depot of each is in the result before."""
    said: list[JsonObject] = []
    for number in range(first, first + count):
        depot = f"depot_{number - 1}" if number > first else ""
        said += [
            user(f"And where is parcel P-{number}?"),
            *exchange(number, f"In depot_{number}.", parcel=f"P-{number}", before=depot),
            answer("It is in its depot."),
        ]
    return Task(f"parcels from {first}", "You find parcels.", tuple(said))


async def nothing() -> None:
    pass


async def test_an_agent_is_recorded_as_the_readme_shows_it(client: ContextClient) -> None:
    task = Task(
        "two parcels",
        None,
        (
            user("Where are P-1 and P-2?"),
            *exchange(1, "In Ghent.", parcel="P-1"),
            *exchange(2, "In Bruges.", parcel="P-2"),
            answer("In Ghent and Bruges."),
            user("Send them."),
            *exchange(3, "Sent.", parcels=["P-1", "P-2"]),
        ),
    )
    branch = await client.open_branch("parcels")
    seen: list[Moment] = [m async for m in moments(branch, Trace("parcels", (task,)), nothing)]

    turns = await branch.turns()
    assert [(len(t.messages), t.continues) for t in turns] == [
        (1, True),
        (2, True),
        (2, True),
        (1, False),
        (1, True),
        (2, False),
    ]
    assert [m.position for m in seen] == [1, 3, 5, 7]
    assert [m.pending for m in seen] == [(), task.messages[1:3], task.messages[3:5], ()]
    assert [m.turns for m in seen] == [(1,), (1,), (1, 2, 2), (1, 2, 2, 3, 3, 4, 5)]
    steps = [message for m in seen for step in m.steps for message in step]
    assert steps == list(task.messages[:7])


async def test_every_prompt_is_asked_for_the_values_of_the_next_call(pool: Pool) -> None:
    trace = Trace("parcels", (parcels(100, 12), parcels(200, 12)))
    found = await measure(
        Database(pool, pool), "made up", [trace], argument_values, [300, 4_000], silence
    )

    assert (found.branches, found.turns, found.calls) == (1, 24, 24)
    assert found.tally(REPLAY, None).share == 1.0
    assert found.tally(OURS, 4_000).share == 1.0
    for (name, budget), tally in found.tallies.items():
        assert tally.asked == 24 + 22, name
        assert budget is None or max(tally.tokens) <= budget, name
    absent = sum(len(misses) for misses in found.misses.values())
    ours = [found.tally(OURS, budget) for budget in (300, 4_000)]
    assert absent == sum(tally.asked - tally.found for tally in ours)


async def test_every_call_of_a_model_is_booked(pool: Pool) -> None:
    trace = Trace("parcels", (parcels(100, 12),))
    talk = Transcript(
        name="friends",
        turns=tuple(
            TranscriptTurn(messages=(user(f"Day {n} was fine."), answer(f"So was night {n}.")))
            for n in range(24)
        ),
    )
    database = Database(pool, pool)
    agents = await measure_agents(database, "agents", [trace], [4_000], silence)
    dialogues = await measure_dialogues(database, "dialogues", [talk], [4_000], silence)

    for cached, calls in ((agents, 24), (dialogues, 24)):
        assert cached.calls == calls
        assert {account.prompts for account in cached.accounts.values()} == {calls}
        assert cached.prefixes[4_000].pairs < calls - 1  # compactions stand between the others
        assert cached.checkpoints.plain + cached.checkpoints.merges > 0
        assert 0 < cached.account(OURS, 4_000).share < cached.account(REPLAY, None).share < 1


async def test_a_folder_without_data_is_an_error_that_says_what_is_wanted(tmp_path: Path) -> None:
    for module in ("benchmarks.recall", "benchmarks.cache"):
        command = [sys.executable, "-m", module, "--data", str(tmp_path)]
        ran = await asyncio.to_thread(
            subprocess.run, command, cwd=ROOT, capture_output=True, text=True, timeout=60
        )

        assert ran.returncode == 1
        assert ran.stdout == ""
        assert "there is no taubench.jsonl" in ran.stderr
        assert "Name a folder with --data" in ran.stderr
