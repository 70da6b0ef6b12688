"""Pages in a real browser (`make test-browser`), of a stack that is all real but for its model.

`stack`   a `LiveStack`, one a session: `.client`, `.main` (60 turns, compacted, partly rebuilt),
          `.fork`, `.temporal`, `.temporal_ui_url`, `.database_url`, `.artifact_url`, `.model`
`page`    a new page of headless Chromium (playwright's async API), 1400 × 900, without cookies
`browser` the Chromium of the session, for a context of one's own
"""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, async_playwright

from tests.browser.chromium import ARGUMENTS, find_chromium
from tests.browser.live_stack import LiveStack, live_stack, open_directory

VIEWPORT = {"width": 1400, "height": 900}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test of a session waits for its stack."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    try:
        chromium = find_chromium()
    except FileNotFoundError as error:
        pytest.exit(str(error), returncode=2)
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(
            executable_path=chromium, args=list(ARGUMENTS), headless=True
        )
        yield launched
        await launched.close()


@pytest.fixture
async def page(browser: Browser) -> AsyncIterator[Page]:
    context = await browser.new_context(viewport=VIEWPORT)  # type: ignore[arg-type]
    yield await context.new_page()
    await context.close()


@pytest.fixture(scope="session")
async def stack() -> AsyncIterator[LiveStack]:
    directory = open_directory()
    async with live_stack(directory / "data") as stack:
        yield stack
    shutil.rmtree(directory)
