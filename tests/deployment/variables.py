"""Which variables of the environment a worker reads, from its source."""

import ast
import re
from pathlib import Path

WORKER = Path(__file__).parents[2] / "worker"

# What libpq, the clients of models and object stores, and Temporal's own environment configuration
# read themselves.
FOREIGN = {
    "PGPASSWORD",
    "OPENAI_API_KEY",
    "TEMPORAL_ADDRESS",
    "TEMPORAL_NAMESPACE",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_REGION",
    "AWS_ENDPOINT",
}


def read_by_the_worker() -> set[str]:
    """Every constant of its modules that could be the name of one."""
    return {
        node.value
        for path in WORKER.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch("[A-Z][A-Z0-9_]+", node.value)
    }
