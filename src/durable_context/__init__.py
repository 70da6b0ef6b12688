"""Durable Context keeps an LLM agent's conversation usable for ever.

Record each turn, prepare each prompt; between the two, Temporal workflows compact the branch. See
`ContextClient` for the entry point.
"""

from durable_context.branch import Branch
from durable_context.client import ContextClient
from durable_context.errors import DurableContextError
from durable_context.models import Checkpoint, Message, Summary, Turn
from durable_context.policy import CompactionPolicy
from durable_context.prepared import Block, Budget, BudgetExceeded, Manifest, PreparedContext

__all__ = [
    "Block",
    "Branch",
    "Budget",
    "BudgetExceeded",
    "Checkpoint",
    "CompactionPolicy",
    "ContextClient",
    "DurableContextError",
    "Manifest",
    "Message",
    "PreparedContext",
    "Summary",
    "Turn",
]
