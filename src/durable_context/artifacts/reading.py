"""Reads parts of an artifact: by lines, or the lines that hold a text."""

from collections.abc import Iterable, Iterator
from io import BytesIO
from itertools import chain, islice
from typing import Final

from pydantic import ConfigDict

from durable_context.artifacts.contents import decoded
from durable_context.errors import InvalidArgument
from durable_context.models import Artifact, Value

_TEXT_SUFFIXES: Final = ("+json", "+xml", "+yaml")
_TEXT_NAMES: Final = (
    "json jsonl jsonlines ndjson json-seq json5 xml yaml toml sql javascript ecmascript typescript"
    " graphql sh csh shellscript python ruby php perl tex latex rtf www-form-urlencoded"
)
_TEXT_SUBTYPES: Final = frozenset(_TEXT_NAMES.split())


class ArtifactContent(Value):
    """An artifact with what was asked for of its content: text, or bytes if it is no text.

    `content` holds lines `from_line` to `to_line` of `line_count`, without the last line's end;
    both are None where there is no such line. With `grep` it holds those of them that match, each
    with its number in front (`12: …`), and `matches` counts them. In JSON bytes are base64.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_bytes="base64")

    artifact: Artifact
    content: str | bytes
    from_line: int | None = None
    to_line: int | None = None
    line_count: int | None = None
    matches: int | None = None


def cut(
    artifact: Artifact,
    data: bytes,
    start: int | None = None,
    length: int | None = None,
    grep: str | None = None,
) -> ArtifactContent:
    """Lines of a content: `length` of them from line `start` (1 is the first), all by default;
    with `grep` those that hold it, in whatever case. Lines end at line feeds and nowhere else.

    Bytes of a text that are not UTF-8 are replaced. CPU only: the largest take two seconds.
    Raises InvalidArgument.
    """
    _check(artifact, start, length, grep)
    if not is_text(artifact):
        return ArtifactContent(artifact=artifact, content=data)
    # Whole, since what is no UTF-8 in one line decides how all are read.
    data = decoded(data).encode(errors="surrogatepass")
    first, count = start or 1, data.count(b"\n") + 1
    last = min(count, first - 1 + length) if length else count
    chosen = _lines(data, first, last)
    matches = None
    content = list(chosen if grep is None else _matching(chosen, first, grep))
    if grep is not None:
        matches = len(content)
    return ArtifactContent(
        artifact=artifact,
        content="\n".join(content),
        from_line=first if first <= last else None,
        to_line=last if first <= last else None,
        line_count=count,
        matches=matches,
    )


def is_text(artifact: Artifact) -> bool:
    """Whether the content is text, which was counted in lines or is of a type that is text."""
    return artifact.line_count is not None or is_text_type(artifact.media_type)


def is_text_type(media_type: str) -> bool:
    kind, _, subtype = media_type.partition(";")[0].strip().lower().partition("/")
    if kind == "text" or subtype.endswith(_TEXT_SUFFIXES):
        return True
    return kind == "application" and subtype.removeprefix("x-") in _TEXT_SUBTYPES


def count_lines(text: str) -> int:
    """A line feed at the end begins one more line, which is empty."""
    return text.count("\n") + 1


def _lines(encoded: bytes, first: int, last: int) -> Iterator[str]:
    """One by one: a list of all lines takes many times what the content does."""
    if first > last:
        return iter(())
    lines = islice(BytesIO(encoded), first - 1, last)
    if last > encoded.count(b"\n") and (not encoded or encoded.endswith(b"\n")):
        lines = chain(lines, (b"",))
    return (line.removesuffix(b"\n").decode(errors="surrogatepass") for line in lines)


def _matching(lines: Iterable[str], first: int, grep: str) -> Iterator[str]:
    wanted = grep.casefold()
    return (f"{n}: {line}" for n, line in enumerate(lines, first) if wanted in line.casefold())


def _check(artifact: Artifact, start: int | None, length: int | None, grep: str | None) -> None:
    _check_number("start", start, "the number of a line, from 1")
    _check_number("length", length, "a number of lines, at least 1")
    if grep is not None and (not isinstance(grep, str) or not grep or "\n" in grep):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(f"grep={grep!r:.80}; allowed is text without a line feed, not empty")
    asked = [n for n, value in (("start", start), ("length", length), ("grep", grep)) if value]
    if asked and not is_text(artifact):
        raise InvalidArgument(
            f"{asked[0]}= reads lines, and artifact {artifact.handle} is {artifact.media_type!r},"
            " which is no text; it can be loaded whole"
        )


def _check_number(name: str, value: int | None, allowed: str) -> None:
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(f"{name}={value!r:.80}; allowed is {allowed}")
