"""Lists of branches, and forms that change something, in a real browser."""

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, Page, expect

from durable_context.inspector.links import link
from tests.browser.inspector_site import inspector_site
from tests.browser.live_stack import CONVERSATION, FORK, LiveStack


@pytest.fixture
async def site(stack: LiveStack) -> AsyncIterator[str]:
    async with inspector_site(stack, allow_changes=True) as address:
        yield address


@pytest.fixture
async def complaints(page: Page) -> list[str]:
    """What the browser says against a page."""
    seen: list[str] = []
    page.on(
        "console", lambda message: seen.append(message.text) if message.type == "error" else None
    )
    page.on("pageerror", lambda error: seen.append(str(error)))
    return seen


async def test_from_the_list_to_a_fork(page: Page, site: str, complaints: list[str]) -> None:
    await page.goto(site)
    await page.get_by_label("conversation").fill(CONVERSATION[:4])
    await page.get_by_role("button", name="Find").click()
    await page.get_by_role("link", name=CONVERSATION, exact=True).first.click()
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name=FORK, exact=True))
    await expect(row.locator("svg.lanes circle")).to_be_visible()
    await row.get_by_role("link", name=FORK, exact=True).click()
    await expect(page).to_have_url(site + link("/branch", conversation=CONVERSATION, branch=FORK))
    assert complaints == []


async def test_a_branch_is_paused_resumed_and_compacted(
    page: Page, site: str, complaints: list[str], stack: LiveStack
) -> None:
    address = site + link("/branch", conversation=CONVERSATION, branch="main")
    await page.goto(address)
    await page.get_by_label("because").fill("<b>a look</b>")
    await page.get_by_role("button", name="Pause", exact=True).click()
    await expect(page.get_by_role("status")).to_contain_text("is paused")
    await expect(page.get_by_role("status")).to_contain_text("<b>a look</b>")
    assert len(await stack.main.pauses()) == 1
    await page.get_by_role("button", name="Resume").click()
    await expect(page.get_by_role("status")).to_contain_text("goes on")
    assert await stack.main.pauses() == ()
    await page.get_by_role("button", name="Compact now").click()
    # What takes longer than the form waits for is told later, by the same line.
    await expect(page.get_by_role("status")).to_contain_text("checkpoint is at", timeout=120_000)
    assert complaints == []


async def test_a_revert_can_be_thought_over(
    page: Page, site: str, complaints: list[str], stack: LiveStack
) -> None:
    before = await stack.main.checkpoints(replaced=True)
    await page.goto(site + link("/branch", conversation=CONVERSATION, branch="main"))
    await page.get_by_role("link", name="Revert to here…").last.click()
    await expect(page.get_by_role("button", name="Revert")).to_be_visible()
    await page.get_by_role("link", name="Leave it as it is").click()
    await expect(page.get_by_role("heading", name="Frontier")).to_be_visible()
    assert await stack.main.checkpoints(replaced=True) == before
    assert complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_lists_fit_a_narrow_screen_and_need_no_scripts(
    browser: Browser, site: str, scheme: str
) -> None:
    context = await browser.new_context(
        viewport={"width": 400, "height": 800},
        color_scheme=scheme,  # type: ignore[arg-type]
        java_script_enabled=False,
    )
    page = await context.new_page()
    await page.goto(site)
    assert await page.locator("html").evaluate("it => it.scrollWidth") <= 400
    await page.get_by_role("link", name=CONVERSATION, exact=True).first.click()
    assert await page.locator("html").evaluate("it => it.scrollWidth") <= 400
    await expect(page.get_by_role("link", name="main", exact=True)).to_be_visible()
    await context.close()
