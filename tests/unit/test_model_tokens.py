"""How models count: the published rules with the figures their sources print, and what people
measured where nothing is published.
"""

import json
from typing import Any

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tiktoken.model import MODEL_PREFIX_TO_ENCODING, MODEL_TO_ENCODING

from durable_context import Budget, Message
from durable_context.artifacts.image_rules import image_rule
from durable_context.artifacts.media_tokens import image_tokens
from durable_context.calibration import (
    MARGIN,
    WHOLE,
    Extent,
    Learned,
    extent,
    in_branch_tokens,
    in_model_tokens,
    kind_of,
    ratio_reported,
    token_factor,
)
from durable_context.model_tokens import LONGEST_NAME, counted_as
from durable_context.models import Reasoning, ToolCall
from durable_context.prompts.model_counting import ModelCount
from durable_context.tokens import ENCODINGS, REPLY_OVERHEAD, token_counter
from durable_context.tool_tokens import count_tools
from durable_context.turns.usage import prompt_tokens

# The cookbook's own request, and what its outputs say the API reported for it.
COOKBOOK = (
    (
        None,
        "You are a helpful, pattern-following assistant that translates corporate jargon into"
        " plain English.",
    ),
    ("example_user", "New synergies will help drive top-line growth."),
    ("example_assistant", "Things working well together will increase revenue."),
    (
        "example_user",
        "Let's circle back when we have more bandwidth to touch base on opportunities for"
        " increased leverage.",
    ),
    ("example_assistant", "Let's talk later when we're less busy about how to do better."),
    (
        None,
        "This late pivot means we don't have time to boil the ocean for the client deliverable.",
    ),
)
ASKED = "What's the weather like in San Francisco?"
TOLD = "You are a helpful assistant that can answer to questions about the weather."
CITY = {"type": "string", "description": "The city and state, e.g. San Francisco, CA"}
UNIT = {
    "type": "string",
    "description": "The unit of temperature to return",
    "enum": ["celsius", "fahrenheit"],
}


def tool(name: str, description: str | None = None, **properties: object) -> dict[str, Any]:
    function: dict[str, Any] = {"name": name}
    if description is not None:
        function["description"] = description
    function["parameters"] = {"type": "object", "properties": properties}
    return {"type": "function", "function": function}


WEATHER = tool(
    "get_current_weather",
    "Get the current weather in a given location",
    location=CITY,
    unit=UNIT,
)
WEATHER["function"]["parameters"]["required"] = ["location"]


def cost(encoding: str, *texts: str) -> int:
    """Of a request with these messages and nothing else."""
    counter = token_counter(encoding)
    return REPLY_OVERHEAD + sum(
        counter.count_message(Message(role="user", content=text)) for text in texts
    )


def tools_cost(model: str, *tools: dict[str, Any]) -> int:
    counted = counted_as(model)
    return count_tools(tools, token_counter(counted.encoding or "o200k_base"), counted)


@pytest.mark.parametrize(("model", "reported"), [("gpt-4-0613", 129), ("gpt-4o-2024-08-06", 124)])
def test_messages_count_as_the_cookbook_reports_of_the_api(model: str, reported: int):
    encoding = counted_as(model).encoding
    assert encoding is not None
    counter = token_counter(encoding)
    messages = [Message(role="user", name=name, content=text) for name, text in COOKBOOK]
    assert REPLY_OVERHEAD + sum(map(counter.count_message, messages)) == reported


@pytest.mark.parametrize(
    ("model", "reported"),
    [("gpt-3.5-turbo", 105), ("gpt-4", 105), ("gpt-4o", 101), ("gpt-4o-mini", 101)],
)
def test_tools_count_as_the_cookbook_reports_of_the_api(model: str, reported: int):
    encoding = counted_as(model).encoding
    assert encoding is not None
    assert cost(encoding, TOLD, ASKED) + tools_cost(model, WEATHER) == reported


