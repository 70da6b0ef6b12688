"""What the Temporal SDK says of a connection that failed, without its own inside."""

import re

# It says it with the debug form of a Rust error.
_RUST_ADDRESS = re.compile(r'([^\s",()]+:\d+), Os \{.*?message: "([^"]*)"')
_RUST_REASON = re.compile(r'(?:error|message): "([^"]*)"')
_RUST = re.compile(r":\s*(?:Failed client connect|Server connection error|tonic::).*", re.DOTALL)


def without_rust(message: str) -> str:
    """Only what failed, why and where."""
    short = _RUST.sub("", message)
    if short == message:
        return message
    if found := _RUST_ADDRESS.search(message):
        return f"{short}: {found[2]} ({found[1]})"
    found = _RUST_REASON.search(message)
    return f"{short}: {found[1]}" if found else short
