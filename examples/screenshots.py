"""`python -m examples.screenshots`: takes the pictures of docs/pictures from a live stack, whose
conversations and worker are those of `make test-browser`. `--only branch` takes one of them.
"""

import asyncio
import shutil
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from playwright.async_api import Browser, Page, async_playwright
from rich.console import Console

from durable_context.contracts import compaction_workflow_id
from durable_context.inspector.links import link
from tests.browser.chromium import ARGUMENTS, find_chromium
from tests.browser.inspector_site import inspector_site
from tests.browser.live_stack import CONVERSATION, LiveStack, live_stack, open_directory

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
SIZE = {"width": 1400, "height": 900}
DRAWN_WITHIN = 30_000
"""Milliseconds."""

Visit = Callable[[Page, "Shown"], Awaitable[None]]
"""Opens a page and waits until all is there that the picture is to show."""


class Picture(NamedTuple):
    name: str
    visit: Visit
    height: int = 900


class Shown(NamedTuple):
    """`inspector`: the address of its first page."""

    stack: LiveStack
    inspector: str


async def temporal_list(page: Page, shown: Shown) -> None:
    """With the columns that docs/temporal-ui.md advises."""
    await page.goto(f"{_temporal(shown.stack)}/workflows")
    await page.get_by_text("Failed").first.wait_for(timeout=DRAWN_WITHIN)
    await page.get_by_test_id("workflows-summary-table-configuration-button").click()
    for column in ("Run ID", "Start", "End"):
        await page.get_by_test_id(f"orderable-list-item-{column}-remove-button").click()
    for column in ("CompactionReason", "CompactionBranch"):
        await page.get_by_test_id(f"orderable-list-item-{column}-add-button").click()
    await page.get_by_test_id("drawer-close-button").click()
    await page.get_by_role("button", name="Collapse saved views").click()


async def temporal_run(page: Page, shown: Shown) -> None:
    workflow_id = compaction_workflow_id(shown.stack.fork.branch_uuid)
    await page.goto(f"{_temporal(shown.stack)}/workflows/{workflow_id}")
    await page.get_by_text("commit • commit checkpoint").first.wait_for(timeout=DRAWN_WITHIN)


async def temporal_details(page: Page, shown: Shown) -> None:
    await temporal_run(page, shown)
    await page.get_by_text("User Metadata").first.click()
    await page.get_by_text("Current Details").wait_for(timeout=DRAWN_WITHIN)
    for frame in page.frames[1:]:  # Markdown is drawn in frames
        await frame.wait_for_load_state()


def of_main(path: str, **more: str | int) -> Visit:
    """A page of the inspector about the branch of 60 turns."""

    async def visit(page: Page, shown: Shown) -> None:
        address = link(path, conversation=CONVERSATION, branch="main", **more)
        await page.goto(shown.inspector + address)

    return visit


async def conversations(page: Page, shown: Shown) -> None:
    await page.goto(shown.inspector)


PICTURES_TAKEN = (
    Picture("temporal-list", temporal_list, 780),
    Picture("temporal-run", temporal_run, 1100),
    Picture("temporal-details", temporal_details),
    Picture("conversations", conversations, 460),
    Picture("conversation", of_main("/conversation"), 320),
    Picture("branch", of_main("/branch"), 1200),
    Picture("prompt", of_main("/branch/prompt"), 1200),
    Picture("diff", of_main("/branch/diff", a=30, b=54), 950),
    Picture("compactions", of_main("/branch/compactions"), 800),
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
    async with AsyncExitStack() as exits:
        stack = await exits.enter_async_context(live_stack(directory / "data"))
        inspector = await exits.enter_async_context(inspector_site(stack))
        playwright = await exits.enter_async_context(async_playwright())
        browser = await playwright.chromium.launch(executable_path=chromium, args=list(ARGUMENTS))
        for picture in chosen:
            await _shoot(browser, picture, Shown(stack, inspector))
        await browser.close()


async def _shoot(browser: Browser, picture: Picture, shown: Shown) -> None:
    size = SIZE | {"height": picture.height}
    context = await browser.new_context(viewport=size)  # type: ignore[arg-type]
    page = await context.new_page()
    await picture.visit(page, shown)
    await page.wait_for_load_state("networkidle")
    target = PICTURES / f"{picture.name}.png"
    await page.screenshot(path=target, animations="disabled")
    await context.close()
    sys.stderr.write(f"{target.name}: {target.stat().st_size // 1024} kB\n")


def _temporal(stack: LiveStack) -> str:
    return f"{stack.temporal_ui_url}/namespaces/{stack.temporal_namespace}"


if __name__ == "__main__":
    app()
