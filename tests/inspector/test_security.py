"""Who may look at the inspector, and who may change something."""

import re
from collections.abc import AsyncIterator, Callable

import httpx2
import pytest
from starlette.types import Receive, Scope, Send

from durable_context import ContextClient
from durable_context.errors import InvalidArgument
from durable_context.inspector.app import make_app
from durable_context.inspector.pages import Inspector
from durable_context.inspector.sealing import Sealed
from durable_context.inspector.security import access_for, is_loopback
from tests.inspector.conftest import Site
from tests.turns import numbered

TOKEN = "a token of some length"
SAME_ORIGIN = {"Origin": "http://127.0.0.1:8234"}
Open = Callable[..., httpx2.AsyncClient]


@pytest.fixture
async def open_site(client: ContextClient) -> AsyncIterator[Open]:
    """A browser, so to speak, of a server bound to `host`."""
    opened: list[httpx2.AsyncClient] = []

    def make(
        host: str = "127.0.0.1",
        token: str | None = None,
        base_url: str = "http://127.0.0.1:8234",
        *,
        allow_changes: bool = False,
    ) -> httpx2.AsyncClient:
        inspected = Inspector(client, allow_changes=allow_changes)
        app = make_app(inspected, access_for(host, token))
        transport = httpx2.ASGITransport(app=app)
        opened.append(httpx2.AsyncClient(transport=transport, base_url=base_url))
        return opened[-1]

    yield make
    for one in opened:
        await one.aclose()


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("localhost", True),
        ("LOCALHOST", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.5", False),
        ("localhost.example", False),
        ("", False),
    ],
)
def test_loopback_is_told_from_what_others_reach(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_a_server_that_others_reach_always_has_a_token() -> None:
    made, other = (access_for("0.0.0.0", None).token for _ in range(2))
    assert made is not None and other is not None and len(made) >= 16 and made != other
    assert access_for("127.0.0.1", None).token is None
    assert access_for("127.0.0.1", TOKEN).token == TOKEN


@pytest.mark.parametrize("token", ["", "short", "fifteen letters", "kein gültiges Token, leider"])
def test_a_token_that_is_easily_guessed_is_refused(token: str) -> None:
    with pytest.raises(InvalidArgument, match="at least 16") as error:
        access_for("0.0.0.0", token)
    assert not token or token not in str(error.value)


async def test_on_loopback_only_names_of_this_machine_are_answered(open_site: Open) -> None:
    site = open_site()
    for host, status in (
        ("127.0.0.1:8234", 200),
        ("localhost", 200),
        ("LocalHost:99", 200),
        ("[::1]:8234", 200),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example:8234", 403),
        ("127.0.0.1@evil.example", 403),
        ("", 403),
    ):
        for path in ("/", "/static/style.css"):
            answer = await site.get(path, headers={"Host": host})
            assert answer.status_code == status, host


async def test_elsewhere_nothing_but_style_is_shown_without_the_token(open_site: Open) -> None:
    site = open_site("0.0.0.0", TOKEN, "http://inspector.example:8234")
    for path in ("/", "/branch?conversation=a", "/nowhere", "/static", "/?token=wrong"):
        answer = await site.get(path)
        assert answer.status_code == 401
        assert "DURABLE_CONTEXT_UI_TOKEN" in answer.text and TOKEN not in answer.text
        assert "set-cookie" not in answer.headers and "tenant" not in answer.text
    assert "tenant" not in (await site.get("/static/nowhere")).text
    assert (await site.get("/static/style.css")).status_code == 200
    assert (await site.get("/static/../")).status_code == 401
    assert (await site.post("/branch/pin")).status_code == 401


async def test_the_token_in_an_address_becomes_a_cookie(open_site: Open) -> None:
    site = open_site("0.0.0.0", TOKEN, "http://inspector.example:8234")
    answer = await site.get(
        "/conversation", params={"conversation": "a/b&c ü", "token": TOKEN, "x": ""}
    )
    assert answer.status_code == 303
    assert answer.headers["location"] == "/conversation?conversation=a%2Fb%26c+%C3%BC&x="
    [cookie] = answer.headers.get_list("set-cookie")
    assert "HttpOnly" in cookie and "samesite=strict" in cookie.lower() and "Path=/" in cookie
    assert "Secure" not in cookie and TOKEN not in cookie and TOKEN not in answer.text
    assert (await site.get("/")).status_code == 200
    assert (await site.get("/", params={"token": TOKEN})).headers["location"] == "/"
    other = open_site("0.0.0.0", "another token of length", "http://inspector.example:8234")
    other.cookies = site.cookies
    assert (await other.get("/")).status_code == 401


async def test_over_tls_the_cookie_stays_there(open_site: Open) -> None:
    site = open_site("0.0.0.0", TOKEN, "https://inspector.example")
    answer = await site.get("/", params={"token": TOKEN})
    assert "Secure" in answer.headers["set-cookie"]


async def test_no_address_leads_to_another_host(open_site: Open) -> None:
    site = open_site("0.0.0.0", TOKEN, "http://inspector.example:8234")
    for path in ("//evil.example/x", "/\\evil.example/x", "///evil.example", "/%5Cevil.example"):
        address = f"http://inspector.example:8234{path}?token={TOKEN}"
        answer = await site.get(address.replace(" ", "+"))
        assert answer.status_code == 303
        assert re.match(r"/[^/\\]", answer.headers["location"])


async def test_programs_send_the_token_as_a_header(open_site: Open) -> None:
    site = open_site("0.0.0.0", TOKEN, "http://inspector.example:8234")
    for header, status in (
        (f"Bearer {TOKEN}", 200),
        (f"bearer  {TOKEN}", 200),
        (f"Basic {TOKEN}", 401),
        ("Bearer", 401),
        (f"Bearer {TOKEN}x", 401),
    ):
        answer = await site.get("/", headers={"Authorization": header})
        assert answer.status_code == status, header


async def test_every_answer_keeps_others_out(open_site: Open, client: ContextClient) -> None:
    site = open_site()
    answers = [
        await site.get("/"),
        await site.get("/static/style.css"),
        await site.get("/nowhere"),
        await site.get("/branch"),
        await site.get("/", headers={"Host": "evil.example"}),
        await site.post("/"),
        await site.head("/"),
        await open_site("0.0.0.0", TOKEN).get("/"),
        await open_site("0.0.0.0", TOKEN).get("/", params={"token": TOKEN}),
    ]
    statuses = [answer.status_code for answer in answers]
    assert statuses == [200, 200, 404, 400, 403, 403, 200, 401, 303]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    stored = [answer.headers["cache-control"] for answer in answers]
    assert stored == ["no-store", "no-cache", *["no-store"] * 7]


async def test_pages_hold_no_scripts_or_styles_of_their_own(site: Site) -> None:
    shown = await site.get("/")
    assert not re.search(r"<script(?![^>]*\ssrc=\"/static/)|<style|\son\w+=|\sstyle=", shown)
    assert not re.search(r"(src|href|action)=\"(https?:)?//", shown)


async def test_without_leave_nothing_is_changed(open_site: Open, client: ContextClient) -> None:
    branch = await client.open_branch("orders")
    await branch.record_turn(numbered(1))
    site = open_site()
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        answer = await site.request(
            method, "/branch/pin", data={"conversation": "orders", "turn": "1"}, headers=SAME_ORIGIN
        )
        assert answer.status_code == 403
        assert "read-only" in answer.text
    assert await branch.pins() == ()


async def test_what_comes_from_another_site_changes_nothing(
    open_site: Open, client: ContextClient
) -> None:
    branch = await client.open_branch("orders")
    await branch.record_turn(numbered(1))
    site = open_site(allow_changes=True)
    form = {"key": await key_of(site), "conversation": "orders", "turn": "1"}
    ours = "http://127.0.0.1:8234"
    for headers in (
        {},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": ours, "Sec-Fetch-Site": "cross-site"},
        {"Origin": ours, "Sec-Fetch-Site": "same-site"},
        {"Origin": ours, "Sec-Fetch-Site": "none"},
    ):
        answer = await site.post("/branch/pin", data=form, headers=headers)
        assert answer.status_code == 403, headers
        assert await branch.pins() == ()
    for headers in (
        {"Origin": ours},
        {"Origin": ours, "Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "same-origin"},
    ):
        answer = await site.post("/branch/pin", data=form, headers=headers)
        assert answer.status_code == 303, headers
        assert len(await branch.pins()) == 1
        await branch.unpin(1)


async def test_a_form_that_is_not_ours_changes_nothing(
    open_site: Open, client: ContextClient
) -> None:
    branch = await client.open_branch("orders")
    await branch.record_turn(numbered(1))
    site, other = (open_site(allow_changes=True) for _ in range(2))
    asked = {"conversation": "orders", "turn": "1"}
    for key in ({}, {"key": ""}, {"key": "ü"}, {"key": await key_of(other)}):
        answer = await site.post("/branch/pin", data=asked | key, headers=SAME_ORIGIN)
        assert answer.status_code == 403
        assert "out of date" in answer.text
    padded = {"key": await key_of(site), "because": "x" * 70_000} | asked
    assert (await site.post("/branch/pin", data=padded, headers=SAME_ORIGIN)).status_code == 400
    assert await branch.pins() == ()


async def key_of(site: httpx2.AsyncClient) -> str:
    """The key that forms of its pages have."""
    shown = await site.get("/branch/confirm-rebuild", params={"conversation": "orders"})
    found = re.search(r'name="key" value="([^"]+)"', shown.text)
    if found is None:
        shown = await site.get("/branch", params={"conversation": "orders"})
        found = re.search(r'name="key" value="([^"]+)"', shown.text)
    assert found is not None
    return found[1]


async def test_a_failure_shows_and_logs_its_kind_alone(caplog: pytest.LogCaptureFixture) -> None:
    async def failing(scope: Scope, receive: Receive, send: Send) -> None:
        raise KeyError("secret words")

    transport = httpx2.ASGITransport(app=Sealed(failing))
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
        answer = await http.get("/branch", params={"conversation": "secret words"})
    assert (answer.status_code, answer.text) == (500, "Internal error")
    assert answer.headers["x-frame-options"] == "DENY"
    assert "GET of /branch failed: KeyError" in caplog.text
    assert "secret" not in caplog.text.replace('KeyError("secret words")', "")
