"""Addresses of pages. Ids may hold any character, so they stand in the query, never in the path."""

from urllib.parse import quote, urlencode


def link(path: str, **query: object) -> str:
    """`link("/branch", conversation="a/b", branch="main")`; what is None is left out."""
    asked = {name: str(value) for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(asked, quote_via=quote)}" if asked else path


def run_link(
    temporal_ui: str | None, namespace: str, workflow_id: str | None, run_id: str | None
) -> str | None:
    """A run in Temporal's UI; None where there is no UI or no run."""
    if temporal_ui is None or workflow_id is None:
        return None
    path = f"/namespaces/{quote(namespace, safe='')}/workflows/{quote(workflow_id, safe='')}"
    return f"{temporal_ui}{path}/{quote(run_id, safe='')}" if run_id else f"{temporal_ui}{path}"
