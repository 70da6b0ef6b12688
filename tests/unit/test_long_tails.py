"""A prompt of a tail of thousands of turns, as compaction that has not run for long leaves it."""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import pytest

from durable_context import Budget, CompactionPolicy, PreparedContext
from durable_context.models import Message
from durable_context.prompts import digesting, reductions
from durable_context.prompts.assembly import assemble
from durable_context.prompts.state import PromptState, TailTurn

POLICY = CompactionPolicy()
ENCODING = "o200k_base"


class Counted:
    """A function that counts its calls."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.calls = 0

    def __call__(self, *args: Any) -> Any:
        self.calls += 1
        return self.function(*args)


def _turn(turn_no: int) -> TailTurn:
    fact = {"kind": "identifier", "value": f"case-{turn_no}", "line_tokens": 7}
    said = f"Asked about shipment {turn_no}; it is late.\n"
    return TailTurn(turn_no, said, 10, [fact], ENCODING, (), (), {}, raw=False)


def _prompt(turns: Sequence[TailTurn], limit: int) -> Any:
    last = turns[-1].turn_no
    state = PromptState(UUID(int=1), last, None, ENCODING, None, tuple(turns), (), (), {})
    asked = Message(role="user", content="And now?")
    return assemble(state, asked, budget=Budget(max_tokens=limit), policy=POLICY)


@pytest.mark.parametrize("limit", [2_000, 30_000])
def test_a_prompt_goes_over_its_turns_as_often_however_many_there_are(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for a join, each of what is counted takes time that grows with the turns."""
    joins, copies = Counted(digesting.joined), Counted(digesting.JoinedState.lines)
    ledgers = Counted(reductions.show_ledger)
    monkeypatch.setattr(digesting, "joined", joins)

    def lines(state: digesting.JoinedState) -> Any:
        return copies(state)

    monkeypatch.setattr(digesting.JoinedState, "lines", lines)
    monkeypatch.setattr(reductions, "show_ledger", ledgers)
    turns = [_turn(n) for n in range(1, 3_001)]
    prepared = _prompt(turns, limit)
    assert isinstance(prepared, PreparedContext)
    assert "digests_joined" in [one.kind for one in prepared.manifest.reductions]
    assert 0 < copies.calls < 20
    assert ledgers.calls < 20
    assert joins.calls < len(turns)
