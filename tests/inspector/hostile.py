"""What users, tools and models may say to a page, and how to tell that it is shown as text."""

import base64
import re
from html.parser import HTMLParser

HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(2)>[x](javascript:alert(3))"
    "\x1b[31mred\x1b[0m \u202eevil\u202c \"quotes' & ampersands </textarea></pre> {{ 7 * 7 }}"
)
LONE = "\ud83d half a pair"
MOST_BYTES = 300_000
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)
"""A picture of one pixel."""
_ADDRESSES = ("href", "src", "action", "formaction", "hx-get", "hx-post")


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def check_page(shown: str) -> None:
    """Nothing of it runs or comes from elsewhere, and it is of a bounded size."""
    page = _Elements()
    page.feed(shown)
    for tag, attributes in page.found:
        assert tag != "script" or (attributes.get("src") or "").startswith("/static/")
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        for name in _ADDRESSES:
            address = attributes.get(name)
            assert address is None or re.match(r"/(?!/)|#|http://temporal\.test/", address), address
    assert len(shown.encode()) < MOST_BYTES
    # What a form sends again stays as it came, and is not shown.
    shown = re.sub(r'<input type="hidden"[^>]*>', "", shown)
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\u202a-\u202e\u2066-\u2069]", shown)


def text_of(shown: str) -> str:
    """What a reader sees, on one line."""
    page = _Elements()
    page.feed(shown)
    return " ".join(" ".join(page.texts).split())


def values_of(shown: str, tag: str, name: str) -> list[str]:
    """An attribute of all elements of a kind."""
    page = _Elements()
    page.feed(shown)
    return [value for found, held in page.found if found == tag and (value := held.get(name))]
