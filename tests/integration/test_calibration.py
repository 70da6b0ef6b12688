"""Budgets in the tokens of a model that counts otherwise than the branch: prompts fit by that
model's own count, before anything was reported and after, and reports make them longer.
"""

import asyncio
import base64
import json
from collections.abc import Callable
from typing import Any, TypeAlias
from urllib.request import Request, urlopen

import asyncpg
import pytest

from durable_context import Branch, Budget, BudgetExceeded, ContextClient, PreparedContext
from durable_context import tokens as vocabularies
from durable_context.tokens import REPLY_OVERHEAD, token_counter
from durable_context.turns.messages import parse_message
from tests.model_server import ModelServer, Reply
from tests.prompts import check_prompt, check_tokens
from tests.turns import call, calling, chat, exchange, numbered, result
from tests.unit.test_model_tokens import ASKED, TOLD, WEATHER

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Measure = Callable[[PreparedContext], int]

MODEL = "ours-large"
ENGLISH = "The order leaves the depot in Rotterdam on Monday and is due three days later. "
CHINESE = "我想预订一张从北京到上海的机票，下周五出发，要靠窗的座位。请问订单号是多少？"
HINDI = "सरकार ने बुधवार को घोषणा की कि अगले वर्ष अक्षय ऊर्जा के लिए समर्थन बढ़ाया जाएगा। "
SAID = {"english": ENGLISH, "chinese": CHINESE, "hindi": HINDI}


def by_vocabulary(encoding: str) -> Measure:
    """Another real tokenizer."""

    def measure(prepared: PreparedContext) -> int:
        messages = [parse_message(message, 0) for message in prepared.messages]
        return REPLY_OVERHEAD + sum(map(token_counter(encoding).count_message, messages))

    return measure


