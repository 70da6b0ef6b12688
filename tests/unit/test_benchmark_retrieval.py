import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from benchmarks.retrieval.answers import Answer, Found, Score, Tally, score
from benchmarks.retrieval.comparing import earlier, pairs_of
from benchmarks.retrieval.evidence import held, in_one_line
from benchmarks.retrieval.floor import Asking, evenly, strangers, together
from benchmarks.retrieval.intervals import interval
from benchmarks.retrieval.measure import Measured
from benchmarks.retrieval.methods import BM25, OURS
from benchmarks.retrieval.misses import Miss, is_missed
from benchmarks.retrieval.questions import Evidence, Question, Talk, joined, talks
from benchmarks.retrieval.report import as_json, goals
from benchmarks.retrieval.segments import Bm25, segments_of, shown
from benchmarks.traces import Half, MissingData
from durable_context.tokens import token_counter
from durable_context.transcripts import TranscriptTurn

COUNTER = token_counter("o200k_base")
LONG = "We went to the harbour on Sunday. It rained all day long! Lovely. [shared image: a boat]"


def evidence(*texts: str, turn_no: int = 1) -> tuple[Evidence, ...]:
    return tuple(Evidence(turn_no, text) for text in texts)


def question(*said: Evidence, talk: str = "friends", category: str = "single-hop") -> Question:
    return Question(talk, "Where did they go?", "The harbour.", category, said)


def block(from_turn: int, to_turn: int) -> Found:
    return Found(from_turn, to_turn, 10, 2)


def turn(*said: str, day: int = 1) -> TranscriptTurn:
    messages = tuple({"role": "user", "content": text} for text in said)
    return TranscriptTurn(messages=messages, occurred_at=datetime(2026, 3, day, tzinfo=UTC))


def scored(recall: float, category: str = "single-hop", tokens: int = 700) -> Score:
    return Score(category, recall, float(recall > 0), recall, recall, recall, tokens, 3, 3, 18)


def measured(*scores: Score) -> Measured:
    asked = [("friends", f"question {number}") for number in range(len(scores))]
    tallies = {OURS: Tally(list(scores)), BM25: Tally(list(scores))}
    return Measured("made up", 1, 20, 1.0, asked, tallies)


def row(name: str, first: int) -> dict[str, Any]:
    return {
        "conversation_id": name,
        "speaker_user": "Ada",
        "speaker_assistant": "Ben",
        "turns": [
            {
                "timestamp": "1:56 pm on 8 May, 2023",
                "user": "I bought a kite.",
                "assistant": "Which colour?",
                "user_dia_ids": ["D1:1"],
                "assistant_dia_ids": ["D1:2"],
            },
            {
                "timestamp": "1:56 pm on 9 May, 2023",
                "user": None,
                "assistant": "Is it red?",
                "user_dia_ids": [],
                "assistant_dia_ids": ["D1:3"],
            },
        ],
        "questions": [
            {
                "question": f"What did Ada buy {first}?",
                "answer": "A kite.",
                "category": 4,
                "category_name": "single-hop",
                "evidence_dia_ids": ["D1:1", "D1:3"],
            }
        ],
    }


