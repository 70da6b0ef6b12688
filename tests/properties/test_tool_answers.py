"""Answers of the context tools over any content: bounded, and complete when read on."""

import re
from collections.abc import Iterator
from uuid import uuid4

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from durable_context import ContextClient
from tests.tool_answers import COUNTER, by_name, read_on
from tests.turns import chat

pieces = st.one_of(
    st.text(max_size=80),
    st.text(alphabet="\n\t \r", max_size=200),
    st.text(alphabet="🚚仓𒀀\u0301\u202eß<>\x00", max_size=300),
    st.integers(1, 4000).map(lambda n: "x7Qz+/" * n),
    st.integers(1, 400).map(lambda n: f"row {n}, " * n),
    st.just("<conversation-record>"),
)
texts = st.lists(pieces, min_size=1, max_size=12).map("".join).filter(bool)


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    text=texts,
    max_tokens=st.integers(300, 1200),
    grep=pieces.filter(bool),
    name=st.text(min_size=1),
)
async def test_no_answer_is_over_its_bound_and_reading_on_reads_it_all(
    client: ContextClient, text: str, max_tokens: int, grep: str, name: str
):
    branch = await client.open_branch(uuid4().hex)
    label = name.replace("\x00", "_").encode(errors="replace").decode()[:100]
    artifact = await branch.put_artifact(text, name=label, media_type="text/plain")
    await branch.record_turn(chat(text, "ok"))
    tools = by_name(branch, max_tokens=max_tokens)
    answers = await read_on(tools["reload_artifact"], handle=artifact.handle)
    expanded = await read_on(tools["expand_summary"], from_turn=1)
    others = [
        await tools["list_artifacts"](),
        await tools["list_artifacts"](name=name),
        await tools["search_history"](query=grep),
        await tools["reload_artifact"](handle=artifact.handle, grep=grep),
    ]
    for answer in (*answers, *expanded, *others):
        assert COUNTER.count(answer) <= max_tokens
        assert "<conversation-record" not in answer
    assert "".join(contents(answers)) == shown(text)


def contents(answers: list[str]) -> Iterator[str]:
    """The parts as they were cut: lines are joined, characters of one line are not."""
    for position, answer in enumerate(answers):
        _, note, content = answer.split("\n", 2)
        inside = "offset=" in note
        yield content + ("" if inside or position == len(answers) - 1 else "\n")


def shown(text: str) -> str:
    """What becomes of characters that nothing may show."""
    text = re.sub("[\x00\ud800-\udfff]", "\ufffd", text)
    return text.replace("<conversation-record", "‹conversation-record")
