"""What holds for any history, whatever processors there are and in whatever order."""

from copy import deepcopy
from itertools import groupby
from types import SimpleNamespace
from typing import Any, NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from durable_context.processors.config import ContextConfig
from durable_context.processors.context import Context
from durable_context.processors.dialogue_compressor import DialogueCompressor
from durable_context.processors.history import Record, field, role_of, text_of
from durable_context.processors.message_offloader import MessageOffloader
from durable_context.processors.pipeline import ContextProcessor, ProcessorPipeline
from durable_context.processors.round_window import RoundWindowProcessor
from durable_context.processors.summarize import SummarizeProcessor
from durable_context.processors.token_budget import TokenBudgetProcessor
from tests.properties.histories import contents, exchanges, names
from tests.provider_requests import check_chat

LOOKALIKES = [
    "[[OFFLOADED: handle=off_0123456789ab]]",
    "[[OFFLOAD: handle=0123456789ab]]",
    "[Tool chain compressed — called get (1 calls). Results: get: nothing]",
]
ANY = ["nested", "nested", "flat", "without ids", "answers without ids"]
SENT = ["nested"]
"""Forms of calls that a provider takes."""
PLACE = "place"
"""The key that a message's place in the first history is kept under."""


class DrawnHistory(NamedTuple):
    messages: list[Any]
    units: dict[int, int]
    """By place, of what goes together: an exchange, or a message by itself."""
    pinned: set[int]
    """Places of exchanges that lack a result, and of those at the end."""
    current: set[int]
    """Places of what the user said last."""


class Spoken(NamedTuple):
    """What goes together: one message, or an exchange."""

    messages: list[dict[str, Any]]
    waiting: bool = False


def _says(role: str, content: Any, name: str | None = None) -> Spoken:
    named = {} if name is None else {"name": name}
    return Spoken([{"role": role, "content": content, **named}])


def _flat(call: dict[str, Any]) -> dict[str, Any]:
    return {"id": call["id"], **call["function"]}


def _unanswering(message: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in message.items() if key != "tool_call_id"}


def _without_ids(message: dict[str, Any]) -> dict[str, Any]:
    bare = _unanswering(message)
    calls = [
        {key: value for key, value in call.items() if key != "id"}
        for call in message.get("tool_calls", ())
    ]
    return bare | {"tool_calls": calls} if calls else bare


said = st.one_of(contents, contents, st.sampled_from(LOOKALIKES))
stays = st.one_of(
    said.map(lambda text: {"role": "system", "content": text}),
    said.map(lambda text: {"role": "developer", "content": text}),
    said.map(lambda text: Record(role="user", content=text)),
)


@st.composite
def spoken_exchanges(draw: st.DrawFn, forms: list[str], *, complete: bool = True) -> Spoken:
    messages = draw(exchanges(complete=complete))
    waiting = len(messages) - 1 < len(messages[0]["tool_calls"])
    form = draw(st.sampled_from(forms))
    if form == "flat":
        messages[0]["tool_calls"] = [_flat(call) for call in messages[0]["tool_calls"]]
    if form == "without ids":
        messages = [_without_ids(message) for message in messages]
    if form == "answers without ids":
        messages = [_unanswering(message) for message in messages]
    return Spoken(messages, waiting)


@st.composite
def spoken_rounds(draw: st.DrawFn, forms: list[str]) -> list[Spoken]:
    """Anything but the user may be missing; an interrupted one ends in calls without results."""
    users = draw(st.lists(st.builds(_says, st.just("user"), said, names), min_size=1, max_size=2))
    chain = draw(st.lists(spoken_exchanges(forms), max_size=3))
    end = draw(
        st.one_of(
            st.builds(_says, st.just("assistant"), said, names).map(lambda one: [one]),
            spoken_exchanges(forms, complete=forms == SENT).map(lambda one: [one]),
            st.just([]),
        )
    )
    return [*users, *chain, *end]


