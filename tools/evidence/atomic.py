"""Writing a file whole or not at all, whatever happens meanwhile.

The text goes into a temporary file of the same folder, to the disk, and then takes the
place of the old one. What a process that was killed left of such a file is removed by
the next that writes there.
"""

from __future__ import annotations

import contextlib
import glob
import os
import tempfile
from pathlib import Path


def write(path: Path, data: bytes) -> None:
    """Write a file and make that durable; what stood there stands until then.

    Raises:
        OSError: The disk is full, the folder cannot be written to, or the like.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _tidy(path)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            _lock(handle)
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
    _sync_folder(path.parent)


def _tidy(path: Path) -> None:
    """Remove what killed processes left beside a file; what is locked is being written."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        with contextlib.suppress(OSError):
            handle = os.open(left, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
            try:
                if _lock(handle):
                    left.unlink()
            finally:
                os.close(handle)


def _lock(handle: int) -> bool:
    try:
        import fcntl  # noqa: PLC0415 - POSIX only
    except ImportError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _sync_folder(folder: Path) -> None:
    # A rename is only durable once its folder is; Windows cannot open folders.
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
