"""SIGTERM as asyncio treats Ctrl-C: the task is cancelled, so that its blocks are left in order."""

import asyncio
import os
import signal
import threading
from types import TracebackType
from typing import Self


class Termination:
    """While inside, SIGTERM cancels the task that entered; outside nothing has changed.

    Leaves SIGTERM alone where the program has a handler of its own.
    """

    def __init__(self) -> None:
        self._task: asyncio.Task[object] | None = None
        self._requested = False

    def __enter__(self) -> Self:
        in_main_thread = threading.current_thread() is threading.main_thread()
        if in_main_thread and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            self._task = asyncio.current_task()
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._terminate)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._task is None:
            return
        self._restore()
        if self._requested and isinstance(exc, asyncio.CancelledError | None):
            raise SystemExit(128 + signal.SIGTERM)

    def _terminate(self) -> None:
        assert self._task is not None
        if self._task.done():  # it entered for somebody else, who cannot be told
            self._restore()
            os.kill(os.getpid(), signal.SIGTERM)
        self._requested = True
        self._task.cancel()

    def _restore(self) -> None:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)