def write(folder: Path, *rows: dict[str, Any]) -> None:
    (folder / "locomo.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in rows))


@pytest.mark.parametrize(
    ("text", "part", "whole"),
    [
        (f"[turn 3] Ada: {LONG}", 1, 1),
        ("… It rained all day long! …", 1, 0),
        ("[turn 3] Ada: We went to the harbour on", 0, 0),
        ("Lovely. [shared image: a boat]", 0, 0),
        ("", 0, 0),
    ],
)
def test_a_message_is_held_whole_or_by_a_sentence_that_tells_it_from_others(
    text: str, part: float, whole: float
) -> None:
    assert held(evidence(LONG), text) == (part, whole)


def test_a_short_message_is_held_as_a_whole_only() -> None:
    assert held(evidence("Yes, it is red."), "Ben: Yes, it is red.").part == 1
    assert held(evidence("Yes! Red."), "Yes! It is red.").part == 0


def test_white_space_is_not_told_apart() -> None:
    assert held(evidence("One\n two"), in_one_line("Ada: One\ttwo")).whole == 1


def test_evidence_counts_by_message_and_recall_by_turn() -> None:
    asked = question(*evidence(LONG, turn_no=3), *evidence("It is red.", turn_no=9))
    blocks = (block(1, 6), block(13, 18))
    got = score(asked, Answer(blocks, "Ada: It is red.", f"Ben: {LONG}"))

    assert (got.recall, got.hit, got.quoted, got.present) == (0.5, 1.0, 0.5, 0.5)
    assert (got.tokens, got.blocks, got.sources, got.turns) == (20, 2, 4, 12)


def test_where_no_prompt_is_known_the_blocks_are_the_prompt() -> None:
    got = score(question(*evidence(LONG)), Answer((block(1, 1),), LONG))

    assert (got.quoted, got.present) == (1.0, 1.0)


def test_two_messages_of_one_turn_are_one_turn_of_recall() -> None:
    asked = question(*evidence("One.", "Two.", turn_no=4), *evidence("Three.", turn_no=8))

    assert score(asked, Answer((block(7, 12),))).recall == 0.5


def test_an_interval_lies_around_the_mean_and_is_the_same_every_time() -> None:
    values = [1.0] * 30 + [0.0] * 10
    mean, low, high = interval(values)

    assert mean == 0.75
    assert 0.55 < low < 0.68
    assert 0.82 < high < 0.95
    assert interval(values) == (mean, low, high)
    assert interval([1.0] * 7) == (1.0, 1.0, 1.0)
    assert interval([]) == (0.0, 0.0, 0.0)


def test_bm25_prefers_rare_terms_and_short_documents() -> None:
    common = Counter({"day": 1, "fine": 1})
    index = Bm25([common, common, Counter({"day": 1, "kite": 1}), Counter({"kite": 1, "long": 3})])

    assert index.best(Counter({"day": 1, "kite": 1})) == [2, 3, 0]
    assert index.best(Counter({"absent": 1})) == []


def test_segments_are_six_turns_under_the_day_of_the_first() -> None:
    talk = Talk("friends", tuple(turn(f"Ada: line {n}", day=n) for n in range(1, 9)), ())
    first, second = segments_of(talk)

    assert (first.from_turn, first.to_turn, second.from_turn, second.to_turn) == (1, 6, 7, 8)
    assert second.text == "[07 March 2026]\nAda: line 7\nAda: line 8\n"


def test_segments_are_cut_at_the_first_message_that_does_not_fit() -> None:
    talk = Talk("friends", tuple(turn(f"Ada: This is line {n}.") for n in range(1, 13)), ())
    first, second = segments_of(talk)
    whole = shown([first, second], COUNTER)
    cut = shown([second, first], COUNTER, whole.blocks[1].tokens + 30)

    assert [(each.from_turn, each.to_turn) for each in cut.blocks] == [(7, 12), (1, 2)]
    assert cut.text.endswith("Ada: This is line 2.")
    assert cut.tokens <= whole.blocks[1].tokens + 30
    assert shown([first], COUNTER, 5) == Answer(())


def test_conversations_are_read_with_their_speakers_and_the_turns_of_the_evidence(
    tmp_path: Path,
) -> None:
    write(tmp_path, row("locomo-26", 1), row("locomo-30", 2), row("locomo-44", 3))
    first, second = talks(tmp_path, Half.DEV)

    assert (first.name, second.name) == ("locomo-26", "locomo-30")
    assert [m["content"] for t in first.turns for m in t.messages] == [
        "Ada: I bought a kite.",
        "Ben: Which colour?",
        "Ben: Is it red?",
    ]
    assert first.turns[1].occurred_at == datetime(2023, 5, 9, 13, 56, tzinfo=UTC)
    assert first.questions[0].evidence == (
        Evidence(1, "I bought a kite."),
        Evidence(2, "Is it red?"),
    )
    assert [each.name for each in talks(tmp_path, Half.DEV, ["locomo-30"])] == ["locomo-30"]
    assert [each.name for each in talks(tmp_path, Half.HELDOUT)] == ["locomo-44"]


def test_a_conversation_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    write(tmp_path, row("locomo-26", 1), row("locomo-44", 2))

    with pytest.raises(MissingData, match=r"no conversation 'locomo-44'.*allowed: locomo-26"):
        talks(tmp_path, Half.DEV, ["locomo-44"])


def test_joined_conversations_go_on_counting_turns(tmp_path: Path) -> None:
    write(tmp_path, row("locomo-26", 1), row("locomo-30", 2))
    both = talks(tmp_path, Half.DEV)
    one = joined(both)

    assert one.turns == both[0].turns + both[1].turns
    assert [sorted(asked.turns) for asked in one.questions] == [[1, 2], [3, 4]]
    assert [asked.talk for asked in one.questions] == ["locomo-26", "locomo-30"]


def test_messages_are_chosen_evenly() -> None:
    assert evenly(list("abcdefghij"), 4) == ["a", "c", "f", "h"]
    assert evenly(["a", "b"], 4) == ["a", "b"]
    assert evenly([], 4) == []


def test_without_other_corpora_only_small_talk_is_asked(tmp_path: Path) -> None:
    assert list(strangers(tmp_path, Half.DEV)) == ["small talk"]


def test_what_users_say_to_agents_is_asked_once(tmp_path: Path) -> None:
    said = ["Book a flight.", "Yes.", "Yes.", "Bye. ###STOP###"]
    messages = [{"role": "user", "content": text} for text in said]
    run = {"trajectory_id": "one", "source_index": 0, "messages": messages}
    (tmp_path / "taubench.jsonl").write_text(json.dumps(run))

    assert strangers(tmp_path, Half.DEV)["tau-bench"] == ["Book a flight.", "Yes."]


def test_messages_for_which_something_was_retrieved_are_counted_by_kind() -> None:
    first, second = Asking("small talk"), Asking("small talk")
    first.add("Hi!", Answer(()))
    second.add("Bye!", Answer((block(1, 6), block(7, 12)), "a"))
    (total,) = together([first, second])

    assert (total.messages, total.blocks, total.share) == (2, 2, 0.5)
    assert total.answered == [("Bye!", "a")]


def test_a_miss_says_what_became_of_its_evidence() -> None:
    said = evidence("I am here.", turn_no=2) + evidence("I am there.", turn_no=3)
    far = evidence("I am far.", "I am away.", turn_no=40)
    asked = question(*said, *far)
    answer = Answer((block(1, 6),), "Ada: I am here.", "Ada: I am here. Ben: I am away.")
    miss = Miss(asked, answer)

    assert is_missed(asked, answer)
    assert not is_missed(question(said[0]), answer)
    assert [miss.fate(each) for each in asked.evidence] == [
        "quoted",
        "its turns retrieved, not quoted",
        "not retrieved",
        "elsewhere in the prompt",
    ]


def test_goals_are_the_means_and_the_largest_number_of_tokens() -> None:
    found = list(goals(measured(scored(1.0, tokens=751), scored(0.8125), scored(0.625))))

    assert [(goal.figure, goal.met) for goal in found] == [
        (0.8125, False),
        (0.8125, True),
        (751, False),
    ]


def test_one_run_is_compared_with_another_at_the_questions_of_both(tmp_path: Path) -> None:
    scores = (scored(1.0), scored(0.5, "multi-hop"))
    path = tmp_path / "before.json"
    path.write_text(as_json(measured(*scores), "dev"))
    before = earlier(path)

    now = {("friends", "question 1"): scored(1.0, "multi-hop"), ("friends", "new"): scored(0.0)}
    assert pairs_of(now, before) == [(scored(1.0, "multi-hop"), scored(0.5, "multi-hop"))]


def test_what_is_no_earlier_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "before.json"
    path.write_text('{"questions": [{"conversation": "friends"}]}')

    with pytest.raises(MissingData, match=r"before\.json' is not what --json writes"):
        earlier(path)


def test_json_has_every_method_by_category() -> None:
    written = json.loads(as_json(measured(scored(1.0), scored(0.5, "multi-hop")), "dev"))

    assert list(written["methods"]) == [OURS, BM25]
    ours = written["methods"][OURS]
    assert list(ours) == ["all", "multi-hop", "single-hop"]
    assert ours["all"]["shares"]["recall@3"]["mean"] == 0.75
    assert ours["multi-hop"]["questions"] == 1
