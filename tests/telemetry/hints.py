"""Hints that are not given up, however busy the machine is."""

from contextlib import AbstractContextManager
from unittest.mock import patch

from durable_context.compaction import requests


def hints_have_time() -> AbstractContextManager[object]:
    return patch.object(requests, "HINT_SECONDS", 30)
