"""Ports of the loopback interface that nobody listens on at this moment.

All lie below 32768: there the system takes no ports for outgoing connections, so that none is lost
between choosing and using it, and Temporal's PostgreSQL schema has no room for higher ones.
"""

import contextlib
import random
import socket

LOOPBACK = "127.0.0.1"
PORTS = range(10_000, 32_768)


def free_ports(count: int) -> list[int]:
    """Different ports; another process may still be faster, so whoever binds must retry."""
    with contextlib.ExitStack() as bound:
        return [bound.enter_context(_bound_somewhere()).getsockname()[1] for _ in range(count)]


def _bound_somewhere() -> socket.socket:
    while True:
        candidate = socket.socket()
        try:
            candidate.bind((LOOPBACK, random.choice(PORTS)))
        except OSError:
            candidate.close()
        else:
            return candidate
