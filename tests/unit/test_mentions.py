"""What a summarizer of turns is told of artifacts, wherever in a message they stood."""

from datetime import UTC, datetime
from typing import Any

import pytest

from durable_context import Message, Turn
from durable_context.artifacts.mentions import TurnMentions
from durable_context.artifacts.summaries import ToldArtifact

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HANDLE = "art_" + "x" * 22
WHOLE = Message(role="tool", tool_call_id="a", content="view", artifact=HANDLE)


def with_part(**part: Any) -> Message:
    return Message(role="tool", tool_call_id="a", content=(part,))


@pytest.mark.parametrize(
    "message",
    [
        WHOLE,
        with_part(type="text", text="view", artifact=HANDLE),
        with_part(type="image_url", artifact={"handle": HANDLE, "media_type": "image/png"}),
    ],
    ids=["the message", "a text part", "an image"],
)
def test_the_summary_of_an_artifact_stands_beside_its_view(message: Message) -> None:
    turn = Turn(
        turn_no=1,
        turn_key="k",
        messages=(message,),
        token_count=10,
        outcome="complete",
        continues=False,
        occurred_at=NOON,
        recorded_at=NOON,
        digest="",
    )
    told = TurnMentions({HANDLE: ToldArtifact("Pumps", "Pump 7 leaks.", 5)}).told(turn)
    assert "Pump 7 leaks." in str(told.messages[0].content)
    assert told.token_count > turn.token_count
