"""Files: whole or not there, never another content, no path from anybody's id."""

import asyncio
import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from durable_context.errors import ArtifactDamaged, ArtifactNotFound, ArtifactStoreUnavailable
from durable_context.offload import ContextOffloadOp, OffloadResult
from tests.offload.talks import Short, done, offload, rows, stored, talk
from tests.turns import exchange

ROOT = Path(__file__).parents[2]
SCRIPT = """
import asyncio, os, resource, signal, sys
from durable_context.offload import ContextOffloadOp, files
from durable_context.tokens import token_counter
from tests.offload.talks import talk

how, store_dir = sys.argv[1:]
token_counter("o200k_base").count("loaded before the limits are set")
if how == "full":
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
if how == "read-only" and os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
real = os.replace
if how == "before":
    os.replace = lambda *names: os.kill(os.getpid(), signal.SIGKILL)
if how == "after":
    os.replace = lambda *names: (real(*names), os.kill(os.getpid(), signal.SIGKILL))
op = ContextOffloadOp(max_total_tokens=1000, store_dir=store_dir, chat_id="chat")
result = asyncio.run(op.run(talk(2, 800)))
assert not result.changed and list(result.messages) == talk(2, 800) and not result.files
assert {a.reason for a in result.failures} == {"store_failed"}
print(sorted({str(a.error) for a in result.failures}))
"""


async def run(store_dir: Path, messages: Any = None, **parameters: Any) -> OffloadResult:
    given: dict[str, Any] = {"max_total_tokens": 1_000, "store_dir": store_dir, "chat_id": "chat"}
    return await offload(talk(2, 800) if messages is None else messages, **given | parameters)


