"""A prompt as Gemini's generate_content takes it.

Rules kept, with where they are stated:
- Contents begin and end with the user (pydantic-ai's google model; crewAIInc/crewAI#6973), and a
  function call follows the user's or a response's content (google-gemini/gemini-cli#11814).
- All responses to one content's calls stand together in the content after it, which holds nothing
  else (pydantic/pydantic-ai#4210).
- Thought signatures come back on the part they came with, and Gemini 3 refuses a first call without
  one: where another model made the call, the documented stand-in says so
  (ai.google.dev/gemini-api/docs/thought-signatures).
"""

from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from durable_context.artifacts.encoded_data import fields_of
from durable_context.providers.gemini_ids import is_given_id
from durable_context.providers.outgoing.media import Media, media_of
from durable_context.providers.outgoing.names import arguments_object, json_object, safe_name
from durable_context.providers.outgoing.spoken import Blocks, Slot, Spoken, part_text, spoken
from durable_context.providers.outgoing.tools import gemini_tools

Part = dict[str, Any]

START: Final = "(start)"
GO_ON: Final = "(go on)"
NOT_SIGNED: Final = b"skip_thought_signature_validator"


def to_gemini(
    messages: Sequence[Mapping[str, Any]],
    *,
    tools: Sequence[Mapping[str, Any]] = (),
    blocks: Blocks | None = None,
) -> dict[str, Any]:
    """`contents`, and `config` with `system_instruction` and `tools` where there are any.

    Data and signatures are bytes, as the google-genai package takes them.
    """
    system: list[str] = []
    contents = _Contents()
    for one in spoken(messages, blocks or {}, "gemini"):
        if one.role == "system":
            system += [text for slot in one.parts if slot.part and (text := part_text(slot.part))]
        else:
            contents.add(one)
    config: dict[str, Any] = {"system_instruction": "\n\n".join(system)} if system else {}
    if tools:
        config["tools"] = gemini_tools(tools)
    return {"contents": contents.closed(), "config": config}


def response_object(text: str) -> dict[str, Any]:
    """A tool's result as the object that Gemini demands."""
    found = json_object(text)
    return {"output": text} if found is None else found


class _Contents:
    """Contents under construction, and the names of the calls that wait for a response."""

    def __init__(self) -> None:
        self._contents: list[dict[str, Any]] = []
        self._names: dict[str, str] = {}

    def add(self, one: Spoken) -> None:
        if one.role == "tool":
            self._respond(_response(one, self._names.get(one.answers, one.name or one.answers)))
        elif one.role == "assistant":
            self._names |= {s.call["id"]: s.call["function"]["name"] for s in one.calls if s.call}
            self._say("model", list(_model(one)))
        else:
            self._say("user", list(_user(one)))

    def _respond(self, part: Part) -> None:
        if self._contents and "function_response" in self._contents[-1]["parts"][-1]:
            self._contents[-1]["parts"].append(part)
        else:
            self._contents.append({"role": "user", "parts": [part]})

    def _say(self, role: str, parts: list[Part]) -> None:
        if not parts:
            return
        last = self._contents[-1] if self._contents else None
        if last is None and role == "model":
            self._say("user", [{"text": START}])
        elif last and last["role"] == role and "function_response" not in last["parts"][-1]:
            last["parts"] += parts
            return
        self._contents.append({"role": role, "parts": parts})

    def closed(self) -> list[dict[str, Any]]:
        if not self._contents:
            self._say("user", [{"text": START}])
        if self._contents[-1]["role"] == "model":
            self._say("user", [{"text": GO_ON}])
        return self._contents


def _model(one: Spoken) -> Iterator[Part]:
    yield from map(_own, one.head.before)
    for slot in [*one.parts, one.tail]:
        yield from map(_own, slot.before)
        if slot.part is not None:
            yield from _shown(slot)
    for number, slot in enumerate(one.calls):
        yield from map(_own, slot.before)
        unsigned = {} if number else {"thought_signature": NOT_SIGNED}
        yield {**_call(slot), **unsigned, **_own(slot.frame)}


def _call(slot: Slot) -> Part:
    assert slot.call is not None
    function = slot.call["function"]
    given = {"id": slot.call["id"]} if is_given_id(slot.call["id"]) else {}
    args = arguments_object(function["arguments"])
    return {"function_call": {**given, "name": _name(function["name"]), "args": args}}


def _response(one: Spoken, name: str) -> Part:
    """Images and files of a result are parts of the response itself."""
    texts = [text for slot in one.parts if slot.part and (text := part_text(slot.part))]
    response = response_object("\n".join(texts))
    shown = [_shown(slot) for slot in one.parts if slot.part and part_text(slot.part) is None]
    media = [part for parts in shown for part in parts if "text" not in part]
    if not texts and media:
        response = {}
    given = {"id": one.answers} if is_given_id(one.answers) else {}
    parts = {"parts": media} if media else {}
    return {"function_response": {**given, "name": _name(name), "response": response, **parts}}


def _user(one: Spoken) -> Iterator[Part]:
    parts = [part for slot in one.parts for part in _shown(slot)]
    if one.name and parts:
        if "text" in parts[0]:
            parts[0] = {**parts[0], "text": f"{one.name}: {parts[0]['text']}"}
        else:
            yield {"text": f"{one.name}:"}
    yield from parts


def _shown(slot: Slot) -> list[Part]:
    """A content part, with the fields that came with it; none for an empty text."""
    assert slot.part is not None
    frame = _own(slot.frame)
    if slot.instead:
        return [{**_own(part), **frame} for part in slot.instead]
    text = part_text(slot.part)
    if text is None:
        return [{**_media(media_of(slot.part)), **frame}]
    return [{"text": text, **frame}] if text or "thought_signature" in frame else []


def _media(media: Media) -> Part:
    if media.data is not None:
        return {"inline_data": {"mime_type": media.media_type, "data": media.data}}
    if media.url:
        return {"file_data": {"mime_type": media.media_type, "file_uri": media.url}}
    return {"text": media.reference()}


def _name(name: str) -> str:
    """Names of functions begin with a letter or an underscore."""
    safe = safe_name(name)
    return safe if safe[0].isalpha() or safe[0] == "_" else safe_name(f"_{safe}")


def _own(part: Mapping[str, Any]) -> Part:
    """A part as it came: what is stored as base64 is bytes again."""
    own = dict(part)
    if isinstance(signature := own.get("thought_signature"), str):
        own["thought_signature"] = decoded_base64(signature)
    blob = fields_of(own.get("inline_data"))
    if isinstance(data := blob.get("data"), str):
        own["inline_data"] = {**blob, "data": decoded_base64(data)}
    return own


def decoded_base64(text: str) -> bytes:
    """Either alphabet: the package's dumps use that of URLs."""
    return b64decode(text.replace("-", "+").replace("_", "/") + "==")
