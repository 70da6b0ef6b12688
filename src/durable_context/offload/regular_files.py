"""Files of a chat: what stands in their place, such as a pipe or a link elsewhere, is none."""

import errno
import os
import stat
from pathlib import Path


def opened(path: Path, flags: int) -> int:
    """A handle, which waits for nobody. Raises OSError unless it is a file, or may become one."""
    handle = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is no file")
    return handle


def content_of(path: Path) -> bytes:
    """Raises OSError."""
    with os.fdopen(opened(path, os.O_RDONLY), "rb") as file:
        return file.read()
