"""`python -m examples.screenshots`: takes the pictures of docs/pictures from a live stack, whose
conversations and worker are those of `make test-browser`. `--only branch` takes one of them.
"""

import asyncio
import shutil
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from playwright.async_api import Browser, Page, async_playwright
from rich.console import Console

from durable_context.contracts import compaction_workflow_id
from tests.browser.chromium import ARGUMENTS, find_chromium
from tests.browser.live_stack import LiveStack, live_stack, open_directory

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
SIZE = {"width": 1400, "height": 900}
DRAWN_WITHIN = 30_000
"""Milliseconds."""

Visit = Callable[[Page, LiveStack], Awaitable[None]]
"""Opens a page and waits until all is there that the picture is to show."""


class Picture(NamedTuple):
    name: str
    visit: Visit
    height: int = 900


async def temporal_list(page: Page, stack: LiveStack) -> None:
    """With the columns that docs/temporal-ui.md advises."""
    await page.goto(f"{_temporal(stack)}/workflows")
    await page.get_by_text("Failed").first.wait_for(timeout=DRAWN_WITHIN)
    await page.get_by_test_id("workflows-summary-table-configuration-button").click()
    for column in ("Run ID", "Start"):
        await page.get_by_test_id(f"orderable-list-item-{column}-remove-button").click()
    for column in ("CompactionReason", "CompactionBranch"):
        await page.get_by_test_id(f"orderable-list-item-{column}-add-button").click()
    await page.get_by_test_id("drawer-close-button").click()


async def temporal_run(page: Page, stack: LiveStack) -> None:
    workflow_id = compaction_workflow_id(stack.fork.branch_uuid)
    await page.goto(f"{_temporal(stack)}/workflows/{workflow_id}")
    await page.get_by_text("commit • commit checkpoint").first.wait_for(timeout=DRAWN_WITHIN)


async def temporal_details(page: Page, stack: LiveStack) -> None:
    await temporal_run(page, stack)
    await page.get_by_text("User Metadata").first.click()
    await page.get_by_text("Current Details").wait_for(timeout=DRAWN_WITHIN)
    for frame in page.frames[1:]:  # Markdown is drawn in frames
        await frame.wait_for_load_state()


PICTURES_TAKEN = (
    Picture("temporal-list", temporal_list),
    Picture("temporal-run", temporal_run, 1100),
    Picture("temporal-details", temporal_details),
)


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def screenshots(
    only: Annotated[str, typer.Option(help="Of this name, without .png.")] = "",
) -> None:
    """Take the pictures of docs/pictures."""
    chosen = [one for one in PICTURES_TAKEN if only in ("", one.name)]
    if not chosen:
        raise typer.BadParameter(f"{only!r}; there are {', '.join(p.name for p in PICTURES_TAKEN)}")
    try:
        chromium = find_chromium()
    except FileNotFoundError as error:
        Console(stderr=True).print(str(error), markup=False)
        raise typer.Exit(2) from error
    directory = open_directory()
    try:
        asyncio.run(_take(chosen, chromium, directory))
    finally:
        shutil.rmtree(directory, ignore_errors=True)


async def _take(chosen: list[Picture], chromium: str, directory: Path) -> None:
    PICTURES.mkdir(exist_ok=True)
    async with live_stack(directory / "data") as stack, async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=list(ARGUMENTS))
        for picture in chosen:
            await _shoot(browser, picture, stack)
        await browser.close()


async def _shoot(browser: Browser, picture: Picture, stack: LiveStack) -> None:
    size = SIZE | {"height": picture.height}
    context = await browser.new_context(viewport=size)  # type: ignore[arg-type]
    page = await context.new_page()
    await picture.visit(page, stack)
    await page.wait_for_load_state("networkidle")
    target = PICTURES / f"{picture.name}.png"
    await page.screenshot(path=target, animations="disabled")
    await context.close()
    sys.stderr.write(f"{target.name}: {target.stat().st_size // 1024} kB\n")


def _temporal(stack: LiveStack) -> str:
    return f"{stack.temporal_ui_url}/namespaces/{stack.temporal_namespace}"


if __name__ == "__main__":
    app()
