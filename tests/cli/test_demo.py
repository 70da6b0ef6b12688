"""`python -m examples.demo`: the whole product in one command."""

import json
import os
from pathlib import Path

from durable_context.transcripts import read_transcripts
from examples.demo import OWN_TRANSCRIPT
from tests.cli.conversations import talk
from tests.cli.running import run_process


async def test_the_demo_compacts_a_conversation_and_ends_with_its_figures(tmp_path: Path):
    file = tmp_path / "talk.json"
    file.write_text(json.dumps(talk(16)))
    plot = tmp_path / "plot.png"
    ended = await run_process(
        ["-m", "examples.demo", "--plot", str(plot)],
        {"TRANSCRIPT": str(file), "TMPDIR": str(tmp_path)},
    )
    assert ended.code == 0, ended.errors
    figures = ended.figures
    assert (figures["turns"], figures["compactions"], figures["failed"]) == (16, 2, 0)
    assert 20 <= figures["history_events"]["max"] <= 40
    assert "frontier: 2 nodes cover turns 1–12" in ended.out
    assert "cp 1–6 · " in ended.out
    assert "observed maximum" in ended.out
    assert "KEEP=1 make demo leaves everything up" in ended.out
    assert "http://" not in ended.out, "no address outlives the servers"
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert sorted(os.listdir(tmp_path)) == ["plot.png", "talk.json"]


async def test_a_transcript_that_cannot_be_read_starts_nothing(tmp_path: Path):
    ended = await run_process(
        ["-m", "examples.demo", "--transcript", str(tmp_path / "none.json")], {}
    )
    assert ended.code == 2
    assert "none.json: cannot be read" in ended.errors


def test_the_shipped_conversation_is_long_and_has_what_real_ones_have():
    (transcript,) = read_transcripts(OWN_TRANSCRIPT)
    messages = [message for turn in transcript.turns for message in turn.messages]
    results = [message["content"] for message in messages if message["role"] == "tool"]
    assert len(transcript.turns) >= 40
    assert all(turn.occurred_at for turn in transcript.turns)
    assert any(len(message.get("tool_calls") or ()) > 1 for message in messages)
    assert any(turn.outcome == "interrupted" for turn in transcript.turns)
    assert max(map(len, results)) > 20_000
    assert sum(2_000 < len(result) < 10_000 for result in results) >= 5
