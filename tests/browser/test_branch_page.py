"""The page of a branch in a real browser: the plot, the tree down to messages, narrow screens, no
scripts.
"""

import re
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, Page, expect

from durable_context.inspector.links import link
from tests.browser.inspector_site import inspector_site
from tests.browser.live_stack import CONVERSATION, FORK, LiveStack


@pytest.fixture
async def site(stack: LiveStack) -> AsyncIterator[str]:
    async with inspector_site(stack) as address:
        yield address


@pytest.fixture
async def complaints(page: Page, site: str) -> AsyncIterator[list[str]]:
    """What the browser says against a page: errors, refused styles and scripts, foreign hosts."""
    seen: list[str] = []
    page.on(
        "console", lambda message: seen.append(message.text) if message.type == "error" else None
    )
    page.on("pageerror", lambda error: seen.append(str(error)))
    page.on("request", lambda sent: None if sent.url.startswith(site) else seen.append(sent.url))
    yield seen


def of_branch(site: str, path: str = "/branch", branch: str = "main") -> str:
    return site + link(path, conversation=CONVERSATION, branch=branch)


async def test_a_node_opens_down_to_the_messages_where_it_stands(
    page: Page, site: str, complaints: list[str]
) -> None:
    await page.goto(of_branch(site))
    node = page.locator(".tree > .node").first
    for _ in range(10):
        await node.locator("> summary").click()
        inside = node.locator("> .inside")
        await expect(inside.locator("pre").first).to_be_visible()
        below = inside.locator("> .tree > .node")
        if not await below.count():
            break
        node = below.first
    await expect(inside.locator("article.said.user pre")).to_be_visible()
    assert page.url == of_branch(site)
    await page.locator(".tree > .node > summary").first.click()
    await expect(inside.locator("article.said.user pre")).to_be_hidden()
    assert complaints == []


async def test_bars_and_marks_of_the_plot_lead_on(
    page: Page, site: str, complaints: list[str]
) -> None:
    await page.goto(of_branch(site))
    await expect(page.locator(".plot .column")).to_have_count(60)
    await page.locator(".plot .column .reach").nth(29).click()
    await expect(page.locator("tr#turn-30")).to_be_visible()
    await page.go_back()
    mark = page.locator(".plot a:has(.mark.completed)").first
    address = await mark.get_attribute("href")
    await mark.locator("circle").click()
    await expect(page).to_have_url(site + str(address))
    assert await page.locator(":target").count() == 1
    assert complaints == []


async def test_a_fork_shades_what_it_inherited(page: Page, site: str) -> None:
    await page.goto(of_branch(site, branch=FORK))
    shade = await page.locator(".plot rect.inherited").bounding_box()
    columns = page.locator(".plot .column")
    inherited, own = await columns.nth(29).bounding_box(), await columns.nth(30).bounding_box()
    assert shade and inherited and own
    end = shade["x"] + shade["width"]
    assert inherited["x"] < end and own["x"] >= end - 1
    await expect(page.locator(".tree .badge", has_text="inherited").first).to_be_visible()


async def test_without_scripts_each_node_and_turn_has_a_page(browser: Browser, site: str) -> None:
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    await page.goto(of_branch(site))
    await page.locator(".tree > .node > summary").first.click()
    await page.get_by_role("link", name="Open this node on a page of its own").first.click()
    for _ in range(5):
        await page.locator(".tree > .node > summary").first.click()
        await page.locator(".tree > .node > .inside > a").first.click()
        if "/branch/turn?" in page.url:
            break
    await expect(page.get_by_role("heading", name=re.compile(r"^Turn \d+"))).to_be_visible()
    await expect(page.locator("article.said pre").first).to_be_visible()
    await context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_narrow_screen_scrolls_the_drawing_and_not_the_page(
    browser: Browser, site: str, scheme: str
) -> None:
    context = await browser.new_context(
        viewport={"width": 400, "height": 800},
        color_scheme=scheme,  # type: ignore[arg-type]
    )
    page = await context.new_page()
    for path in ("/branch", "/branch/turns", "/branch/turn"):
        await page.goto(of_branch(site, path))
        assert await page.evaluate("document.documentElement.scrollWidth") <= 400, path
    await page.goto(of_branch(site))
    drawing = page.locator(".plot .drawing")
    assert await drawing.evaluate("it => it.scrollWidth > it.clientWidth")
    colours = await page.evaluate(
        "() => [getComputedStyle(document.body).backgroundColor,"
        " getComputedStyle(document.querySelector('.plot svg text')).fill]"
    )
    assert colours[0] != colours[1]
    await context.close()
