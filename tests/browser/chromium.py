"""The browser that drives pages: Chromium as it is installed, never one that is downloaded."""

import os
import shutil
from collections.abc import Mapping

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
MISSING = (
    "no Chromium: install it (on Debian `apt-get install chromium`), or set CHROMIUM to the path of"
    " one. Looked for on PATH: " + ", ".join(NAMES)
)


def find_chromium(environ: Mapping[str, str] = os.environ) -> str:
    """Raises FileNotFoundError."""
    chosen = environ.get("CHROMIUM")
    if chosen:
        if found := shutil.which(chosen):
            return found
        raise FileNotFoundError(f"CHROMIUM={chosen!r} is no program; set it to the path of one")
    for name in NAMES:
        if found := shutil.which(name, path=environ.get("PATH")):
            return found
    raise FileNotFoundError(MISSING)