SKI = "I want to ski at Killington this weekend."
METEOROLOGIST = "You are a well-respected meteorologist."
LATER_WEATHER = tool(
    "get_current_weather",
    "Get the current weather in a given location.",
    location=CITY,
    unit={"type": "string", "enum": ["celsius", "fahrenheit"]},
)
DATED = json.loads(json.dumps(LATER_WEATHER))
DATED["function"]["parameters"]["properties"]["date"] = {
    "type": "string",
    "description": "The date for which to get the weather.",
}
NUMBERED = tool(
    "integer_enum_example",
    "An example function that takes an integer enum.",
    integer_enum={"type": "integer", "enum": [1, 2, 3]},
)
NESTED = tool(
    "bing_bong",
    "Do a bing bong",
    foo={
        "type": "object",
        "properties": {
            "bar": {"type": "string", "enum": ["a", "b", "c"]},
            "baz": {"type": "boolean"},
        },
    },
)
RECIPE = tool(
    "get_recipe",
    ingredients={
        "type": "array",
        "items": {
            "type": "object",
            "required": ["name", "unit", "amount"],
            "properties": {
                "name": {"type": "string"},
                "unit": {
                    "enum": ["grams", "ml", "cups", "pieces", "teaspoons"],
                    "type": "string",
                },
                "amount": {"type": "number"},
            },
        },
    },
    instructions={
        "type": "array",
        "items": {"type": "string"},
        "description": "Steps to prepare the recipe (no numbering)",
    },
    time_to_cook={
        "type": "number",
        "description": "Total time to prepare the recipe in minutes",
    },
)
FOO = {"type": "string"}
# Requests that others sent, and the prompt_tokens they were told: hmarr/openai-chat-tokens
# (gpt-3.5-turbo) and chrisdinn/tokens (gpt-4-1106-preview).
MEASURED_TOOLS = (
    (31, ("hello",), (tool("foo"),)),
    (36, ("hello",), (tool("foo", "Do a foo"),)),
    (49, ("hello",), (tool("bing_bong", "Do a bing bong", foo=FOO),)),
    (
        57,
        ("hello",),
        (
            tool(
                "bing_bong",
                "Do a bing bong",
                foo=FOO,
                bar={"type": "number", "description": "A number"},
            ),
        ),
    ),
    (68, ("hello",), (NESTED,)),
    (106, ("hello",), (RECIPE,)),
    (35, ("Hello", "Hi there"), (tool("do_stuff"),)),
    (40, ("Hello:", "Hello", "Hi there"), (tool("do_stuff"),)),
    (84, (SKI,), (LATER_WEATHER,)),
    (94, (METEOROLOGIST, SKI), (LATER_WEATHER,)),
    (141, (METEOROLOGIST, SKI), (DATED, NUMBERED)),
)


@pytest.mark.parametrize(("reported", "texts", "tools"), MEASURED_TOOLS)
def test_tools_of_unpublished_forms_count_what_was_measured_or_some_more(
    reported: int, texts: tuple[str, ...], tools: tuple[dict[str, Any], ...]
):
    counted = cost("cl100k_base", *texts) + tools_cost("gpt-4-1106-preview", *tools)
    assert reported <= counted <= reported + 20


def test_forms_that_no_rule_knows_are_counted_whole():
    odd = tool("odd", "Takes anything.", value={"anyOf": [{"type": "string"}, {"type": "null"}]})
    plain = tool("odd", "Takes anything.", value={})
    counter = token_counter("o200k_base")
    whole = counter.count(json.dumps({"anyOf": [{"type": "string"}, {"type": "null"}]}))
    assert tools_cost("gpt-4o", odd) >= tools_cost("gpt-4o", plain) + whole
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(60):
        deep = {"type": "object", "properties": {"inner": deep}}
    assert tools_cost("gpt-4o", tool("deep", "Deep.", value=deep)) > 60
    for broken in (
        {},
        {"type": "web_search"},
        {"function": None},
        {"function": {"name": 3, "parameters": [1]}},
        {"name": "read", "input_schema": {"properties": {"path": None, "n": {"enum": "no"}}}},
        tool("listed", items={"type": ["string", "null"], "items": True}),
    ):
        assert tools_cost("gpt-4o", broken) > 0


