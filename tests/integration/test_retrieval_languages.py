"""What is found in conversations in other languages and scripts than English."""

from typing import Any

import pytest

from durable_context import Branch, ContextClient
from durable_context.database import Pool
from tests.retrieving import asked, blocks, found, remembered, retrieved
from tests.turns import chat

SAID: dict[int, list[dict[str, Any]]] = {
    2: chat("我的房东叫陈建国，住在杭州。", "好的，我记住了陈建国。"),
    5: chat("佐藤さんの会議は金曜日に変更されました。", "佐藤さんの会議、金曜日ですね。"),
    8: chat("우리 고양이 이름은 나비입니다.", "나비는 예쁜 이름이네요."),
    11: chat("เครื่องซักผ้าเสียเมื่อวานนี้", "ควรเรียกช่างมาซ่อมเครื่องซักผ้า"),
    14: chat("موعد الطبيب يوم الثلاثاء في بيروت", "سأذكرك بموعد الطبيب"),
    17: chat("הפגישה עם עורכת הדין ביום רביעי", "רשמתי: עורכת הדין"),
    20: chat("Наша собака Жучка боится грозы.", "Жучка спрячется под столом."),
    23: chat("Η γιαγιά μαγειρεύει μουσακά στην Πάτρα.", "Νόστιμο!"),
    26: chat("Deploy 失败了，错误 E5077 在 服务器 上。", "E5077 表示磁盘已满。"),
    29: chat("Meeting 🦜 the parrot café in İzmir.", "The café serves çay."),
    32: chat("हमारी गाय का नाम लक्ष्मी है।", "लक्ष्मी सुंदर नाम है।"),
}


@pytest.fixture
async def branch(client: ContextClient, pool: Pool) -> Branch:
    branch = await client.open_branch("many tongues")
    await remembered(branch, pool, 44, SAID)
    return branch


@pytest.mark.parametrize(
    ("message", "turn"),
    [
        ("房东叫什么名字？", 2),
        ("陈建国", 2),
        ("佐藤さんの会議はいつですか？", 5),
        ("고양이 이름이 뭐였지?", 8),
        ("เครื่องซักผ้าเป็นอะไร", 11),
        ("متى موعد الطبيب؟", 14),
        ("מתי הפגישה עם עורכת הדין?", 17),
        ("Чего боится собака Жучка?", 20),
        ("Πού μαγειρεύει η γιαγιά μουσακά;", 23),
        ("What was E5077?", 26),
        ("服务器的错误是什么？", 26),
        ("Which café in İzmir?", 29),
        ("When did I meet the parrot 🦜?", 29),
        ("गाय का नाम क्या है?", 32),
        ("\u202bموعد الطبيب\u202c", 14),
        ("ＥＲＲＯＲ Ｅ５０７７", 26),
        ("Cafe\u0301 I\u0307zmir", 29),
    ],
)
async def test_what_was_said_in_any_script_is_found(branch: Branch, message: str, turn: int):
    assert f"[turn {turn}, " in await found(branch, message)


@pytest.mark.parametrize(
    "message",
    ["你好", "谢谢！", "こんにちは", "ありがとうございます", "안녕하세요", "สวัสดีครับ", "👍🎉"],
)
async def test_greetings_in_other_scripts_find_nothing(branch: Branch, message: str):
    assert await found(branch, message) == ""


@pytest.mark.parametrize(
    "message",
    [
        "量子力学的基本原理究竟怎样解释？",
        "명왕성까지 거리는 얼마나 됩니까?",
        "宇宙飛行士は何を食べますか？",
    ],
)
async def test_what_was_never_spoken_of_in_them_finds_nothing(branch: Branch, message: str):
    assert await found(branch, message) == ""


async def test_a_text_without_spaces_is_quoted_around_what_is_asked_for(
    client: ContextClient, pool: Pool
):
    branch = await client.open_branch("long")
    text = (
        "今天天气晴朗我们去公园散步。" * 80 + "房东的电话是0571。" + "然后回家做饭看电视休息。" * 80
    )
    await remembered(branch, pool, 20, {4: chat(text, "好的。")})
    prepared = await asked(branch, "房东的电话是多少？")
    assert "房东的电话是0571" in retrieved(prepared)


@pytest.mark.parametrize(
    ("text_search", "message", "is_found"),
    [
        ("german", "Welche Häuser gab es in Lindau?", True),
        ("german", "Von welchem Hause war die Rede?", True),
        ("simple", "Haus", True),
        ("simple", "Hauses", False),
        ("english", "Die Häuser?", False),
    ],
)
async def test_words_are_compared_in_the_language_of_the_branch(
    client: ContextClient, pool: Pool, text_search: str, message: str, is_found: bool
):
    branch = await client.open_branch("haus", text_search=text_search)
    said = {4: chat("Wir kauften ein Haus in Lindau.", "Ein Haus am See, schön.")}
    await remembered(branch, pool, 20, said)
    assert ("[turn 4, " in await found(branch, message)) is is_found


async def test_a_branch_without_a_language_finds_words_and_identifiers_as_they_stand(
    client: ContextClient, pool: Pool
):
    branch = await client.open_branch("any", text_search="simple")
    await remembered(branch, pool, 44, SAID)
    for message, turn in (("Жучка", 20), ("E5077", 26), ("陈建国", 2), ("parrot", 29)):
        prepared = await asked(branch, message)
        assert f"[turn {turn}, " in retrieved(prepared), (message, blocks(prepared))


async def test_a_fork_speaks_the_language_of_its_parent(client: ContextClient, pool: Pool):
    branch = await client.open_branch("haus", text_search="german")
    await remembered(branch, pool, 20, {4: chat("Wir kauften ein Haus in Lindau.", "Schön.")})
    child = await branch.fork("child")
    assert "[turn 4, " in await found(child, "Welche Häuser gab es in Lindau?")


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("He calls it “anvil” all day.", "Where is the anvil he has?"),
        ("The anvil—our oldest tool—cracked.", "Where is the anvil he has?"),
        ("Wo ist der „Anvil“?", "Where is the anvil he has?"),
        ("C'est «anvil» ici.", "Where is the anvil he has?"),
        ("Bought an anvil😀 yesterday", "Where is the anvil he has?"),
        ("The anvil’s horn cracked.", "Where is the anvil's owner now?"),
        ("¿anvil? ¡anvil!", "Where is the anvil he has?"),
        ("• anvil\n→anvil", "Where is the anvil he has?"),
        ("The anvil fell.", "Where is the “anvil”—and why?"),
        ("The anvil’s horn cracked.", "Which horn belongs to the anvil?"),
    ],
)
async def test_marks_that_are_not_ascii_are_no_part_of_words(
    client: ContextClient, pool: Pool, said: str, message: str
):
    branch = await client.open_branch("marks")
    await remembered(branch, pool, 20, {4: chat(said, "Noted.")})
    assert "[turn 4, " in await found(branch, message)