def in_a_process(how: str, store_dir: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", SCRIPT, how, str(store_dir)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


async def test_names_are_hashes_and_references_are_relative(tmp_path: Path) -> None:
    found = await run(tmp_path / "store")
    for file in found.files:
        folder, name = file.reference.split("/")
        assert folder == hashlib.sha256(b"chat").hexdigest()[:32] and name == f"{file.sha256}.txt"
    assert str(tmp_path) not in json.dumps(found.messages)
    assert str(tmp_path) not in found.model_dump_json()


@pytest.mark.parametrize(
    "chat_id",
    ["../escape", "/etc/cron.d/x", "a/b", "..", ".", "\0", "x" * 5_000, "Ана 🚚", "~root"],
)
async def test_no_path_is_made_of_a_chat_id(chat_id: str, tmp_path: Path) -> None:
    store_dir = tmp_path / "inside" / "store"
    found = await run(store_dir, chat_id=chat_id)
    assert found.changed and found.chat_id == chat_id
    assert stored(tmp_path / "inside") == sorted(
        ["store", hashlib.sha256(chat_id.encode()).hexdigest()[:32], "index.jsonl"]
        + [f"{file.sha256}.txt" for file in found.files]
    )
    assert stored(tmp_path) == sorted([*stored(tmp_path / "inside"), "inside"])


@pytest.mark.parametrize("hostile", ["../../evil", "/tmp/evil", "\0", "", "a" * 9_000])
async def test_no_path_is_made_of_a_call_id_or_a_tool(hostile: str, tmp_path: Path) -> None:
    messages = [*exchange(hostile, rows(800), hostile), {"role": "user", "content": "So?"}]
    found = await run(tmp_path, messages)
    [file] = found.files
    assert file.name == (hostile[:80].replace("\0", "\ufffd") or "unknown")
    assert stored(tmp_path) == sorted([file.reference[:32], "index.jsonl", f"{file.sha256}.txt"])


@pytest.mark.parametrize(
    "reference",
    [
        "../{folder}/{name}",
        "{folder}/../{folder}/{name}",
        "{store}/{folder}/{name}",
        "{folder}//{name}",
        "./{folder}/{name}",
        "{name}",
        "{folder}/index.jsonl",
        "{folder}/{name}\n",
        "{folder}",
        "",
        "/etc/passwd",
        "{folder}/{zeros}.txt",
        "{zeros}/{name}",
        None,
        7,
    ],
)
async def test_only_references_of_the_chat_are_loaded(reference: Any, tmp_path: Path) -> None:
    found = await run(tmp_path)
    folder, name = found.files[0].reference.split("/")
    if isinstance(reference, str):
        reference = reference.format(folder=folder, name=name, store=tmp_path, zeros="0" * 64)
    with pytest.raises(ArtifactNotFound):
        await ContextOffloadOp(store_dir=tmp_path, chat_id="chat").load(reference)


async def test_a_reference_of_another_chat_is_not_loaded(tmp_path: Path) -> None:
    found = await run(tmp_path)
    with pytest.raises(ArtifactNotFound):
        await ContextOffloadOp(store_dir=tmp_path, chat_id="other").load(found.files[0].reference)


async def test_a_damaged_file_is_found_out_and_written_anew_by_the_next_run(tmp_path: Path) -> None:
    found = await run(tmp_path)
    op = ContextOffloadOp(store_dir=tmp_path, chat_id="chat")
    for file, damage in zip(found.files, (b"", b"other"), strict=True):
        path = tmp_path / file.reference
        path.write_bytes(damage)
        with pytest.raises(ArtifactDamaged):
            await op.load(file.reference)
    assert (await run(tmp_path)).files == found.files
    for file in found.files:
        assert hashlib.sha256((await op.load(file.reference)).encode()).hexdigest() == file.sha256


async def test_an_intact_file_is_not_touched_again(tmp_path: Path) -> None:
    [file, _] = (await run(tmp_path)).files
    path = tmp_path / file.reference
    before = path.stat()
    await run(tmp_path)
    after = path.stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


async def test_only_the_owner_may_read_what_was_stored(tmp_path: Path) -> None:
    found = await run(tmp_path)
    path = tmp_path / found.files[0].reference
    modes = [path.stat().st_mode, path.parent.stat().st_mode]
    modes.append((path.parent / "index.jsonl").stat().st_mode)
    assert [mode & 0o077 for mode in modes] == [0, 0, 0]


async def test_the_index_lists_each_file_once(tmp_path: Path) -> None:
    found = await run(tmp_path)
    await run(tmp_path)
    await run(tmp_path, talk(2, 800, mark="other"))
    lines = (tmp_path / found.files[0].reference).with_name("index.jsonl").read_text().splitlines()
    assert len(lines) == 4
    first = json.loads(lines[0])
    assert set(first) == {"reference", "kind", "sha256", "size", "name", "created_at"}
    assert first["name"] == "find" and first["reference"] == found.files[0].reference


@pytest.mark.parametrize("torn", [b'{"reference": "a', b"\n\n", b"\xff\xfe\n", b"[]\n", b"null"])
async def test_a_torn_line_hides_no_other(torn: bytes, tmp_path: Path) -> None:
    found = await run(tmp_path)
    index = (tmp_path / found.files[0].reference).with_name("index.jsonl")
    index.write_bytes(index.read_bytes() + torn)
    later = await run(tmp_path, talk(1, 800, mark="other"))
    op = ContextOffloadOp(store_dir=tmp_path, chat_id="chat")
    assert await op.files() == (*found.files, *later.files)


async def test_a_line_that_was_torn_is_written_anew(tmp_path: Path) -> None:
    found = await run(tmp_path)
    index = (tmp_path / found.files[0].reference).with_name("index.jsonl")
    index.write_bytes(index.read_bytes()[:-10])
    await run(tmp_path)
    op = ContextOffloadOp(store_dir=tmp_path, chat_id="chat")
    assert [f.reference for f in await op.files()] == [f.reference for f in found.files]


async def test_an_index_that_is_gone_is_made_anew(tmp_path: Path) -> None:
    op = ContextOffloadOp(max_total_tokens=1_000, store_dir=tmp_path, chat_id="chat")
    found = await op.run(talk(2, 800))
    (tmp_path / found.files[0].reference).with_name("index.jsonl").unlink()
    assert await op.files() == ()
    await op.run(talk(2, 800))
    assert len(await op.files()) == 2


async def test_an_index_that_was_put_back_is_read_anew(tmp_path: Path) -> None:
    op = ContextOffloadOp(max_total_tokens=1_000, store_dir=tmp_path, chat_id="chat")
    found = await op.run(talk(3, 800))
    index = (tmp_path / found.files[0].reference).with_name("index.jsonl")
    assert len(await op.files()) == 3
    index.write_bytes(index.read_bytes().splitlines(keepends=True)[1])
    assert await op.files() == found.files[1:2]


async def test_runs_at_the_same_time_over_one_chat_do_not_disturb_each_other(
    tmp_path: Path,
) -> None:
    results = await asyncio.gather(*(run(tmp_path) for _ in range(8)))
    assert len({json.dumps(result.messages) for result in results}) == 1
    op = ContextOffloadOp(store_dir=tmp_path, chat_id="chat")
    assert len(await op.files()) == 2
    for file in await op.files():
        await op.load(file.reference)
    assert not [name for name in stored(tmp_path) if name.endswith(".part")]


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A directory that every user reaches, which pytest's are not."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


@pytest.mark.parametrize("how", ["full", "read-only"])
def test_where_nothing_can_be_written_messages_stay_and_the_result_says_why(
    how: str, reachable: Path
) -> None:
    store_dir = reachable / "store"
    store_dir.mkdir(mode=0o555 if how == "read-only" else 0o755)
    answer = in_a_process(how, store_dir)
    assert answer.returncode == 0, answer.stderr
    assert str(reachable) not in answer.stdout
    assert ("File too large" if how == "full" else "Permission denied") in answer.stdout
    assert not [name for name in stored(store_dir) if name.endswith((".txt", ".part"))]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_process_killed_at_the_write_leaves_nothing_that_the_next_run_trips_over(
    when: str, tmp_path: Path
) -> None:
    assert in_a_process(when, tmp_path).returncode == -9
    op = ContextOffloadOp(max_total_tokens=1_000, store_dir=tmp_path, chat_id="chat")
    assert await op.files() == ()
    found = await op.run(talk(2, 800))
    assert len(found.files) == 2 and await op.files() == found.files
    for file in found.files:
        await op.load(file.reference)


async def test_a_store_that_is_no_directory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = await run(tmp_path / "file")
    assert ("kept", "store_failed") in done(found, "compact") and not found.changed
    op = ContextOffloadOp(store_dir=tmp_path / "file", chat_id="chat")
    assert await op.files() == ()
    with pytest.raises(ArtifactNotFound):
        await op.load(f"{hashlib.sha256(b'chat').hexdigest()[:32]}/{'0' * 64}.txt")


async def test_a_group_that_cannot_be_stored_stays(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = await run(
        tmp_path / "file", context_manage_mode="compress", summarizer=Short(), max_total_tokens=10
    )
    assert found.failures[0].reason == "store_failed" and list(found.messages) == talk(2, 800)


async def test_a_file_that_cannot_be_read_is_named_without_its_path(tmp_path: Path) -> None:
    found = await run(tmp_path)
    path = tmp_path / found.files[0].reference
    path.unlink()
    path.mkdir()
    with pytest.raises(ArtifactStoreUnavailable) as error:
        await ContextOffloadOp(store_dir=tmp_path, chat_id="chat").load(found.files[0].reference)
    assert str(tmp_path) not in str(error.value)


async def test_a_store_stays_where_it_is_when_the_process_goes_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    op = ContextOffloadOp(max_total_tokens=1_000, store_dir="store", chat_id="chat")
    monkeypatch.chdir("/")
    found = await op.run(talk(2, 800))
    assert (tmp_path / "store" / found.files[0].reference).is_file()
