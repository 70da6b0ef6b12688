"""What others put where a chat's files belong is not read, not waited for and not written to."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from durable_context.errors import ArtifactNotFound, ArtifactStoreUnavailable
from durable_context.offload import ContextOffloadOp, OffloadResult
from tests.offload.talks import talk


def op_of(store_dir: Path) -> ContextOffloadOp:
    return ContextOffloadOp(max_total_tokens=1_000, store_dir=store_dir, chat_id="chat")


async def run(store_dir: Path) -> tuple[OffloadResult, Path]:
    """The result and the index."""
    found = await op_of(store_dir).run(talk(2, 800))
    return found, (store_dir / found.files[0].reference).with_name("index.jsonl")


@pytest.mark.parametrize("kind", ["pipe", "directory", "link"])
async def test_an_index_that_is_no_file_is_reported(kind: str, tmp_path: Path) -> None:
    _, index = await run(tmp_path / "store")
    other = tmp_path / "other"
    other.write_text("not ours\n")
    index.unlink()
    match kind:
        case "pipe":
            os.mkfifo(index)
        case "directory":
            index.mkdir()
        case _:
            index.symlink_to(other)
    found = await op_of(tmp_path / "store").run(talk(2, 800))
    assert not found.changed and {f.reason for f in found.failures} == {"store_failed"}
    with pytest.raises(ArtifactStoreUnavailable) as refused:
        await op_of(tmp_path / "store").files()
    assert str(tmp_path) not in str(refused.value) and other.read_text() == "not ours\n"


async def test_a_pipe_in_place_of_an_original_is_not_waited_for(tmp_path: Path) -> None:
    found, _ = await run(tmp_path)
    path = tmp_path / found.files[0].reference
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ArtifactStoreUnavailable):
        await op_of(tmp_path).load(found.files[0].reference)
    assert (await run(tmp_path))[0].files == found.files
    assert await op_of(tmp_path).load(found.files[0].reference)


async def test_a_link_in_place_of_the_chats_folder_is_not_followed(tmp_path: Path) -> None:
    _, index = await run(tmp_path / "store")
    elsewhere = tmp_path / "elsewhere"
    index.parent.rename(elsewhere)
    index.parent.symlink_to(elsewhere)
    before = sorted(path.name for path in elsewhere.iterdir())
    found = await op_of(tmp_path / "store").run(talk(3, 800, mark="new"))
    assert not found.changed and {f.reason for f in found.failures} == {"store_failed"}
    assert sorted(path.name for path in elsewhere.iterdir()) == before


@pytest.mark.parametrize(
    "lie",
    [
        {"reference": "../../etc/passwd"},
        {"reference": "0" * 32 + "/" + "0" * 64 + ".txt"},
        {"sha256": "0" * 64},
        {"kind": "message_group"},
    ],
)
async def test_a_line_that_names_no_file_of_the_chat_is_passed_over(
    lie: dict[str, Any], tmp_path: Path
) -> None:
    found, index = await run(tmp_path)
    first = json.loads(index.read_text().splitlines()[0])
    index.write_text(json.dumps(first | lie) + "\n" + index.read_text())
    assert await op_of(tmp_path).files() == found.files


async def test_an_index_that_another_one_replaces_is_read_anew(tmp_path: Path) -> None:
    op = op_of(tmp_path)
    found = await op.run(talk(2, 800))
    index = (tmp_path / found.files[0].reference).with_name("index.jsonl")
    other = index.with_name("other")
    other.write_text("\n" * 10_000)
    other.replace(index)
    assert await op.files() == ()
    again = await op.run([*talk(2, 800), {"role": "user", "content": "Well?"}])
    assert [f.reference for f in await op_of(tmp_path).files()] == [
        f.reference for f in again.files
    ]


async def test_a_result_comes_back_from_json_as_it_was(tmp_path: Path) -> None:
    found, _ = await run(tmp_path)
    assert OffloadResult.model_validate_json(found.model_dump_json()) == found


@pytest.mark.parametrize("reference", [None, 3, "", "art_x", b"x"])
async def test_what_is_no_reference_is_not_found(reference: Any, branch: Any) -> None:
    op = ContextOffloadOp(artifacts=branch, chat_id="chat")
    with pytest.raises(ArtifactNotFound):
        await op.load(reference)
