"""What an OpenAI-compatible server answers to requests for vectors. Texts that share words are
similar, since each word has a place in the vector.
"""

import hashlib
import json
import re
from collections.abc import Sequence

from tests.model_server import ReceivedRequest, Reply

DIMENSIONS = 64
_WORD = re.compile(r"[\w-]+")


def vector_of(text: str, dimensions: int = DIMENSIONS) -> list[float]:
    vector = [0.0] * dimensions
    for word in set(_WORD.findall(text.lower())):
        place = int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "big")
        vector[place % dimensions] += 1.0
    return vector if any(vector) else [1.0] * dimensions


def vectors(dimensions: int | None = None, *, backwards: bool = False) -> Reply:
    """Of that size whatever was asked for; by default of the size that was. The order of what is
    numbered is the server's to choose.
    """

    def body(request: ReceivedRequest) -> str:
        size = dimensions or request.body.get("dimensions") or DIMENSIONS
        texts = request.body["input"]
        return _answer(request, [vector_of(text, size) for text in texts], backwards)

    return Reply(body)


def fixed(*made: Sequence[float]) -> Reply:
    """These vectors, whatever was asked for."""
    return Reply(lambda request: _answer(request, made, False))


def _answer(request: ReceivedRequest, made: Sequence[Sequence[float]], backwards: bool) -> str:
    data = [
        {"object": "embedding", "index": index, "embedding": list(vector)}
        for index, vector in enumerate(made)
    ]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return json.dumps(
        {
            "object": "list",
            "data": data[::-1] if backwards else data,
            "model": request.body["model"],
            "usage": usage,
        }
    )


def texts_sent(requests: Sequence[ReceivedRequest]) -> list[str]:
    return [text for request in requests for text in request.body["input"]]
