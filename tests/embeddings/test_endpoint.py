"""Vectors from an OpenAI-compatible endpoint: what is sent, and what its failures mean."""

from dataclasses import replace

import pytest

from durable_context.embeddings.endpoint import BATCH, OpenAIEmbedder, embedder_from_spec
from durable_context.errors import EmbedderRejected, EmbedderUnavailable
from tests.embeddings.embedding_server import texts_sent, vector_of, vectors
from tests.model_server import (
    ModelServer,
    Reply,
    failed,
    held,
    html,
    out_of_quota,
    rate_limited,
    unauthorized,
)


async def test_texts_go_out_in_batches_and_come_back_in_order(
    server: ModelServer, embedder: OpenAIEmbedder
) -> None:
    texts = [f"text {number}" for number in range(2 * BATCH + 1)]
    server.always(vectors(backwards=True))
    assert await embedder.embed(texts) == [vector_of(text) for text in texts]
    assert [len(request.body["input"]) for request in server.requests] == [BATCH, BATCH, 1]
    assert texts_sent(server.requests) == texts
    [path] = {request.path for request in server.requests}
    assert path == "/v1/embeddings"


async def test_nothing_is_asked_for_no_texts(server: ModelServer, embedder: OpenAIEmbedder) -> None:
    assert await embedder.embed([]) == []
    assert server.count == 0


async def test_dimensions_are_asked_for_and_are_part_of_the_name(server: ModelServer) -> None:
    plain = OpenAIEmbedder("small", base_url=server.base_url)
    short = OpenAIEmbedder("small", base_url=server.base_url, dimensions=8)
    [vector], [shortened] = await plain.embed(["text"]), await short.embed(["text"])
    assert (len(vector), len(shortened)) == (64, 8)
    assert "dimensions" not in server.requests[0].body
    assert server.requests[1].body["dimensions"] == 8
    assert server.requests[1].body["model"] == "small"
    assert (plain.model, short.model) == ("small", "small@8")


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (failed(500), "'small' answered 500"),
        (failed(503, "overloaded"), r"'small' answered 503 \(overloaded\)"),
        (rate_limited(), r"'small' answered 429 \(rate_limit_exceeded\)"),
        (html(), "the answer of 'small' is unusable"),
        (Reply("{}"), "the answer of 'small' is unusable"),
        (Reply("not JSON"), "the answer of 'small' is unusable"),
        (replace(vectors(), dropped=True), "'small' could not be reached"),
    ],
)
async def test_what_may_pass_is_worth_another_try(
    reply: Reply, message: str, server: ModelServer, embedder: OpenAIEmbedder
) -> None:
    server.always(reply)
    with pytest.raises(EmbedderUnavailable, match=message):
        await embedder.embed(["text"])
    assert server.count == 1


async def test_how_long_a_provider_wants_to_be_left_alone_is_known(
    server: ModelServer, embedder: OpenAIEmbedder
) -> None:
    server.script(rate_limited(retry_after="42"), rate_limited(retry_after="tomorrow"))
    for seconds in (42, None):
        with pytest.raises(EmbedderUnavailable) as limited:
            await embedder.embed(["text"])
        assert limited.value.retry_after == seconds


async def test_a_slow_endpoint_is_left_after_the_timeout(server: ModelServer) -> None:
    server.always(held())
    slow = OpenAIEmbedder("small", base_url=server.base_url, timeout=0.1)
    with pytest.raises(EmbedderUnavailable, match=r"did not answer within 0\.1 s"):
        await slow.embed(["text"])


async def test_an_endpoint_that_is_not_there_is_worth_another_try() -> None:
    nobody = OpenAIEmbedder("small", base_url="http://127.0.0.1:9/v1")
    with pytest.raises(EmbedderUnavailable, match="could not be reached"):
        await nobody.embed(["text"])


@pytest.mark.parametrize(
    ("reply", "message", "of_input"),
    [
        (unauthorized(), r"'small' answered 401 \(invalid_api_key\)", False),
        (failed(404, "model_not_found"), r"answered 404 \(model_not_found\)", False),
        (out_of_quota(), r"answered 429 \(insufficient_quota\)", False),
        (failed(400), "answered 400", True),
        (failed(413), "answered 413", True),
    ],
)
async def test_what_would_fail_again_is_told_apart(
    reply: Reply, message: str, of_input: bool, server: ModelServer, embedder: OpenAIEmbedder
) -> None:
    server.always(reply)
    with pytest.raises(EmbedderRejected, match=message) as refusal:
        await embedder.embed(["text"])
    assert refusal.value.of_input == of_input


async def test_no_error_quotes_what_was_sent(server: ModelServer, embedder: OpenAIEmbedder) -> None:
    server.always(failed(400, "invalid input: my secret", "cannot embed 'my secret'"))
    with pytest.raises(EmbedderRejected) as refusal:
        await embedder.embed(["my secret"])
    assert "secret" not in str(refusal.value)


async def test_openai_itself_is_not_asked_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(EmbedderRejected, match="set OPENAI_API_KEY"):
        await OpenAIEmbedder("small").embed(["text"])


def test_an_embedder_is_named_by_provider_and_model() -> None:
    made = embedder_from_spec("openai:text-embedding-3-small", dimensions=512)
    assert (made.model, made.dimensions) == ("text-embedding-3-small@512", 512)
    for spec in ("", "small", "openai:", "cohere:small"):
        with pytest.raises(ValueError, match="is not 'openai:MODEL'"):
            embedder_from_spec(spec)


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        ({"model": ""}, "a name such as"),
        ({"dimensions": 0}, "1 to 16,000"),
        ({"dimensions": 16_001}, "1 to 16,000"),
        ({"timeout": 0}, "more than 0 s"),
    ],
)
def test_a_bad_argument_is_refused_with_what_is_allowed(
    arguments: dict[str, object], allowed: str
) -> None:
    with pytest.raises(ValueError, match=allowed):
        OpenAIEmbedder(**({"model": "small"} | arguments))  # type: ignore[arg-type]
