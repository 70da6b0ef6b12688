"""A conversation in which everything that anybody says, on any way in, has the word WORD in it."""

from dataclasses import replace
from datetime import timedelta

from durable_context import Branch, Budget, CompactionPolicy
from tests import model_server
from tests.model_server import ModelServer, Reply
from tests.turns import call, calling, chat, result

WORD = "kanari"
CONVERSATION = "nest-conversation"
BRANCH = "nest-branch"
TENANT = "nest-tenant"
POLICY = CompactionPolicy(
    debounce=timedelta(0),
    segment_turns=2,
    keep_raw_turns=0,
    fan_out=2,
    offload_tokens=200,
    retry_interval=timedelta(milliseconds=100),
    degrade_after=timedelta(seconds=1),
)
PATIENCE = timedelta(seconds=120)
LARGE = "\n".join(f"{WORD}-result line {n}: pump {n % 17} at {n * 7} kPa" for n in range(400))


async def confide(branch: Branch, model: ModelServer) -> None:
    """The model fails in many ways, and quotes what it was told each time."""
    model.script(*_failures())
    await branch.put_artifact(f"{WORD}-artifact " * 300, name=f"{WORD}-name.txt")
    for number in range(1, 5):
        await branch.record_turn(_turn(number), metadata={"note": f"{WORD}-metadata"})
        await branch.prepare(f"{WORD}-question {number}?", budget=Budget(max_tokens=8_000))
    await branch.pin(1)
    await branch.pin(2, fact=f"{WORD}_tool(path={WORD}-argument)")
    await branch.compact(focus=f"{WORD}-focus", timeout=PATIENCE)
    await branch.wait_until_compacted(timeout=PATIENCE)
    model.always(_answer())
    await branch.rebuild(focus=f"{WORD}-other", timeout=PATIENCE)
    await branch.pause(because=f"{WORD}-reason")
    await branch.resume()
    assert WORD in "".join(request.text for request in model.requests)


def _turn(number: int) -> list[object]:
    [asked, told] = chat(f"{WORD}-user asks {number}", f"{WORD}-assistant says {number}. " * 40)
    name = f"{WORD}_tool"
    used = calling(call(f"c{number}", name, path=f"{WORD}-argument"), content=f"{WORD}-thought")
    return [asked, used, result(f"c{number}", LARGE), told]


def _failures() -> list[Reply]:
    quoted = f"cannot process {WORD}-quoted"
    page = replace(model_server.html(), body=f"<html>{WORD}-page</html>")
    return [
        model_server.failed(500, "server_error", quoted),
        page,
        model_server.failed(400, "bad_request", quoted),
        model_server.bad_json(),
        Reply(f'{{"{WORD}-field": 1}}'),
        model_server.failed(400, "context_length_exceeded", f"maximum context: {quoted}"),
        _answer(),
    ]


def _answer() -> Reply:
    return model_server.answers(f"{WORD}-headline", f"{WORD}-summary of it")
