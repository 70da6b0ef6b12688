"""The next prompt, diffs, compactions, artifacts and events in a real browser: forms, what comes on
demand, narrow screens, no scripts.
"""

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, Page, expect

from durable_context import Budget
from durable_context.inspector.links import link
from tests.browser.inspector_site import inspector_site
from tests.browser.live_stack import CONVERSATION, FORK, LiveStack

ASKED = "Which customers were promised anything?\nAnd when?"
LONG = "word " * 6_000
TABS = ("prompt", "diff", "compactions", "artifacts", "events")


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


def of_branch(site: str, tab: str, **asked: object) -> str:
    return site + link(f"/branch/{tab}", conversation=CONVERSATION, branch="main", **asked)


async def test_a_message_is_typed_and_its_prompt_is_there(
    page: Page, site: str, stack: LiveStack, complaints: list[str]
) -> None:
    await page.goto(of_branch(site, "prompt"))
    await page.get_by_label("Message of the user").fill(ASKED)
    await page.get_by_label("Instructions").fill("Be brief.")
    await page.get_by_label("Budget").fill("9000")
    await page.get_by_role("button", name="Prepare").click()
    budget = Budget(max_tokens=9_000, instructions="Be brief.")
    prepared = await stack.main.foresee_prompt(ASKED, budget=budget)
    assert prepared
    await expect(page.locator("article")).to_have_count(len(prepared.messages))
    texts = await page.locator("article").evaluate_all(
        "all => all.map(one => [...one.querySelectorAll('pre')].map(p => p.textContent).join(''))"
    )
    assert texts == [message["content"] for message in prepared.messages]
    await expect(page.locator(".blocks rect")).to_have_count(len(prepared.manifest.blocks))
    await expect(page.locator("mark").first).to_be_attached()
    assert complaints == []


async def test_the_rest_of_a_long_message_comes_on_demand(
    page: Page, site: str, complaints: list[str]
) -> None:
    await page.goto(of_branch(site, "prompt", message=LONG))
    await page.get_by_role("button", name="more characters").click()
    await expect(page.locator(".piece pre")).to_have_count(1)
    assert "/branch/prompt?" in page.url
    texts = await page.locator("article").last.locator("pre").all_text_contents()
    assert "".join(texts) == LONG
    assert complaints == []


async def test_forms_and_the_rest_need_no_scripts(browser: Browser, site: str) -> None:
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    await page.goto(of_branch(site, "prompt", message=LONG))
    await page.get_by_role("button", name="more characters").click()
    await expect(page.get_by_role("heading", name="of the next prompt")).to_be_visible()
    await page.get_by_role("button", name="Back to the prompt").click()
    await expect(page.get_by_role("heading", name="The request")).to_be_visible()
    await page.goto(of_branch(site, "compactions"))
    await page.get_by_label("Reason").select_option("rebuild")
    await page.get_by_role("button", name="Show").click()
    await expect(page.locator(".compaction").first).to_contain_text("rebuild")
    await context.close()


async def test_a_prompt_differs_between_branches(
    page: Page, site: str, complaints: list[str]
) -> None:
    await page.goto(of_branch(site, "diff"))
    await page.get_by_label("Compare").select_option("prompts")
    for label, value in (("from", "40"), ("to", "40"), ("of", FORK)):
        await page.get_by_label(label, exact=True).fill(value)
    await page.get_by_role("button", name="Compare").click()
    await expect(page.locator("tr.added").first).to_be_visible()
    await expect(page.locator("tr.removed").first).to_be_visible()
    assert complaints == []


async def test_a_compaction_is_opened_in_temporals_ui(
    page: Page, site: str, stack: LiveStack
) -> None:
    [made] = await stack.main.compactions(1, status="completed")
    await page.goto(
        of_branch(site, "compactions", begin=made.compaction_id)
        + f"#compaction-{made.compaction_id}"
    )
    shown = page.locator(f"#compaction-{made.compaction_id}")
    await expect(shown).to_contain_text("completed")
    address = await shown.get_by_role("link", name="Temporal").get_attribute("href")
    assert address is not None and address.startswith(stack.temporal_ui_url)
    assert str(made.run_id) in address


@pytest.mark.parametrize("tab", TABS)
async def test_a_narrow_screen_scrolls_up_and_down_alone(
    browser: Browser, site: str, tab: str
) -> None:
    context = await browser.new_context(viewport={"width": 400, "height": 800})
    page = await context.new_page()
    await page.goto(of_branch(site, tab, message=ASKED))
    width = await page.evaluate("document.documentElement.scrollWidth")
    assert width <= 400
    await context.close()
