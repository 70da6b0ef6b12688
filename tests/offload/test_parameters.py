"""Parameters and messages: the seed's names and defaults, and nothing senseless."""

import inspect
from pathlib import Path
from typing import Any

import pytest

from durable_context.errors import ArtifactNotFound, InvalidArgument
from durable_context.offload import ContextOffloadOp
from tests.offload.talks import done, offload, talk


class NoRecipe:
    async def summarize(self, request: Any) -> None: ...


def test_names_and_defaults_are_those_of_the_seed() -> None:
    given = inspect.signature(ContextOffloadOp).parameters
    assert {name: parameter.default for name, parameter in given.items()} == {
        "context_manage_mode": "auto",
        "max_total_tokens": 20_000,
        "max_tool_message_tokens": 2_000,
        "group_token_threshold": None,
        "keep_recent_count": None,
        "store_dir": None,
        "chat_id": None,
        "preview_chars": 100,
        "compact_ratio_threshold": 0.75,
        "summary_role": "system",
        "summarizer": None,
        "artifacts": None,
        "encoding": "o200k_base",
    }


def test_without_a_number_one_message_is_kept_from_compaction_and_two_from_compression() -> None:
    parameters = ContextOffloadOp().parameters
    assert (parameters.compaction_keeps, parameters.compression_keeps) == (1, 2)
    parameters = ContextOffloadOp(keep_recent_count=7).parameters
    assert (parameters.compaction_keeps, parameters.compression_keeps) == (7, 7)


def test_a_chat_without_an_id_gets_one_of_its_own() -> None:
    ids = {ContextOffloadOp().chat_id for _ in range(3)}
    assert len(ids) == 3 and all(len(chat_id) == 32 for chat_id in ids)
    assert ContextOffloadOp(chat_id="mine").chat_id == "mine"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("context_manage_mode", "zip"),
        ("context_manage_mode", None),
        ("max_total_tokens", 0),
        ("max_total_tokens", -1),
        ("max_total_tokens", 2.5),
        ("max_total_tokens", True),
        ("max_tool_message_tokens", 0),
        ("max_tool_message_tokens", "2000"),
        ("group_token_threshold", -1),
        ("group_token_threshold", False),
        ("keep_recent_count", 0),
        ("keep_recent_count", -1),
        ("preview_chars", -1),
        ("preview_chars", None),
        ("compact_ratio_threshold", -0.1),
        ("compact_ratio_threshold", 1.5),
        ("compact_ratio_threshold", float("nan")),
        ("compact_ratio_threshold", "0.75"),
        ("summary_role", "assistant"),
        ("encoding", "gpt2"),
        ("chat_id", ""),
        ("chat_id", 7),
        ("chat_id", "\ud800"),
        ("store_dir", ""),
        ("store_dir", 7),
        ("store_dir", "a\0b"),
        ("store_dir", b"bytes"),
        ("store_dir", "~nobody-of-this-name/x"),
        ("store_dir", "\ud800x"),
        ("summarizer", "a model"),
        ("summarizer", dict),
        ("summarizer", NoRecipe()),
        ("artifacts", object()),
    ],
)
def test_nonsense_is_refused_by_name_value_and_what_is_allowed(name: str, value: Any) -> None:
    with pytest.raises(InvalidArgument, match=name) as refused:
        ContextOffloadOp(**{name: value})
    assert isinstance(refused.value, ValueError)
    assert "allowed" in str(refused.value) or "must be" in str(refused.value)


def test_an_unknown_parameter_is_not_ignored() -> None:
    with pytest.raises(TypeError, match="working_summary_mode"):
        ContextOffloadOp(working_summary_mode="auto")  # type: ignore[call-arg]


def test_originals_have_one_place(tmp_path: Path) -> None:
    class Somewhere:
        async def put_artifact(self) -> None: ...

        load_artifact = artifact_history = artifacts = put_artifact

    with pytest.raises(InvalidArgument, match="one place"):
        ContextOffloadOp(store_dir=tmp_path, artifacts=Somewhere())  # type: ignore[arg-type]


