"""Durable Context keeps an LLM agent's conversation usable for ever.

Record each turn, prepare each prompt; between the two, Temporal workflows compact the branch. See
`ContextClient` for the entry point.
"""

from durable_context.artifacts.reading import ArtifactContent
from durable_context.branch import Branch
from durable_context.client import ContextClient
from durable_context.errors import DurableContextError
from durable_context.events import ContextEvent
from durable_context.history_search import SearchHit
from durable_context.models import (
    Artifact,
    BranchInfo,
    BranchState,
    Checkpoint,
    Message,
    Summary,
    Turn,
)
from durable_context.pins import Pin
from durable_context.policy import CompactionPolicy
from durable_context.prompts.manifest import Block, Manifest
from durable_context.prompts.prepared import Budget, BudgetExceeded, PreparedContext
from durable_context.retention import RetentionPolicy, RetentionReport
from durable_context.tools.context_tools import ContextTool, get_context_tools, run_tool_call

__all__ = [
    "Artifact",
    "ArtifactContent",
    "Block",
    "Branch",
    "BranchInfo",
    "BranchState",
    "Budget",
    "BudgetExceeded",
    "Checkpoint",
    "CompactionPolicy",
    "ContextClient",
    "ContextEvent",
    "ContextTool",
    "DurableContextError",
    "Manifest",
    "Message",
    "Pin",
    "PreparedContext",
    "RetentionPolicy",
    "RetentionReport",
    "SearchHit",
    "Summary",
    "Turn",
    "get_context_tools",
    "run_tool_call",
]