def test_other_families_and_no_model_count_the_whole_schema():
    counter = token_counter("o200k_base")
    whole = counter.count(json.dumps(WEATHER))
    assert count_tools([WEATHER], counter, None) >= whole
    assert tools_cost("gemini-2.5-pro", WEATHER) >= whole
    assert tools_cost("claude-sonnet-4-5", WEATHER) >= whole + 500
    assert count_tools([], counter, counted_as("claude-sonnet-4-5")) == 0


def asked(text: str) -> Message:
    return Message(role="user", content=text)


def called(*calls: tuple[str, str], content: str | None = None) -> Message:
    made = tuple(ToolCall(id="a", name=name, arguments=text) for name, text in calls)
    return Message(role="assistant", content=content, tool_calls=made)


def answered(text: str) -> Message:
    return Message(role="tool", tool_call_id="a", content=text)


VERMONT = ("get_current_weather", '{"location": "Killington, VT"}')
QUEBEC = ("get_current_weather", '{"location": "Mount Tremblant, QC"}')
SUM = ("calculator", '{"a":2, "b":2}')
FIGURES = '{"location": "Killington, VT", "format": "fahrenheit", "temperature": "45"}'
WHICH = "Should I ski at Killington or Tremblant this weekend?"
# chrisdinn/tokens, and for the sums community.openai.com/t/538914.
MEASURED_CALLS = (
    (
        70,
        asked("I want to ski at Breckenridge this weekend."),
        called(
            ("get_current_weather", '{"location": "Breckenridge, CO"}'),
            content="I can help with that.",
        ),
        answered("The weather in Breckenridge, CO is 38 degrees."),
    ),
    (66, asked(SKI), called(VERMONT), answered(FIGURES)),
    (
        33,
        asked("What's the weather?"),
        called(("get_current_weather", "{}")),
        answered("{}"),
    ),
    (
        111,
        asked(WHICH),
        called(VERMONT, QUEBEC),
        answered("The weather in Killington, VT is 45 degrees."),
        answered("The weather at Mount Tremblant, QC is 32 degrees."),
    ),
    (40, asked("How much is 2 plus 2?"), called(SUM), answered("4")),
    (89, asked("How much is 2 plus 2?"), called(SUM, SUM), answered("4"), answered("4")),
    (114, asked("How much is 2 plus 2?"), called(SUM, SUM, SUM), *[answered("4")] * 3),
)


@pytest.mark.parametrize("measured", MEASURED_CALLS, ids=lambda case: str(case[0]))
def test_tool_calls_count_what_was_measured_or_some_more(measured: tuple[Any, ...]):
    """Ids are counted as well; here they are as short as they can be."""
    reported, *messages = measured
    counted = REPLY_OVERHEAD + sum(map(token_counter("cl100k_base").count_message, messages))
    assert reported <= counted <= reported + 20


@pytest.mark.parametrize(
    ("calls", "word", "reported"),
    [(1, "테스트 ", 1_121), (3, "test ", 3_191), (3, "테스트 ", 39_235)],
)
def test_results_of_parallel_calls_count_as_the_chat_api_was_seen_to_count_them(
    calls: int, word: str, reported: int
):
    """community.openai.com/t/1375117: what is not ASCII is escaped there, and nowhere else. The
    requests there had a system text and tools besides, of 120 tokens.
    """
    results = [answered(word * 1_000)] * calls
    messages = [asked("What does it say?"), called(*[("read", "{}")] * calls), *results]
    counter = token_counter("o200k_base")
    plain = REPLY_OVERHEAD + sum(map(counter.count_message, messages))
    counted = plain + sum(ModelCount("gpt-4.1", escapes=True).differences(messages))
    assert reported <= counted + 120 < 1.2 * reported
    assert ModelCount("gpt-4", factor=2_000).differences(messages) == [0] * len(messages)
    assert ModelCount().differences(messages) == [0] * len(messages)


