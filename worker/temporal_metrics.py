"""Temporal's own metrics of this process, which its core serves to Prometheus."""

import errno
import socket

from temporalio.runtime import PrometheusConfig, Runtime, TelemetryConfig

from worker.errors import InvalidSettings
from worker.settings import Address


def runtime_with_metrics(address: Address | None) -> Runtime | None:
    """For the client, before there is one; None where nobody asked for metrics.

    Raises OSError, with EADDRINUSE where the address is taken, and InvalidSettings.
    """
    if address is None:
        return None
    config = PrometheusConfig(
        bind_address=_numeric(address),
        durations_as_seconds=True,
        counters_total_suffix=True,
        unit_suffix=True,
    )
    try:
        return Runtime(telemetry=TelemetryConfig(metrics=config))
    except ValueError as error:
        message = f"Temporal's metrics at {address.host}:{address.port}: {error}"
        if "in use" in str(error):
            raise OSError(errno.EADDRINUSE, message) from error
        raise InvalidSettings(message) from error


def _numeric(address: Address) -> str:
    """The core takes no names."""
    found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    host = str(found[0][4][0])
    return f"[{host}]:{address.port}" if ":" in host else f"{host}:{address.port}"