def by_bytes(prepared: PreparedContext) -> int:
    """A tokenizer that merges little: three bytes make a token, whatever the language."""
    return sum(4 + len(str(message["content"]).encode()) // 3 for message in prepared.messages)


def of_the_branch(prepared: PreparedContext) -> int:
    return by_vocabulary("o200k_base")(prepared)


def times(factor: float) -> Measure:
    """The branch's own, and some more on everything."""
    return lambda prepared: int(factor * of_the_branch(prepared))


async def talk(client: ContextClient, text: str, turns: int = 8) -> Branch:
    """A branch with much more to say than the budgets here allow."""
    branch = await client.open_branch(f"talk-{text[:4]}")
    for n in range(turns):
        await branch.record_turn(chat(f"{n}: {text * 6}", f"{n}: {text * 12}"))
    return branch


async def known(connection: Connection) -> list[tuple[Any, ...]]:
    rows = await connection.fetch(
        "select tenant, model, encoding, kind, reports, peak"
        " from durable_context.token_calibrations order by 1, 2, 3, 4"
    )
    return [tuple(row) for row in rows]


async def prepared_for(branch: Branch, budget: Budget) -> PreparedContext:
    prepared = await branch.prepare("Go on.", budget=budget)
    assert isinstance(prepared, PreparedContext)
    check_tokens(prepared)
    return prepared


@pytest.mark.parametrize("language", SAID)
@pytest.mark.parametrize(
    ("model", "measure"),
    [
        (MODEL, by_bytes),
        (MODEL, times(1.4)),
        ("gpt-4", by_vocabulary("cl100k_base")),
        ("claude-sonnet-4-5", times(1.6)),
    ],
    ids=["bytes", "1.4", "cl100k", "1.6"],
)
async def test_prompts_fit_by_the_models_own_count_before_any_report_and_after_each(
    client: ContextClient, language: str, model: str, measure: Measure
):
    branch = await talk(client, SAID[language])
    budget = Budget(max_tokens=4_000, model=model)
    factors: list[float] = []
    for step in range(12):
        prepared = await prepared_for(branch, budget)
        factors.append(prepared.manifest.token_factor)
        used = measure(prepared)
        assert used <= prepared.token_count <= 4_000
        await branch.record_turn(
            chat("Go on.", SAID[language] * 8 + str(step)),
            prepared=prepared,
            usage={"prompt_tokens": used},
        )
    assert factors[0] > factors[-1] > 1


@pytest.mark.parametrize("language", ["english", "chinese"])
async def test_reports_make_prompts_longer(client: ContextClient, language: str):
    branch = await talk(client, SAID[language])
    budget, measure = Budget(max_tokens=4_000, model=MODEL), times(1.4)
    first = await prepared_for(branch, budget)
    for step in range(30):
        prepared = await prepared_for(branch, budget)
        await branch.record_turn(
            chat(f"Go on with {step}.", SAID[language] * 12),
            prepared=prepared,
            usage={"input_tokens": measure(prepared), "output_tokens": 9},
        )
    last = await prepared_for(branch, budget)
    assert first.manifest.token_factor > last.manifest.token_factor
    assert 1.4 < last.manifest.token_factor < 1.4 * 1.1 + 0.2
    assert measure(last) <= 4_000


async def test_the_branchs_own_encoding_is_exact_and_teaches_nothing(
    client: ContextClient, connection: Connection
):
    branch = await talk(client, ENGLISH)
    named = await prepared_for(branch, Budget(max_tokens=4_000, model="gpt-4o-mini"))
    plain = await prepared_for(branch, Budget(max_tokens=4_000))
    assert named.messages == plain.messages
    assert named.token_count == plain.token_count == of_the_branch(named)
    assert (named.manifest.model, named.manifest.token_factor) == ("gpt-4o-mini", 1.0)
    for prepared in (named, plain):
        await branch.record_turn(
            chat("Go on.", "Done."),
            prepared=prepared,
            usage={"prompt_tokens": round(1.3 * prepared.token_count)},
            on_conflict="append",
        )
    assert await known(connection) == []


@pytest.mark.parametrize(
    ("encoding", "model", "reported"),
    [
        ("o200k_base", "gpt-4o-mini", 101),
        ("o200k_base", "gpt-4o", 101),
        ("cl100k_base", "gpt-4", 105),
    ],
)
async def test_a_prompt_with_tools_counts_what_the_cookbook_reports_of_the_api(
    make_client: Any, encoding: str, model: str, reported: int
):
    client: ContextClient = await make_client(encoding=encoding)
    branch = await client.open_branch("weather")
    budget = Budget(max_tokens=reported, instructions=TOLD, tools=[WEATHER], model=model)
    prepared = await branch.prepare(ASKED, budget=budget)
    assert isinstance(prepared, PreparedContext)
    assert prepared.token_count == reported
    check_tokens(prepared)


async def test_a_report_is_learned_once_however_often_its_turn_is_sent(
    client: ContextClient, connection: Connection
):
    branch = await talk(client, ENGLISH)
    prepared = await prepared_for(branch, Budget(max_tokens=4_000, model=MODEL))
    counted = prepared.manifest.counted_tokens
    for _ in range(3):
        await branch.record_turn(
            chat("Go on.", "Done."),
            turn_key="once",
            prepared=prepared,
            usage={"prompt_tokens": 2 * counted},
        )
    assert await known(connection) == [("default", MODEL, "o200k_base", "plain", 1, 2.0)]


async def test_a_single_outlier_widens_and_wears_off(client: ContextClient, connection: Connection):
    branch = await talk(client, ENGLISH)
    budget = Budget(max_tokens=4_000, model=MODEL)
    factors: list[float] = []
    for ratio in (1.1, 1.1, 3.0, 0.8, *[1.1] * 20):
        prepared = await prepared_for(branch, budget)
        factors.append(prepared.manifest.token_factor)
        used = round(ratio * prepared.manifest.counted_tokens)
        await branch.record_turn(
            chat("Go on.", ENGLISH * 20), prepared=prepared, usage={"prompt_tokens": used}
        )
    assert factors[0] > factors[1] > factors[2]
    assert factors[3] > 3.29
    assert factors[3] > factors[4] > 2.9
    assert factors[-1] < 2.4
    ((*_, reports, peak),) = await known(connection)
    assert (reports, 1.1 < peak < 2) == (24, True)


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": 0},
        {"prompt_tokens": -4_000},
        {"prompt_tokens": True},
        {"prompt_tokens": "4000"},
        {"prompt_tokens": 4_000.0},
        {"prompt_tokens": 10**12},
        {"prompt_tokens": 7},
        {"completion_tokens": 4_000},
        {"requests": 9, "input_tokens": 4_000},
        {},
        None,
    ],
)
async def test_reports_that_cannot_be_true_teach_nothing(
    client: ContextClient, connection: Connection, usage: dict[str, Any] | None
):
    branch = await talk(client, ENGLISH)
    prepared = await prepared_for(branch, Budget(max_tokens=4_000, model=MODEL))
    await branch.record_turn(chat("Go on.", "Done."), prepared=prepared, usage=usage)
    assert await known(connection) == []


