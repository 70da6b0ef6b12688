"""Finds a PostgreSQL that the machine's own packages installed."""

import shutil
from pathlib import Path

OLDEST_MAJOR = 15
DEBIAN = Path("/usr/lib/postgresql")


def installed_programs() -> Path:
    """The folder with `initdb` and `postgres`: the oldest supported major, else one on PATH."""
    majors = [
        int(folder.name)
        for folder in (DEBIAN.iterdir() if DEBIAN.exists() else ())
        if folder.name.isdecimal() and (folder / "bin" / "initdb").exists()
    ]
    supported = sorted(major for major in majors if major >= OLDEST_MAJOR)
    if supported:
        return DEBIAN / str(supported[0]) / "bin"
    on_path = shutil.which("initdb")
    if on_path is not None:
        return Path(on_path).resolve().parent
    raise RuntimeError(
        f"no PostgreSQL {OLDEST_MAJOR} or later: install it (`apt-get install postgresql-15`), or "
        "put the folder with its `initdb` and `postgres` on PATH"
    )
