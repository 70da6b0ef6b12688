"""The event pipeline: processors that offload, compress, window and budget a context's history."""

from durable_context.errors import CheckpointError, ContextError, ProcessorError
from durable_context.processors.checkpoints import Checkpoint, CheckpointStore
from durable_context.processors.config import AutomationMode, ContextConfig, make_config
from durable_context.processors.context import Context
from durable_context.processors.dialogue_compressor import DialogueCompressor
from durable_context.processors.message_offloader import MessageOffloader
from durable_context.processors.offloaded import reload_offloaded
from durable_context.processors.pipeline import ContextProcessor, ProcessorPipeline
from durable_context.processors.round_window import RoundWindowProcessor
from durable_context.processors.state import ContextState
from durable_context.processors.summarize import SummarizeProcessor
from durable_context.processors.token_budget import TokenBudgetProcessor
from durable_context.processors.token_tracker import (
    TokenStep,
    TokenTracker,
    TokenUsageSummary,
)
from durable_context.processors.tool_result_offloader import ToolResultOffloader
from durable_context.processors.tools import get_context_tools

__all__ = [
    "AutomationMode",
    "Checkpoint",
    "CheckpointError",
    "CheckpointStore",
    "Context",
    "ContextConfig",
    "ContextError",
    "ContextProcessor",
    "ContextState",
    "DialogueCompressor",
    "MessageOffloader",
    "ProcessorError",
    "ProcessorPipeline",
    "RoundWindowProcessor",
    "SummarizeProcessor",
    "TokenBudgetProcessor",
    "TokenStep",
    "TokenTracker",
    "TokenUsageSummary",
    "ToolResultOffloader",
    "get_context_tools",
    "make_config",
    "reload_offloaded",
]