def test_reasoning_that_goes_along_is_counted():
    counter = token_counter("o200k_base")
    plain = Message(role="assistant", content="Done.")
    block = {"type": "thinking", "thinking": "What next? " * 100, "signature": "s" * 400}
    thought = Reasoning(provider="anthropic", block=block)
    thinking = plain.model_copy(update={"reasoning": (thought,)})
    more = counter.count_message(thinking) - counter.count_message(plain)
    assert more > counter.count(block["thinking"]) + counter.count(block["signature"])
    assert ModelCount("claude-opus-4-7").differences([thinking]) == [0]
    assert ModelCount("gpt-4o").differences([plain, thinking]) == [0, -more]


@pytest.mark.parametrize(
    ("model", "family", "encoding"),
    [
        ("gpt-4o", "openai", "o200k_base"),
        ("chatgpt-4o-latest", "openai", "o200k_base"),
        ("gpt-4.1-nano-2025-04-14", "openai", "o200k_base"),
        ("gpt-5.1-codex", "openai", "o200k_base"),
        ("o4-mini", "openai", "o200k_base"),
        ("gpt-35-turbo", "openai", "cl100k_base"),
        ("gpt-4-turbo", "openai", "cl100k_base"),
        ("openai:gpt-4o-mini", "openai", "o200k_base"),
        ("openai-responses:gpt-5", "openai", "o200k_base"),
        ("openrouter/openai/gpt-4.1", "openai", "o200k_base"),
        ("ft:gpt-4o-mini-2024-07-18:org::id", "openai", "o200k_base"),
        ("ft:gpt-4.1-mini-2025-04-14:org::id", "openai", "o200k_base"),
        ("gpt-6", "openai", None),
        ("gpt-oss-120b", "openai", None),
        ("o9", "openai", None),
        ("claude-opus-4-7", "anthropic", None),
        ("us.anthropic.claude-3-5-sonnet-20241022-v2:0", "anthropic", None),
        ("models/gemini-2.5-flash", "gemini", None),
        ("qwen3-coder", "other", None),
        ("ollama/llama3", "other", None),
        ("ours", "other", None),
    ],
)
def test_a_name_says_the_family_and_the_encoding(model: str, family: str, encoding: str | None):
    assert counted_as(model)[1:] == (family, encoding)
    assert counted_as(model.upper()) == counted_as(model)
    assert [counted_as(model).is_exact(e) for e in ENCODINGS] == [e == encoding for e in ENCODINGS]


def test_encodings_of_chat_models_are_those_of_tiktoken():
    prefixes = [prefix.rstrip("-") for prefix in MODEL_PREFIX_TO_ENCODING]
    names = [*MODEL_TO_ENCODING, *(f"{prefix}-x" for prefix in prefixes)]
    for name in names:
        known = counted_as(name).encoding
        assert known in (None, tiktoken.encoding_name_for_model(name)), name
    chat = [name for name in names if name.startswith(("gpt-3", "gpt-4", "gpt-5", "o1", "o3"))]
    assert len(chat) > 10
    assert all(counted_as(name).encoding for name in chat)


@pytest.mark.parametrize("model", ["", "  ", "gpt\n4", "gpt\x004", "m" * (LONGEST_NAME + 1)])
def test_names_that_are_none_are_named(model: str):
    with pytest.raises(ValidationError, match=r"model='.*allowed are the names of models"):
        Budget(max_tokens=10, model=model)


@pytest.mark.parametrize("model", [3, True, ["gpt-4o"], {"name": "gpt-4o"}])
def test_what_is_no_text_is_no_model(model: Any):
    with pytest.raises(ValidationError, match="model"):
        Budget(max_tokens=10, model=model)