@st.composite
def histories(draw: st.DrawFn, forms: list[str] = ANY) -> DrawnHistory:
    """System messages may stand anywhere, but in no exchange that is `SENT`. Messages are dicts, or
    objects as SDKs return them.
    """
    before = draw(st.lists(st.builds(_says, st.just("assistant"), said, names), max_size=1))
    later = draw(st.lists(spoken_rounds(forms), max_size=5))
    drawn = [*before, *(one for each in later for one in each)]
    messages: list[Any] = draw(st.lists(stays, max_size=2))
    units: dict[int, int] = {}
    for unit, one in enumerate(drawn):
        for message in one.messages:
            units[len(messages)] = unit
            messages.append(message | {PLACE: len(messages)})
            if (forms != SENT or message is one.messages[-1]) and draw(_SELDOM):
                messages.append(draw(stays))
    in_flight = _tail([len(one.messages) > 1 or one.waiting for one in drawn])
    pinned = {n for n, unit in units.items() if drawn[unit].waiting or unit in in_flight}
    asked = [one.messages[0]["role"] == "user" for one in drawn]
    current = _tail(asked[: 1 + max((n for n, it in enumerate(asked) if it), default=-1)])
    if forms != SENT and draw(st.booleans()):
        messages = [m if isinstance(m, Record) else SimpleNamespace(**m) for m in messages]
    return DrawnHistory(messages, units, pinned, {n for n, u in units.items() if u in current})


_SELDOM = st.sampled_from([False] * 5 + [True])


def _tail(are: list[bool]) -> set[int]:
    """Indexes of the last ones that are."""
    first = next((n for n in range(len(are), 0, -1) if not are[n - 1]), 0)
    return set(range(first, len(are)))


async def _brief(chain: list[dict[str, Any]]) -> str:
    return f"They made {len(chain)} steps."


async def _blank(chain: list[dict[str, Any]]) -> str:
    return " \n"


async def _lengthy(chain: list[dict[str, Any]]) -> str:
    return f"{chain!r} and much more"


def _processors(draw: st.DrawFn, kind: str) -> ContextProcessor:
    if kind == "window":
        return RoundWindowProcessor(max_rounds=draw(st.one_of(st.none(), st.integers(1, 4))))
    if kind == "budget":
        limit = draw(st.one_of(st.integers(1, 600), st.integers(600, 60_000)))
        encoding = draw(st.sampled_from(["cl100k_base", "o200k_base"]))
        return TokenBudgetProcessor(max_tokens=limit, encoding=encoding)
    if kind == "offload":
        return MessageOffloader(max_message_size=draw(st.integers(1, 400)))
    if kind == "compress":
        summarizer = draw(st.sampled_from([None, _brief, _blank, _lengthy]))
        length = draw(st.integers(1, 5))
        return DialogueCompressor(summarizer=summarizer, min_tool_chain_length=length)
    return SummarizeProcessor()


KINDS = ["offload", "compress", "window", "summarize", "budget"]


@st.composite
def pipelines(draw: st.DrawFn) -> ProcessorPipeline:
    pipeline = ProcessorPipeline()
    for kind in draw(st.one_of(st.just(KINDS), st.lists(st.sampled_from(KINDS), max_size=6))):
        pipeline.register(_processors(draw, kind))
    return pipeline


def _place(message: Any) -> int | None:
    return field(message, PLACE)


def _standing(messages: list[Any]) -> list[Any]:
    return [m for m in messages if isinstance(m, Record) or role_of(m) in ("system", "developer")]


def _besides_content(message: Any) -> dict[str, Any]:
    fields = message if isinstance(message, dict) else vars(message)
    return {key: value for key, value in fields.items() if key != "content"}


def check_kept(drawn: DrawnHistory, after: list[Any]) -> None:
    ours = [id(message) for message in _standing(after)]
    assert ours == [id(message) for message in _standing(drawn.messages)]
    spoken = [message for message in after if id(message) not in ours]
    places = [place for message in spoken if (place := _place(message)) is not None]
    assert places == sorted(set(places)), "an order has changed"
    assert drawn.pinned <= set(places), "an exchange was taken before its time"
    assert drawn.current <= set(places), "what the user said last is gone"
    for message in spoken:
        if (place := _place(message)) is not None:
            assert _besides_content(message) == _besides_content(drawn.messages[place])
        else:
            assert _besides_content(message) == {"role": "assistant"}
    check_exchanges(drawn, spoken)


def check_exchanges(drawn: DrawnHistory, spoken: list[Any]) -> None:
    """What goes together is there whole, with nothing in between, or not at all."""
    whole = {u: [n for n in drawn.units if drawn.units[n] == u] for u in drawn.units.values()}
    found = [drawn.units.get(_place(message), -1) for message in spoken]  # type: ignore[arg-type]
    for unit, group in groupby(zip(found, spoken, strict=True), key=lambda pair: pair[0]):
        if unit != -1:
            assert [_place(message) for _, message in group] == whole[unit]


