import asyncio
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

from rich.console import Console

from benchmarks.database import Database, silence
from benchmarks.retrieval.answers import Answer, Asked
from benchmarks.retrieval.floor import GREETINGS, OTHER_TALKS
from benchmarks.retrieval.measure import measure, recorded
from benchmarks.retrieval.methods import CUT, METHODS, OURS, asked_of
from benchmarks.retrieval.misses import show_answered, show_misses
from benchmarks.retrieval.questions import Evidence, Question, Talk
from benchmarks.retrieval.report import show
from benchmarks.retrieval.segments import by_bm25, by_cover_density, lexemes
from durable_context.database import Pool
from durable_context.transcripts import TranscriptTurn

ROOT = Path(__file__).parents[2]
BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
THINGS = ("kite", "piano", "canoe", "telescope", "hammock", "bicycle", "violin", "lantern")


def friends(name: str, owner: str) -> Talk:
    """One thing is bought in every sixth turn; each is asked for, and one that has no name."""
    turns: list[TranscriptTurn] = []
    questions: list[Question] = []
    for day, thing in enumerate(THINGS):
        said = f"I bought a {thing} from the old shop in Ghent."
        evidence = Evidence(len(turns) + 1, said)
        questions.append(
            Question(name, f"Where was the {thing} bought?", "Ghent", "single-hop", (evidence,))
        )
        turns.append(turn(day, f"{owner}: {said}", "Ben: Well done."))
        turns += [turn(day, f"{owner}: Fine weather, day {day}.{n}.") for n in range(5)]
    turns += [turn(len(THINGS), f"{owner}: See you.")] * 2  # stays raw, and is never retrieved
    hidden = Evidence(6, "Fine weather, day 0.4.")
    questions.append(Question(name, "Which zebra emigrated?", "None", "open-domain", (hidden,)))
    return Talk(name, tuple(turns), tuple(questions))


def turn(day: int, said: str, answer: str | None = None) -> TranscriptTurn:
    messages = [{"role": "user", "content": said}]
    if answer:
        messages.append({"role": "assistant", "content": answer})
    return TranscriptTurn(messages=tuple(messages), occurred_at=BEGIN + timedelta(days=day))


async def test_every_method_is_asked_every_question(pool: Pool) -> None:
    pair = [friends("first", "Ada"), friends("second", "Eve")]
    found = await measure(
        Database(pool, pool), "made up", pair, {GREETINGS: ["Hi!", "Bye!"]}, silence
    )

    assert list(found.tallies) == list(METHODS)
    assert (found.conversations, found.turns, len(found.asked)) == (2, 100, 18)
    assert {len(tally.scores) for tally in found.tallies.values()} == {18}
    named = {name: tally.of("single-hop") for name, tally in found.tallies.items()}
    for name in (OURS, "BM25", "BM25, 750", "ts_rank_cd", "best 3 segments", "everything"):
        assert named[name].mean(lambda score: score.recall) == 1.0, name
        assert named[name].mean(lambda score: score.quoted) == 1.0, name
    for name in (f"BM25, {CUT}", f"ts_rank_cd, {CUT}", f"newest, {CUT}"):
        assert 0 < found.tallies[name].percentile(1.0) <= CUT, name
    assert max(score.blocks for score in found.tallies[OURS].scores) <= 3
    kinds = {asking.kind: asking.messages for asking in found.floor}
    assert kinds == {GREETINGS: 4, OTHER_TALKS: 18}


async def test_what_no_block_holds_is_a_miss(pool: Pool) -> None:
    found = await measure(Database(pool, pool), "made up", [friends("first", "Ada")], {}, silence)

    assert [miss.question.text for miss in found.misses] == ["Which zebra emigrated?"]
    assert not found.floor


async def test_the_report_tells_all_categories_methods_and_misses(pool: Pool) -> None:
    found = await measure(
        Database(pool, pool),
        "made up",
        [friends("first", "Ada")],
        {GREETINGS: ["What about the kite?"]},
        silence,
    )
    text = StringIO()
    console = Console(file=text, width=120)
    show(found, {("first", "Which zebra emigrated?"): found.tallies[OURS].scores[-1]}, console)
    show_misses(found.misses, 5, console)
    show_answered(found.floor, 5, console)

    said = text.getvalue()
    for part in (
        "all: 9 questions",
        "open-domain: 1 questions",
        *METHODS,
        "less BM25",
        "less the earlier run",
        "retrieved tokens, most",
        "Fine weather, day 0.4.",
        "small talk: 'What about the kite?' got",
    ):
        assert part in said, part


async def test_a_prompt_is_read_without_the_question(pool: Pool) -> None:
    asked = await recorded(Database(pool, pool), friends("first", "Ada"))
    answer = await asked_of(asked.branch, "Where was the telescope bought, dearest?")

    assert answer.prompt is not None
    assert "dearest" not in answer.prompt
    assert "bought a telescope" in answer.text
    assert "See you." not in answer.text
    assert answer.text in answer.prompt
    assert 19 in answer.turns


async def test_rankings_take_any_of_the_words_in_any_form(pool: Pool) -> None:
    segments = ["The shops were closed.", "A kite flew by.", "O'Neil\\s boats, and kites."]
    questions = ["kites in a shop", "the of and", "boat", "it's O'Neil\\s"]

    for ranking in (by_bm25, by_cover_density):
        found = await ranking(pool, segments, questions)
        assert sorted(found[0]) == [0, 1, 2], ranking
        assert found[1:3] == [[], [2]], ranking
        assert found[3] == [2], ranking
    assert dict((await lexemes(pool, ["kites, kite and a shop"]))[0]) == {"kite": 2, "shop": 1}


async def test_another_method_is_compared_beside_ours(pool: Pool) -> None:
    async def silent(asked: Asked) -> list[Answer]:
        return [Answer(())] * len(asked.talk.questions)

    methods = {OURS: METHODS[OURS], "silent": silent}
    found = await measure(
        Database(pool, pool), "made up", [friends("first", "Ada")], {}, silence, methods
    )

    assert found.tallies["silent"].without_block == 9
    assert found.tallies["silent"].mean(lambda score: score.recall) == 0
    show(found, None, Console(file=StringIO()))


async def test_a_folder_without_conversations_is_an_error_that_says_what_is_wanted(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-m", "benchmarks.retrieval", "--data", str(tmp_path)]
    ran = await asyncio.to_thread(
        subprocess.run, command, cwd=ROOT, capture_output=True, text=True, timeout=60
    )

    assert ran.returncode == 1
    assert ran.stdout == ""
    assert "there is no locomo.jsonl" in ran.stderr
    assert "Name a folder with --data" in ran.stderr