@pytest.mark.parametrize(
    ("model", "width", "height", "detail", "tokens"),
    [
        ("gpt-4o", 1024, 1024, "high", 765),
        ("gpt-4o", 2048, 4096, "auto", 1105),
        ("gpt-4.1", 4096, 8192, "low", 85),
        ("gpt-4o-mini", 1024, 1024, None, 2833 + 4 * 5667),
        ("gpt-4o-mini", 1024, 1024, "low", 2833),
        ("gpt-5", 1024, 1024, None, 70 + 4 * 140),
        ("gpt-5", 9, 9, "low", 70),
        ("o1", 1024, 1024, None, 75 + 4 * 150),
        ("o3", 2048, 4096, None, 75 + 6 * 150),
        ("gpt-4.1-mini", 1024, 1024, None, 1659),  # 1,024 patches
        ("gpt-4.1-mini", 1800, 2400, None, 2353),  # 1,452
        ("gpt-4.1-nano", 1800, 2400, None, 3572),
        ("gpt-5-mini", 32, 33, None, 4),
        ("gpt-5-nano", 1, 1, None, 3),
        ("o4-mini", 1800, 2400, None, 2498),
        ("gpt-4.1-mini", 100_000, 10, None, 2489),
        ("gpt-9", 1800, 2400, None, 3572),
        ("claude-sonnet-4-5", 1000, 1000, None, 1334),
        ("claude-3-5-sonnet-20241022", 1092, 1092, None, 1590),
        ("claude-sonnet-4-20250514", 200, 200, None, 64),
        ("claude-opus-4-6", 4000, 3000, None, 1600),
        ("claude-opus-4-7", 2000, 2000, None, 4784),
        ("claude-opus-4-7", 1000, 1000, None, 1334),
        ("claude-latest", 4000, 4000, None, 4784),
        ("gemini-2.5-flash", 384, 384, None, 258),
        ("gemini-2.0-flash", 960, 540, None, 6 * 258),
        ("gemini-2.5-pro", 4000, 3000, None, 24 * 258),
        ("gemini-3-pro-preview", 4000, 3000, None, 1120),
    ],
)
def test_images_cost_what_the_provider_publishes(
    model: str, width: int, height: int, detail: str | None, tokens: int
):
    rule = image_rule(counted_as(model))
    assert rule is not None
    assert rule(width, height, detail) == tokens
    assert rule(width, height, detail) == rule(height, width, detail)


@pytest.mark.parametrize(
    "model", ["gpt-4o", "gpt-4o-mini", "o4-mini", "claude-opus-4-7", "gemini-2.5-pro", "gemini-3"]
)
@given(st.integers(1, 9_000), st.integers(1, 9_000))
def test_an_image_of_unknown_size_costs_no_less_than_others(model: str, width: int, height: int):
    rule = image_rule(counted_as(model))
    assert rule is not None
    if model != "gemini-2.5-pro":  # tiles without end
        assert 0 < rule(width, height, None) <= rule(None, None, None)


def test_no_rule_leaves_the_estimate():
    assert image_rule(counted_as("ours")) is None
    gpt4o = image_rule(counted_as("gpt-4o"))
    assert gpt4o is not None
    for side in (1, 500, 513, 1025, 3000):
        assert gpt4o(side, 700, None) == image_tokens(side, 700)


ENGLISH = "The order leaves the depot in Rotterdam on Monday and is due three days later. " * 40
CHINESE = "我想预订一张从北京到上海的机票，下周五出发，要靠窗的座位。请问订单号是多少？" * 40
HINDI = "सरकार ने बुधवार को घोषणा की कि अगले वर्ष अक्षय ऊर्जा के लिए समर्थन बढ़ाया जाएगा। " * 40
# The highest of four tokenizers for such texts, over o200k_base: see durable_context.calibration.
HIGHEST = {ENGLISH: 1.15, CHINESE: 1.46, HINDI: 4.72, "9" * 3000: 2.38}


def factor(text: str, *learned: Learned, encoding: str = "o200k_base") -> float:
    tokens = token_counter(encoding).count(text)
    return token_factor(extent([text]), tokens, encoding, learned) / WHOLE


def test_without_reports_no_known_tokenizer_exceeds_the_factor():
    for text, highest in HIGHEST.items():
        assert factor(text) >= highest
        assert factor(text, encoding="cl100k_base") >= 1.81
    assert factor(CHINESE) < 3.5


