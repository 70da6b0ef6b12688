"""What an operator sees in Temporal's own UI, without any tool of ours."""

import asyncio
import contextlib
from urllib.parse import quote

from playwright.async_api import Error, Page, expect

from durable_context.contracts import compaction_workflow_id
from durable_context.contracts.rebuild import rebuild_workflow_id
from tests.browser.live_stack import REMOVED, LiveStack

DRAWN_WITHIN = 60_000
"""Milliseconds, on a machine that has other things to do."""


async def test_the_list_names_runs_and_shows_why_they_were_started(
    page: Page, stack: LiveStack
) -> None:
    await page.goto(_runs(stack))
    await _shown(page, compaction_workflow_id(stack.main.branch_uuid))
    await _shown(page, rebuild_workflow_id(stack.main.branch_uuid))
    await page.get_by_test_id("workflows-summary-table-configuration-button").click()
    for column in ("CompactionReason", "CompactionBranch"):
        await page.get_by_test_id(f"orderable-list-item-{column}-add-button").click()
    await page.get_by_test_id("drawer-close-button").click()
    await expect(page.get_by_role("cell", name="brightwater/sea-freight").first).to_be_attached()
    await expect(page.get_by_role("cell", name="catch-up", exact=True).first).to_be_attached()


async def test_a_saved_view_finds_the_run_that_failed_and_no_other(
    page: Page, stack: LiveStack
) -> None:
    query = quote('ExecutionStatus = "Failed"')
    await page.goto(f"{_runs(stack)}?query={query}")
    await _shown(page, compaction_workflow_id(REMOVED))
    await expect(page.get_by_text(compaction_workflow_id(stack.main.branch_uuid))).to_have_count(0)


async def test_steps_of_a_run_say_what_they_do(page: Page, stack: LiveStack) -> None:
    await _open(page, stack, compaction_workflow_id(stack.fork.branch_uuid))
    await _shown(page, "summarize turns 37–42 with model/openai:gpt-4o-mini/1, ")
    await _shown(page, "commit checkpoint 42")


async def test_the_page_of_a_run_tells_what_it_did_and_cost(page: Page, stack: LiveStack) -> None:
    await _open(page, stack, compaction_workflow_id(stack.fork.branch_uuid))
    await page.get_by_text("User Metadata").first.click()
    await _drawn(page, "compact brightwater/sea-freight")
    await _drawn(page, "Summarizes the branch’s turns, segment by segment.")
    for cell in ("turns 37–42", "model/openai:gpt-4o-mini/1", "turn 42"):
        await _drawn(page, cell)
    await _drawn(page, "$0.00")


async def test_the_page_of_a_failed_run_tells_why(page: Page, stack: LiveStack) -> None:
    await _open(page, stack, compaction_workflow_id(REMOVED))
    await page.get_by_text("User Metadata").first.click()
    await _drawn(page, "failed: planning")
    await _drawn(page, f"plan: UnknownBranch: there is no branch {REMOVED} for this tenant")


def _runs(stack: LiveStack) -> str:
    return f"{stack.temporal_ui_url}/namespaces/{stack.temporal_namespace}/workflows"


async def _open(page: Page, stack: LiveStack, workflow_id: str) -> None:
    await page.goto(f"{_runs(stack)}/{workflow_id}")
    await _shown(page, "Event History")


async def _shown(page: Page, text: str) -> None:
    await expect(page.get_by_text(text).first).to_be_visible(timeout=DRAWN_WITHIN)


async def _drawn(page: Page, text: str) -> None:
    """As Markdown, which the page draws in frames."""
    async with asyncio.timeout(DRAWN_WITHIN / 1_000):
        while not await _is_drawn(page, text):
            await page.wait_for_timeout(50)


async def _is_drawn(page: Page, text: str) -> bool:
    for frame in page.frames:
        with contextlib.suppress(Error):  # the frame was drawn anew meanwhile
            if await frame.get_by_text(text).first.is_visible():
                return True
    return False
