"""Which calls of an assistant's message have yet to get a result."""

from collections import Counter, deque
from collections.abc import Iterable


class Waiting:
    """Calls without a result, in order, by id."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._ids = deque(ids)
        self._left = Counter(self._ids)
        self._answered = Counter[str]()
        """Of the ids that are still in the queue."""

    def __bool__(self) -> bool:
        return bool(self._left)

    def answer(self, call_id: str) -> bool:
        """Take a result for the call of its id, or for the first where one of them has none, since
        some runtimes leave ids out. False where it is for none of them.
        """
        if self._left[call_id]:
            self._answered[call_id] += 1
            self._take(call_id)
        elif self._left and (not call_id or self._left[""]):
            self._take(self._first())
        else:
            return False
        return True

    def _first(self) -> str:
        while self._answered[first := self._ids.popleft()]:
            self._answered[first] -= 1
        return first

    def _take(self, call_id: str) -> None:
        self._left[call_id] -= 1
        if not self._left[call_id]:
            del self._left[call_id]