def test_kinds_are_told_by_what_the_encoding_makes_of_a_text():
    def kind(text: str) -> str:
        return kind_of(extent([text]), token_counter("o200k_base").count(text))

    assert kind(ENGLISH) == "plain"
    assert kind(ENGLISH + "™") == "plain"
    assert kind(CHINESE) == "wide"
    assert kind(HINDI) == "packed"
    assert kind("") == "plain"
    assert extent(["aé漢🙂\ud800", "b"]) == Extent(14, 8)


def test_reports_narrow_the_factor_and_leave_a_margin():
    factors = [factor(ENGLISH, Learned("plain", reports, 1.2)) for reports in (1, 4, 20, 10_000)]
    assert factors == sorted(factors, reverse=True)
    assert factor(ENGLISH) > factors[0] > 2
    assert 1.2 * MARGIN <= factors[-1] < 1.2 * MARGIN + 0.01
    assert factor(ENGLISH, Learned("wide", 1_000, 1.2)) == factor(ENGLISH)


def test_reports_that_vary_little_leave_the_factor_where_it_is():
    factors = {factor(ENGLISH, Learned("plain", 500 + n, 1.2 + n / 10_000)) for n in range(10)}
    assert len(factors) <= 2
    assert all((1_000 * each) % 25 == 0 for each in factors)


def test_a_model_that_needs_more_than_the_start_gets_it_at_once():
    assert factor(ENGLISH, Learned("plain", 1, 3.0)) >= 3.3


def test_a_model_that_needs_less_is_given_no_more():
    assert factor(CHINESE, Learned("wide", 10_000, 0.6)) == 1


@given(st.integers(-5, 10**9), st.integers(WHOLE, 9 * WHOLE), st.integers(0, 10**9))
def test_a_prompt_is_within_both_limits_or_in_neither(limit: int, thousandths: int, counted: int):
    most = in_branch_tokens(limit, thousandths)
    assert in_model_tokens(most, thousandths) <= limit < in_model_tokens(most + 1, thousandths)
    assert (counted <= most) == (in_model_tokens(counted, thousandths) <= limit)
    smallest = in_model_tokens(counted, thousandths)
    assert counted <= in_branch_tokens(smallest, thousandths)


@pytest.mark.parametrize(
    ("used", "counted", "ratio"),
    [
        (1_400, 1_000, 1.4),
        (0, 1_000, None),
        (100, 1_000, None),  # all but a tenth was cached and not named
        (9_000, 1_000, None),  # several calls together
        (2_000, 100, None),  # too small to tell
    ],
)
def test_what_cannot_be_the_ratio_of_one_call_is_none(used: int, counted: int, ratio: float | None):
    assert ratio_reported(used, counted, "o200k_base", "plain") == ratio


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}, 12),
        ({"input_tokens": 12, "input_tokens_details": {"cached_tokens": 10}}, 12),
        (
            {
                "input_tokens": 2,
                "cache_read_input_tokens": 90,
                "cache_creation_input_tokens": 8,
                "output_tokens": 5,
            },
            100,
        ),
        ({"input_tokens": 7, "cache_read_input_tokens": None}, 7),
        ({"inputTokens": 7, "cacheReadInputTokens": 3, "outputTokens": 1}, 10),
        ({"prompt_token_count": 12, "cached_content_token_count": 9}, 12),
        ({"promptTokenCount": 12}, 12),
        ({"total_input_tokens": 12}, 12),
        ({"requests": 1, "input_tokens": 12}, 12),
        ({"requests": 4, "input_tokens": 12}, None),
        ({"prompt_tokens": -1}, None),
        ({"prompt_tokens": True}, None),
        ({"prompt_tokens": 12.0}, None),
        ({"prompt_tokens": "12"}, None),
        ({"prompt_tokens": {"count": 12}}, None),
        ({"input_tokens": "7", "cache_read_input_tokens": 3}, None),
        ({"input_tokens": 7, "cache_read_input_tokens": "3"}, None),
        ({"completion_tokens": 12}, None),
        ({}, None),
    ],
)
def test_usage_names_the_prompt_in_the_forms_of_all_providers(
    usage: dict[str, Any], tokens: int | None
):
    assert prompt_tokens(usage) == tokens