def test_a_path_is_taken_as_text_or_as_a_path(tmp_path: Path) -> None:
    ContextOffloadOp(store_dir=tmp_path)
    ContextOffloadOp(store_dir=str(tmp_path))
    assert list(tmp_path.iterdir()) == []


async def test_group_threshold_zero_is_one_group(tmp_path: Path) -> None:
    common: dict[str, Any] = {"context_manage_mode": "compress", "store_dir": tmp_path}
    none = await offload(talk(8), max_total_tokens=1_000, chat_id="c", **common)
    zero = await offload(
        talk(8), max_total_tokens=1_000, chat_id="c", group_token_threshold=0, **common
    )
    assert none.messages == zero.messages and len(none.files) == 1


@pytest.mark.parametrize(
    ("messages", "position"),
    [
        ([{"role": "user", "content": "a"}, "b"], "message 1"),
        ([{"role": "robot", "content": "a"}], "message 0"),
        ([{"content": "a"}], "message 0"),
        ([{"role": ["user"], "content": "a"}], "message 0"),
        ([{"role": "user", "content": 7}], "message 0"),
        ([{"role": "user", "content": ["text"]}], "message 0"),
        ([{"role": "assistant", "tool_calls": "call"}], "message 0"),
        ([{"role": "assistant", "tool_calls": {"id": "c"}}], "message 0"),
        ([{"role": "user", "content": "a", "at": object()}], "message 0"),
        ([{"role": "user", "content": "a", 7: "b"}], "message 0"),
        ({"role": "user"}, "messages"),
        ("text", "messages"),
        (None, "messages"),
    ],
)
async def test_what_is_no_message_is_refused_by_its_position(messages: Any, position: str) -> None:
    with pytest.raises(InvalidArgument, match=position):
        await ContextOffloadOp().run(messages)


async def test_an_error_about_a_message_quotes_nothing_of_it() -> None:
    with pytest.raises(InvalidArgument) as refused:
        await ContextOffloadOp().run(
            [{"role": "user", "content": "my secret plan", "at": {"secret plan"}}]
        )
    assert "secret" not in str(refused.value)


async def test_no_messages_are_no_error() -> None:
    for mode in ("compact", "compress", "auto"):
        result = await offload([], context_manage_mode=mode)
        assert result.messages == () and not result.changed


async def test_without_a_store_all_stays_and_the_result_says_why() -> None:
    messages = talk(6)
    result = await offload(messages, max_total_tokens=1_000, compact_ratio_threshold=0)
    assert list(result.messages) == messages and not result.changed and result.files == ()
    assert ("kept", "store_failed") in done(result, "compact")
    assert done(result, "compress")[0] == ("kept", "store_failed")
    assert all("store_dir" in (failure.error or "") for failure in result.failures)


async def test_without_a_store_there_is_nothing_to_load() -> None:
    op = ContextOffloadOp()
    assert await op.files() == ()
    with pytest.raises(ArtifactNotFound):
        await op.load("anything")


async def test_a_mode_does_only_what_it_says(tmp_path: Path) -> None:
    common: dict[str, Any] = {"max_total_tokens": 1_000, "store_dir": tmp_path}
    compact = await offload(talk(6), context_manage_mode="compact", **common)
    compress = await offload(talk(6), context_manage_mode="compress", **common)
    assert {action.step for action in compact.actions} == {"compact"}
    assert {action.step for action in compress.actions} == {"compress"}


@pytest.mark.parametrize("encoding", ["cl100k_base", "o200k_base"])
async def test_text_of_special_tokens_is_counted_as_text(encoding: str, tmp_path: Path) -> None:
    messages = [*talk(2), {"role": "user", "content": "<|endoftext|>"}]
    result = await offload(messages, encoding=encoding, store_dir=tmp_path)
    assert result.tokens_before > 2_000
