"""Results are matched with the calls that wait for one, in time that grows with their number."""

from hypothesis import given
from hypothesis import strategies as st

from durable_context.processors.waiting import Waiting

IDS = st.lists(st.sampled_from(["", "a", "b", "c"]), max_size=8)


class Listed:
    """The same the plain way, in time that grows with the square."""

    def __init__(self, ids: list[str]) -> None:
        self._waiting = list(ids)

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def answer(self, call_id: str) -> bool:
        if call_id in self._waiting:
            self._waiting.remove(call_id)
        elif self._waiting and (not call_id or "" in self._waiting):
            self._waiting.pop(0)
        else:
            return False
        return True


@given(calls=IDS, results=IDS)
def test_ids_that_are_used_again_or_left_out_are_matched_in_order(
    calls: list[str], results: list[str]
):
    waiting, listed = Waiting(calls), Listed(calls)
    for call_id in results:
        assert waiting.answer(call_id) == listed.answer(call_id)
        assert bool(waiting) == bool(listed)


def test_a_result_without_an_id_is_for_the_first_call_that_has_none_yet():
    waiting = Waiting("ab")
    assert waiting.answer("") and waiting.answer("b")
    assert not waiting and not waiting.answer("a")


def test_a_result_of_an_unknown_id_is_for_no_call_that_has_one():
    assert not Waiting("ab").answer("c")
    assert Waiting(["a", ""]).answer("c")