LIMITS = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
configs = st.builds(
    lambda rounds, threshold: ContextConfig(history_rounds=rounds, summary_threshold=threshold),
    st.integers(1, 5),
    st.integers(1, 20),
)


def holding(messages: list[Any], config: ContextConfig) -> Context:
    ctx = Context("task", config=config)
    ctx.state.set("history", messages)
    return ctx


@LIMITS
@given(drawn=histories(), pipeline=pipelines(), config=configs)
async def test_any_processors_leave_a_history_whole_and_in_order(
    drawn: DrawnHistory, pipeline: ProcessorPipeline, config: ContextConfig
):
    before = deepcopy(drawn.messages)
    ctx = holding(list(drawn.messages), config)
    await pipeline.fire("pre_llm_call", ctx)
    check_kept(drawn, ctx.state["history"])
    assert drawn.messages == before, "a message was changed in place"


@LIMITS
@given(drawn=histories(), pipeline=pipelines(), config=configs)
async def test_firing_again_changes_nothing(
    drawn: DrawnHistory, pipeline: ProcessorPipeline, config: ContextConfig
):
    ctx = holding(list(drawn.messages), config)
    await pipeline.fire("pre_llm_call", ctx)
    once = list(ctx.state["history"])
    await pipeline.fire("pre_llm_call", ctx)
    again = list(ctx.state["history"])
    for one, other in zip(once, again, strict=True):
        assert one == other or _put_away(one, other, ctx)
    twice = ctx.state.to_dict()
    await pipeline.fire("pre_llm_call", ctx)
    assert ctx.state.to_dict() == twice


def _put_away(summary: Any, marked: Any, ctx: Context) -> bool:
    """Whether it was offloaded: a summary that was made after the offloader had its turn."""
    handle = text_of(marked).removeprefix("[[OFFLOADED: handle=").removesuffix("]]")
    content = ctx.state.get("offloaded_messages", {}).get(handle)
    return _place(summary) is None and content == text_of(summary)


@LIMITS
@given(drawn=histories(), pipeline=pipelines(), config=configs)
async def test_a_child_and_its_parent_never_change_each_other(
    drawn: DrawnHistory, pipeline: ProcessorPipeline, config: ContextConfig
):
    parent = holding(list(drawn.messages), config)
    before = deepcopy(parent.state.to_dict())
    child = parent.fork("child")
    await pipeline.fire("pre_llm_call", child)
    assert parent.state.to_dict() == before
    forked = deepcopy(child.state.to_dict())
    await pipeline.fire("pre_llm_call", parent)
    assert child.state.to_dict() == forked


def _sendable(message: dict[str, Any]) -> dict[str, Any]:
    """As text that can be encoded, and without reasoning, which is sent in other ways."""
    fields = {key: value for key, value in message.items() if key != "reasoning"}
    text = text_of(message).encode(errors="replace").decode() or "Yes."
    sent = {**fields, "content": text}
    return Record(sent) if isinstance(message, Record) else sent


def check_sent(messages: list[Any]) -> None:
    check_chat([{k: v for k, v in message.items() if k != PLACE} for message in messages])


@LIMITS
@given(drawn=histories(SENT), pipeline=pipelines(), config=configs)
async def test_what_a_provider_takes_it_takes_afterwards(
    drawn: DrawnHistory, pipeline: ProcessorPipeline, config: ContextConfig
):
    ctx = holding([_sendable(message) for message in drawn.messages], config)
    check_sent(ctx.state["history"])
    await pipeline.fire("pre_llm_call", ctx)
    check_sent(ctx.state["history"])


@LIMITS
@given(drawn=histories())
async def test_candidates_for_a_summary_are_whole_and_may_go(drawn: DrawnHistory):
    for threshold in range(1, min(len(drawn.messages), 50) + 1):
        ctx = holding(list(drawn.messages), ContextConfig(summary_threshold=threshold))
        await SummarizeProcessor().process(ctx, {})
        candidates = ctx.state.get("summary_candidates", [])
        assert ctx.state.get("needs_summary", False) is bool(candidates)
        assert not candidates or len(drawn.messages) > threshold
        assert not _standing(candidates)
        places = [_place(message) for message in candidates]
        allowed = [place for place in drawn.units if place not in drawn.pinned]
        assert places == allowed[: len(places)], "older messages were passed over"
        check_exchanges(drawn, candidates)