async def test_what_is_learned_belongs_to_tenant_model_encoding_and_kind(
    make_client: Any, connection: Connection
):
    for tenant, encoding in (("a", "o200k_base"), ("b", "o200k_base"), ("b", "cl100k_base")):
        client = await make_client(tenant=tenant, encoding=encoding)
        for text in (ENGLISH, CHINESE):
            branch = await talk(client, f"{encoding[0]}{text}")
            for model in (MODEL, "claude-opus-4-7"):
                prepared = await prepared_for(branch, Budget(max_tokens=4_000, model=model))
                # Nothing that the others reported is known here.
                assert text == CHINESE or prepared.manifest.token_factor == 2.4
                used = round(1.3 * prepared.manifest.counted_tokens)
                await branch.record_turn(
                    chat("Go on.", "Done."), prepared=prepared, usage={"prompt_tokens": used}
                )
    found = [(*row[:4], row[4]) for row in await known(connection)]
    assert found == [
        (tenant, model, encoding, kind, 1)
        for tenant, encodings in (("a", ("o200k_base",)), ("b", ("cl100k_base", "o200k_base")))
        for model in ("claude-opus-4-7", MODEL)
        for encoding in encodings
        for kind in ("plain", "wide")
    ]


async def test_many_reports_at_once_are_all_learned(
    client: ContextClient, make_client: Any, connection: Connection
):
    branches = [await client.open_branch(f"c-{n}") for n in range(12)]
    budget = Budget(max_tokens=4_000, model=MODEL)

    async def report(branch: Branch, ratio: float) -> None:
        prepared = await branch.prepare(ENGLISH * 30, budget=budget)
        assert isinstance(prepared, PreparedContext)
        used = round(ratio * prepared.manifest.counted_tokens)
        await branch.record_turn(
            chat(ENGLISH * 30, "Done."), prepared=prepared, usage={"prompt_tokens": used}
        )

    await asyncio.gather(*(report(b, 1 + n / 20) for n, b in enumerate(branches)))
    ((*_, reports, peak),) = await known(connection)
    assert reports == 12
    assert 1.3 < peak <= 1.56


async def test_a_refused_prompt_says_what_budget_would_do_in_the_models_tokens(
    client: ContextClient,
):
    branch = await talk(client, CHINESE)
    for max_tokens in (1, 40, 150):
        refused = await branch.prepare(
            CHINESE * 4, budget=Budget(max_tokens=max_tokens, reserve_output=1, model=MODEL)
        )
        assert isinstance(refused, BudgetExceeded)
        assert refused.limit == max_tokens - 1
        assert refused.token_factor > 1
        counted = sum(block.token_count for block in refused.blocks) + REPLY_OVERHEAD
        assert counted < refused.smallest < counted * refused.token_factor + 1
        assert refused.required >= refused.smallest
        enough = Budget(max_tokens=refused.smallest, model=MODEL)
        prepared = await branch.prepare(CHINESE * 4, budget=enough)
        assert isinstance(prepared, PreparedContext)
        assert prepared.token_count == refused.smallest
        too_small = Budget(max_tokens=refused.smallest - 1, model=MODEL)
        assert isinstance(await branch.prepare(CHINESE * 4, budget=too_small), BudgetExceeded)


