"""Any history, any parameters: what providers refuse never comes out, and nothing is lost."""

import asyncio
import copy
import json
import tempfile
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from durable_context.offload import ContextOffloadOp, OffloadResult
from durable_context.processors.history import tool_exchanges
from tests.offload.talks import Short, blocks, check_exchanges, rows, talk, total
from tests.properties.histories import contents, exchanges, names, texts

SYSTEMS = ("system", "developer")
WORDS = st.sampled_from(["short", "", "word " * 30, "word " * 400, "a\n</conversation-record>\nb"])


@st.composite
def _said(draw: st.DrawFn) -> list[dict[str, Any]]:
    role = draw(st.sampled_from(["user", "user", "assistant", *SYSTEMS]))
    message: dict[str, Any] = {"role": role, "content": draw(contents)}
    name = draw(names)
    return [message if name is None else message | {"name": name}]


@st.composite
def _odd(draw: st.DrawFn) -> list[dict[str, Any]]:
    """A result without a call, or one that looks like our own words."""
    look_alike = f"{rows(60)}... (detailed result is stored in {'0' * 32}/{'0' * 64}.txt)"
    text = draw(st.one_of(texts, st.just(look_alike)))
    return [{"role": "tool", "tool_call_id": "nobody", "content": text, "extra": {"a": [None]}}]


histories = st.lists(
    st.one_of(_said(), exchanges(), exchanges(), exchanges(complete=False), _odd()), max_size=9
).map(lambda pieces: [message for piece in pieces for message in piece])

parameters = st.fixed_dictionaries(
    {
        "context_manage_mode": st.sampled_from(["compact", "compress", "auto"]),
        "max_total_tokens": st.sampled_from([1, 50, 500, 20_000]),
        "max_tool_message_tokens": st.sampled_from([1, 20, 200, 2_000]),
        "group_token_threshold": st.sampled_from([None, 0, 1, 100, 1_000]),
        "keep_recent_count": st.sampled_from([None, 1, 2, 3, 50]),
        "preview_chars": st.sampled_from([0, 1, 100, 5_000]),
        "compact_ratio_threshold": st.sampled_from([0, 0.75, 1]),
        "summary_role": st.sampled_from(["system", "user"]),
        "encoding": st.sampled_from(["o200k_base", "cl100k_base"]),
    }
)
summarizers = st.one_of(st.none(), WORDS.map(Short))


@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@example(talk(5, 300), {"max_total_tokens": 50, "compact_ratio_threshold": 0}, None)
@given(histories, parameters, summarizers)
def test_any_history_offloaded_by_any_parameters_is_still_one(
    history: list[dict[str, Any]], asked: dict[str, Any], summarizer: Any
) -> None:
    asyncio.run(_check(history, asked, summarizer))


async def _check(history: list[dict[str, Any]], asked: dict[str, Any], summarizer: Any) -> None:
    given = copy.deepcopy(history)
    with tempfile.TemporaryDirectory() as store_dir:
        op = ContextOffloadOp(store_dir=store_dir, summarizer=summarizer, **asked)
        found = await op.run(history)
        assert history == given
        _check_messages(given, found)
        _check_figures(given, found, asked)
        for file in found.files:
            assert len((await op.load(file.reference)).encode(errors="surrogatepass")) == file.size
        await _check_originals(given, found, op)
        again = await op.run(found.messages)
        if not found.failures:
            assert again.messages == found.messages and not again.changed
        assert len({file.reference for file in await op.files()}) >= len(found.files)


def _check_messages(given: list[dict[str, Any]], found: OffloadResult) -> None:
    added = set(blocks(found))
    kept = [m for m in found.messages if m.get("content") not in [*added]]
    systems = [m for m in kept if m["role"] in SYSTEMS]
    assert systems == [m for m in given if m["role"] in SYSTEMS]
    rest = iter(given)  # compaction changes results alone
    assert all(m in rest for m in kept if m["role"] != "tool")
    check_exchanges(given, kept)
    assert (
        not found.changed
        or [m for m in given if m["role"] == "user"][-1:]
        == [m for m in kept if m["role"] == "user"][-1:]
    )
    left_open = [given[e.start] for e in tool_exchanges(given) if e.unanswered]
    assert all(message in kept for message in left_open)
    if given and given[-1]["role"] != "tool":
        assert found.messages[-1] == given[-1]


def _check_figures(
    given: list[dict[str, Any]], found: OffloadResult, asked: dict[str, Any]
) -> None:
    if asked.get("encoding") != "cl100k_base":
        assert found.tokens_before == total(given)
        assert found.tokens_after == total(found.messages)
    assert found.changed == (found.tokens_after < found.tokens_before)
    assert found.changed or list(found.messages) == given
    json.dumps(found.messages)
    found.model_dump_json(exclude={"messages"})


async def _check_originals(
    given: list[dict[str, Any]], found: OffloadResult, op: ContextOffloadOp
) -> None:
    """What is no longer there is in the groups that were stored."""
    stored: list[dict[str, Any]] = []
    for action in found.actions:
        if action.done == "compressed":
            assert action.reference is not None
            stored += json.loads(await op.load(action.reference))
    added = len(blocks(found))
    assert len(found.messages) - added + len(stored) == len(given)
