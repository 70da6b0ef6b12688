"""Addresses of pages. Ids may hold any character, so they stand in the query, never in the path."""

from urllib.parse import parse_qsl, quote, urlencode, urlsplit


def link(path: str, **query: object) -> str:
    """`link("/branch", conversation="a/b", branch="main")`; what is None is left out."""
    asked = {name: str(value) for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(asked, quote_via=quote)}" if asked else path


def local(address: str, **added: str) -> str:
    """Path and query of an address, never another host, without its note, with what is `added`."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return link("/", **added)
    query = [
        (name, value)
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
        if name != "note"
    ]
    asked = urlencode([*query, *added.items()], quote_via=quote)
    # What follows two slashes is taken for a host, and browsers read backslashes as slashes.
    path = "/" + quote(parts.path.lstrip("/\\"), safe="/%")
    return f"{path}?{asked}" if asked else path


def run_link(
    temporal_ui: str | None, namespace: str, workflow_id: str | None, run_id: str | None
) -> str | None:
    """A run in Temporal's UI; None where there is no UI or no run."""
    if temporal_ui is None or workflow_id is None:
        return None
    path = f"/namespaces/{quote(namespace, safe='')}/workflows/{quote(workflow_id, safe='')}"
    return f"{temporal_ui}{path}/{quote(run_id, safe='')}" if run_id else f"{temporal_ui}{path}"