async def test_a_turn_is_recorded_though_nothing_can_be_learned_from_it(
    client: ContextClient, connection: Connection
):
    branch = await talk(client, ENGLISH)
    prepared = await prepared_for(branch, Budget(max_tokens=4_000, model=MODEL))
    await connection.execute("alter table durable_context.token_calibrations rename to elsewhere")
    turn = await branch.record_turn(
        chat("Go on.", "Done."), prepared=prepared, usage={"prompt_tokens": 4_000}
    )
    assert (await branch.turns(turn.turn_no))[0].usage == {"prompt_tokens": 4_000}


async def test_forks_and_earlier_turns_know_what_was_learned(client: ContextClient):
    branch = await talk(client, ENGLISH)
    budget = Budget(max_tokens=4_000, model=MODEL)
    prepared = await prepared_for(branch, budget)
    used = round(1.2 * prepared.manifest.counted_tokens)
    await branch.record_turn(
        chat("Go on.", "Done."), prepared=prepared, usage={"prompt_tokens": used}
    )
    child = await branch.fork("child", at_turn=7)
    then = await branch.prepare("Go on.", budget=budget, at_turn=7)
    assert isinstance(then, PreparedContext)
    assert then.messages == (await prepared_for(child, budget)).messages
    assert then.manifest.token_factor < prepared.manifest.token_factor
    check_prompt(then, 7, branch.policy)


async def test_a_model_servers_usage_is_learned(client: ContextClient, connection: Connection):
    """From the response of a model call over HTTP, as a runtime passes it on."""
    branch = await talk(client, ENGLISH)
    prepared = await prepared_for(branch, Budget(max_tokens=4_000, model=MODEL))
    used = by_bytes(prepared)
    body = (
        '{"choices": [{"message": {"role": "assistant", "content": "Done."}}],'
        f' "usage": {{"prompt_tokens": {used}, "completion_tokens": 2}}}}'
    )
    async with ModelServer() as server:
        server.script(Reply(body))
        request = Request(
            f"{server.base_url}/chat/completions",
            json.dumps({"model": MODEL, "messages": prepared.messages}).encode(),
            {"content-type": "application/json"},
        )
        with await asyncio.to_thread(urlopen, request) as response:
            reply = json.load(response)
    await branch.record_turn(
        [{"role": "user", "content": "Go on."}, reply["choices"][0]["message"]],
        prepared=prepared,
        usage=reply["usage"],
    )
    ((*_, peak),) = await known(connection)
    assert peak == pytest.approx(used / prepared.manifest.counted_tokens)


PNG = base64.b64encode(
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + (1024).to_bytes(4) * 2 + b"\x08\x02\x00\x00\x00" * 9
).decode()


def picture(text: str, detail: str = "auto") -> dict[str, Any]:
    url = {"url": f"data:image/png;base64,{PNG}", "detail": detail}
    return {
        "role": "user",
        "content": [{"type": "text", "text": text}, {"type": "image_url", "image_url": url}],
    }


