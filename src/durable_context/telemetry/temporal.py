"""Temporal's tracing, for clients that are connected by us: a trace goes on through signals,
workflows and activities. Imports temporalio only where it is called.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from temporalio.client import Interceptor


def interceptors() -> "Sequence[Interceptor]":
    """For a client and the workers that use it; none without OpenTelemetry's SDK, which Temporal's
    interceptor needs. Without a tracer provider they do nothing.
    """
    if find_spec("opentelemetry.sdk") is None:
        return ()
    from durable_context.telemetry.temporal_spans import tracing

    return (tracing(),)
