"""Offloading for a plain list of chat messages: originals to files or artifacts, previews and
summaries in their place.
"""

from durable_context.contracts import OffloadParameters
from durable_context.offload.op import ContextOffloadOp
from durable_context.offload.result import Action, OffloadResult
from durable_context.offload.stores import StoredFile

__all__ = ["Action", "ContextOffloadOp", "OffloadParameters", "OffloadResult", "StoredFile"]