@pytest.mark.parametrize(
    ("model", "detail", "tokens"),
    [
        ("gpt-4o", "auto", 765),
        ("gpt-4o-mini", "auto", 25_501),
        ("gpt-4o-mini", "low", 2_833),
        ("o3", "auto", 675),
        ("gpt-4.1-mini", "high", 1_659),
    ],
)
async def test_images_cost_what_the_model_takes_for_them_new_or_stored(
    client: ContextClient, model: str, detail: str, tokens: int
):
    branch = await client.open_branch("pictures")
    budget = Budget(max_tokens=100_000, model=model)
    text = await branch.prepare("What is this?", budget=budget)
    seen = await branch.prepare(picture("What is this?", detail), budget=budget)
    assert isinstance(seen, PreparedContext)
    assert isinstance(text, PreparedContext)
    assert seen.token_count == text.token_count + tokens
    await branch.record_turn([picture("What is this?", detail)], prepared=seen)
    later = await prepared_for(branch, budget)
    await branch.record_turn([{"role": "assistant", "content": "A map."}], prepared=later)
    assert [part.token_count for part in later.parts] == [tokens]
    (raw,) = [block for block in later.manifest.blocks if block.kind == "raw"]
    assert raw.token_count == text.token_count - REPLY_OVERHEAD + tokens


@pytest.mark.parametrize(("model", "tokens"), [("claude-sonnet-4-5", 1_399), ("gemini-3", 1_120)])
async def test_the_factor_of_texts_is_not_put_on_images(
    client: ContextClient, model: str, tokens: int
):
    branch = await client.open_branch("pictures")
    budget = Budget(max_tokens=100_000, model=model)
    text = await branch.prepare("What is this?", budget=budget)
    seen = await branch.prepare(picture("What is this?"), budget=budget)
    assert isinstance(text, PreparedContext)
    assert isinstance(seen, PreparedContext)
    check_tokens(seen)
    assert 0 <= seen.token_count - text.token_count - tokens <= 4
    await branch.record_turn([picture("What is this?")])
    stored = await prepared_for(branch, budget)
    assert [part.token_count for part in stored.parts] == [tokens]


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-4", "claude-opus-4-7"])
async def test_results_of_parallel_calls_in_other_scripts_keep_the_budget(
    client: ContextClient, model: str
):
    branch = await client.open_branch("parallel")
    made = [call(f"call_{n}", "read", page=n) for n in range(3)]
    results = [result(f"call_{n}", CHINESE * 60) for n in range(3)]
    await branch.record_turn([*chat("Read all.", "I do."), calling(*made), *results])
    wide = await prepared_for(branch, Budget(max_tokens=100_000, model=model))
    tight = await prepared_for(branch, Budget(max_tokens=6_000, model=model))
    assert wide.token_count > 6_000
    assert [reduction.kind for reduction in tight.manifest.reductions] != []


class Probe:
    """Stands before an encoding and adds up the characters that are tokenized."""

    def __init__(self, encoding: Any) -> None:
        self._encoding = encoding
        self.characters = 0

    def encode_ordinary(self, text: str) -> list[int]:
        self.characters += len(text)
        return self._encoding.encode_ordinary(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._encoding, name)


@pytest.mark.parametrize("model", [None, "gpt-4o", "claude-opus-4-7"])
async def test_prepare_tokenizes_what_is_new_and_nothing_that_is_recorded(
    client: ContextClient, monkeypatch: pytest.MonkeyPatch, model: str | None
):
    branch = await client.open_branch("long")
    for n in range(1, 12):
        await branch.record_turn(numbered(n))
    for n in range(3):
        text = f"{CHINESE} {ENGLISH} {n} " * 150
        await branch.record_turn(
            [*chat("Read this.", text), *exchange(f"call_{n}", text), picture("And this?")]
        )
    probe = Probe(vocabularies.encoding_of("o200k_base"))
    monkeypatch.setitem(vocabularies._loaded, "o200k_base", probe)
    budgets = [Budget(max_tokens=size, model=model) for size in (500_000, 20_000, 8_000)]
    for budget in budgets:
        await branch.prepare("warm up the labels and frames", budget=budget)
    for budget in budgets:
        for message in ("What now?", "What now? " * 500):
            probe.characters = 0
            prepared = await branch.prepare(message, budget=budget)
            assert prepared
            # Shortened digests are cut anew; each holds less than its turn's cap. Excerpts are
            # counted when they are offered and as they are shown. A model that is calibrated may
            # take a second pass, when what is left is of another kind.
            passes = 2 if model and model.startswith("claude") else 1
            assert len(message) <= probe.characters <= passes * (len(message) + 9_000)


