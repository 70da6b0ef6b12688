"""A child process is on record before it runs, and no other process is taken for it."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.embedded.processes import CHECKOUT, is_gone, processes_of, until, until_gone
from worker.child_process import ChildProcess, Command
from worker.errors import ChildFailed
from worker.process_record import ProcessRecord, end_leftover

DEAF = Command(["/bin/sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.1; done"])


@pytest.fixture
def leftover() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(["sleep", "60"])


async def test_a_recorded_process_is_ended(
    tmp_path: Path, leftover: "subprocess.Popen[bytes]"
) -> None:
    record = ProcessRecord.of(leftover.pid)
    assert record is not None
    record.write(tmp_path / "sleep.pid")
    assert await end_leftover(tmp_path / "sleep.pid") == leftover.pid
    assert leftover.wait() == -signal.SIGTERM
    assert not (tmp_path / "sleep.pid").exists()


async def test_a_process_that_only_has_the_recorded_pid_is_left_alone(
    tmp_path: Path, leftover: "subprocess.Popen[bytes]"
) -> None:
    record = ProcessRecord.of(leftover.pid)
    assert record is not None
    boot, _, ticks = record.started.rpartition(":")
    earlier = f"{boot}:{int(ticks) - 1}"
    record.model_copy(update={"started": earlier}).write(tmp_path / "sleep.pid")
    assert await end_leftover(tmp_path / "sleep.pid") is None
    assert leftover.poll() is None
    leftover.kill()
    leftover.wait()


async def test_one_that_ignores_being_asked_is_killed(tmp_path: Path) -> None:
    child = ChildProcess(
        "deaf",
        DEAF,
        directory=tmp_path,
        stop_steps=((signal.SIGTERM, 0.2), (signal.SIGKILL, 10.0)),
    )
    await child.start()
    await until(lambda: "deaf" in child.log_tail())
    await child.stop()
    assert await child.wait() == -signal.SIGKILL
    await until_gone(processes_of(tmp_path))


async def test_it_never_runs_when_its_owner_dies_before_it_is_on_record(tmp_path: Path) -> None:
    owner = f"""
import asyncio, os, signal
from pathlib import Path
from worker.child_process import ChildProcess, Command
from worker.process_record import ProcessRecord

def killed(self, path):
    os.kill(os.getpid(), signal.SIGKILL)

ProcessRecord.write = killed
child = ChildProcess(
    "touch", Command(["/bin/touch", "ran"], directory=Path({str(tmp_path)!r})),
    directory=Path({str(tmp_path)!r}),
)
asyncio.run(child.start())
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", owner, cwd=CHECKOUT)
    assert await process.wait() == -signal.SIGKILL
    await until_gone(processes_of(tmp_path))
    assert not (tmp_path / "ran").exists()


async def test_it_is_out_of_reach_of_the_terminal_and_gets_none_of_our_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    child = ChildProcess("sleep", Command(["/bin/sleep", "60"]), directory=tmp_path)
    await child.start()
    try:
        assert os.getsid(child.pid) == child.pid != os.getsid(0)
        assert b"sk-secret" not in _environment_of(child.pid)
    finally:
        await child.stop()
    assert is_gone(child.pid)


async def test_one_that_ends_by_itself_says_why(tmp_path: Path) -> None:
    command = Command(["/bin/sh", "-c", "echo the disk is full; exit 3"])
    child = ChildProcess("writer", command, directory=tmp_path)
    await child.start()
    await child.wait()
    with pytest.raises(ChildFailed, match="the disk is full") as failure:
        child.check_running()
    assert failure.value.exit_code == 3
    await child.stop()


async def test_giving_up_on_a_stop_kills_it(tmp_path: Path) -> None:
    child = ChildProcess("deaf", DEAF, directory=tmp_path)
    await child.start()
    await until(lambda: "deaf" in child.log_tail())
    stopping = asyncio.create_task(child.stop())
    await asyncio.sleep(0)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    assert await child.wait() == -signal.SIGKILL
    await until_gone(processes_of(tmp_path))


def _environment_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()
