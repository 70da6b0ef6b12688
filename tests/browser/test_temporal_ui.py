"""What an operator sees in Temporal's own UI, without any tool of ours."""

from playwright.async_api import Page, expect

from durable_context.contracts import compaction_workflow_id
from tests.browser.live_stack import CONVERSATION, LiveStack


async def test_the_list_of_runs_tells_which_are_compactions(page: Page, stack: LiveStack) -> None:
    await page.goto(f"{stack.temporal_ui_url}/namespaces/{stack.temporal_namespace}/workflows")
    workflow_id = compaction_workflow_id(stack.main.branch_uuid)
    await expect(page.get_by_text(workflow_id).first).to_be_visible(timeout=30_000)
    await expect(page.get_by_text("Failed").first).to_be_visible()


async def test_a_run_is_understood_by_its_page(page: Page, stack: LiveStack) -> None:
    workflow_id = compaction_workflow_id(stack.fork.branch_uuid)
    await page.goto(
        f"{stack.temporal_ui_url}/namespaces/{stack.temporal_namespace}/workflows/{workflow_id}"
    )
    await expect(page.get_by_text(f"compact {CONVERSATION}/sea-freight").first).to_be_visible(
        timeout=30_000
    )