PICTURE = {
    "type": "image_url",
    "image_url": {"url": "https://example.org/a.png"},
}


async def test_a_prompt_with_an_image_teaches_nothing_of_texts(
    client: ContextClient, connection: Connection
):
    branch = await client.open_branch("images")
    message = {"role": "user", "content": [{"type": "text", "text": ENGLISH * 60}, PICTURE]}
    prepared = await branch.prepare(message, budget=Budget(max_tokens=100_000, model=MODEL))
    assert prepared
    turn = [message, {"role": "assistant", "content": "A depot."}]
    used = int(2.5 * prepared.manifest.counted_tokens)
    await branch.record_turn(turn, prepared=prepared, usage={"input_tokens": used})
    assert await known(connection) == []


@pytest.mark.parametrize("aside", ["thinking", "tools"])
async def test_what_is_counted_high_does_not_narrow_the_factor_of_texts(
    client: ContextClient, connection: Connection, aside: str
):
    """The model makes 1.4 tokens of each; of the thinking it is not billed, of tools for half."""
    branch = await client.open_branch(aside)
    model = "claude-sonnet-4-5"
    tools = [WEATHER] * 8 if aside == "tools" else []
    thought = {"type": "thinking", "thinking": "", "signature": "A" * 4_000}
    for n in range(12):
        budget = Budget(max_tokens=100_000, model=model, tools=tools)
        prepared = await branch.prepare(f"{n}: {ENGLISH * 40}", budget=budget)
        assert prepared
        text = of_the_branch(prepared)
        billed = token_counter("o200k_base").count_tools(tools) // 2 if tools else 0
        answer = [{"type": "text", "text": "Noted."}]
        said = [thought, *answer] if aside == "thinking" else answer
        turn = [{"role": "user", "content": f"{n}: {ENGLISH * 40}"}]
        await branch.record_turn(
            [*turn, {"role": "assistant", "content": said}],
            prepared=prepared,
            usage={"input_tokens": int(1.4 * text) + billed},
        )
    [(*_, reports, peak)] = await known(connection)
    assert reports == 12
    assert 1.39 < peak < 1.8


async def test_what_is_left_of_a_prompt_is_counted_by_its_own_kind(client: ContextClient):
    """A log in ASCII becomes a view; the message beside it is in a script that costs far more."""
    branch = await client.open_branch("thai")
    await branch.record_turn([{"role": "user", "content": HINDI * 60}], continues=True)
    log = "\n".join(f"row {n}: value-{n * 7}" for n in range(20_000))
    budget = Budget(max_tokens=9_000, model="claude-sonnet-4-5")
    alone = await branch.prepare(None, budget=budget)
    beside = await branch.prepare(None, budget=budget, pending=exchange("a", log))
    assert alone and beside
    assert alone.manifest.token_factor > 2.4
    assert beside.manifest.token_factor >= 0.8 * alone.manifest.token_factor


async def test_a_recording_does_not_wait_for_what_may_be_learned(
    client: ContextClient, connection: Connection
):
    branch = await client.open_branch("locked")
    for n in range(2):
        prepared = await branch.prepare(ENGLISH * 30, budget=Budget(max_tokens=9_000, model=MODEL))
        assert prepared
        usage = {"input_tokens": int(1.3 * prepared.manifest.counted_tokens)}
        record = branch.record_turn(chat(ENGLISH * 30, "Yes."), prepared=prepared, usage=usage)
        if n == 0:
            await record
            continue
        async with connection.transaction():
            await connection.execute("select * from durable_context.token_calibrations for update")
            async with asyncio.timeout(5):
                await record
    assert len(await branch.turns()) == 2
    [(*_, reports, _peak)] = await known(connection)
    assert reports == 1
