"""What the page of a run shows in Temporal's UI, as its API gives it."""

from typing import Any

from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import WorkflowHandle


async def metadata(handle: WorkflowHandle[Any, Any]) -> WorkflowMetadata:
    return await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)


async def phase_and_rows(handle: WorkflowHandle[Any, Any]) -> tuple[str, dict[str, str]]:
    """Of the current details: what stands above the table, and the table."""
    return read_details((await metadata(handle)).current_details)


def read_details(text: str) -> tuple[str, dict[str, str]]:
    phase, _, table = text.partition("\n\n")
    lines = [line for line in table.splitlines() if line.startswith("| ")]
    cells = [line.strip("| ").split(" | ", 1) for line in lines]
    return phase.strip("*"), {name: value for name, value in cells}


async def attributes(handle: WorkflowHandle[Any, Any]) -> dict[str, Any]:
    description = await handle.describe()
    return {pair.key.name: pair.value for pair in description.typed_search_attributes}
