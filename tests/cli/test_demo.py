"""`python -m examples.demo`: the whole product in one command."""

import json
import os
from pathlib import Path

from durable_context.transcripts import read_transcripts
from examples.demo import OWN_TRANSCRIPT
from examples.shipment_report import ODD_LINE, shipment_report
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
    fork = figures["fork"]
    assert (fork["turn"], fork["branches"], fork["parent_unchanged"]) == (8, 2, True)
    assert 29_000 < fork["artifact_bytes"] < 31_000
    assert fork["view_tokens"] < 300 < 10_000 < fork["artifact_tokens"]
    assert fork["prompt_tokens"] < fork["artifact_tokens"]
    assert "goes on from turn 8" in ended.out
    assert "; with the report in it, it would have " in ended.out
    assert "finds 1 of 500 lines:" in ended.out
    assert "  317: SHP-51317 | " in ended.out
    assert fork["summarized"], "compaction reaches the report"
    assert "main is as it was: head 16, checkpoint 12." in ended.out
    trees = [line for line in ended.out.splitlines() if " · head " in line]
    assert [line.split(" · last")[0] for line in trees] == [
        "main · head 16 · checkpoint 12",
        "└── what-if-at-8 · forked at turn 8 · head 16 · checkpoint 12",
    ]
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert sorted(os.listdir(tmp_path)) == ["plot.png", "talk.json"]


async def test_a_transcript_that_cannot_be_read_starts_nothing(tmp_path: Path):
    ended = await run_process(
        ["-m", "examples.demo", "--transcript", str(tmp_path / "none.json")], {}
    )
    assert ended.code == 2
    assert "none.json: cannot be read" in ended.errors


def test_the_report_has_500_lines_and_one_of_them_is_odd():
    lines = shipment_report().splitlines()
    assert len(lines) == 500
    assert [number for number, line in enumerate(lines, start=1) if "HELD" in line] == [ODD_LINE]
    assert len(set(lines)) == 500


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
