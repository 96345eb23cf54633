"""Holding GPUs against other recordings on this machine: a lock file for each.

The kernel holds the lock (flock) and lets go of it when the process ends, however it
ends, so that a recording that was killed keeps nobody waiting. The file only says who
it is that holds it.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import shlex
import socket
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from evidence.errors import ToolchainError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from evidence.device import Device

# Where every user of a machine looks for the same file, whatever TMPDIR says.
_FOLDERS = ("/run/lock", "/tmp")  # noqa: S108
_LONGEST = 300  # characters shown of what a lock file says


@contextlib.contextmanager
def reserved(
    devices: Sequence[Device], *, wait: bool = False, say: Callable[[str], None] = print
) -> Iterator[None]:
    """Hold GPUs, all of them or none.

    Args:
        devices: Which.
        wait: Whether to wait for a recording that holds one.
        say: Told whom is waited for.

    Raises:
        ToolchainError: Another recording holds one, or a lock file cannot be opened.
    """
    with contextlib.ExitStack() as held:
        # Always in the same order: two recordings cannot wait for each other.
        for device in sorted(devices, key=lambda device: device.uuid):
            held.enter_context(_held(device, wait, say))
        yield


def path_of(device: Device) -> Path:
    """Return the lock file of a GPU."""
    usable = (Path(f) for f in _FOLDERS if Path(f).is_dir() and os.access(f, os.W_OK | os.X_OK))
    folder = next(usable, Path(tempfile.gettempdir()))
    return folder / f"evidence-{device.uuid or device.label({})}.lock"


@contextlib.contextmanager
def _held(device: Device, wait: bool, say: Callable[[str], None]) -> Iterator[None]:
    import fcntl  # noqa: PLC0415 - POSIX only

    path = path_of(device)
    while True:
        handle = _open(path)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = _holder(handle)
                if not wait:
                    raise ToolchainError(
                        f"{device.name} is held by {holder}; "
                        "times measured beside it would be false",
                        fix="wait until it is done: the same command with --wait",
                    ) from None
                say(f"waiting for {device.name}, held by {holder}")
                fcntl.flock(handle, fcntl.LOCK_EX)
            if _still_there(path, handle):
                break
        except BaseException:
            os.close(handle)
            raise
        # Somebody removed the file meanwhile; whoever comes next makes a new one.
        os.close(handle)
    try:
        _write(handle, _about_us())
        yield
    finally:
        _write(handle, "")
        os.close(handle)


def _open(path: Path) -> int:
    flags = os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        # Without O_CREAT first: the kernel may forbid it for another user's file here.
        for ways in (os.O_RDWR, os.O_RDWR | os.O_CREAT | os.O_EXCL, os.O_RDWR):
            with contextlib.suppress(FileNotFoundError, FileExistsError, PermissionError):
                handle = os.open(path, ways | flags, 0o666)
                if ways & os.O_CREAT:
                    os.fchmod(handle, 0o666)  # whatever the umask: other users lock it too
                return handle
        return os.open(path, os.O_RDONLY | flags)
    except OSError as error:
        raise ToolchainError(
            f"the lock of the GPU cannot be opened: {error.strerror}", path=path,
            fix=f"remove it: rm {path}",
        ) from None  # fmt: skip


def _still_there(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except OSError:
        return False


def _about_us() -> str:
    program, *words = sys.argv or ["evidence"]
    return json.dumps(
        {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "command": shlex.join([Path(program).name.removesuffix(".py"), *words]),
            "since": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        }
    )


def _write(handle: int, text: str) -> None:
    # Another user's file may be locked and not written to.
    with contextlib.suppress(OSError):
        os.ftruncate(handle, 0)
        os.pwrite(handle, text.encode("utf-8"), 0)


def _holder(handle: int) -> str:
    """Return who holds a lock, as far as its file says."""
    try:
        found = json.loads(os.pread(handle, 4096, 0).decode("utf-8"))
        pid, host, since, command = (
            str(found[name]) for name in ("pid", "host", "since", "command")
        )
    except (OSError, ValueError, KeyError, TypeError):
        return "another recording"
    text = f"another recording (process {pid} on {host} since {since}: {command})"
    # Anybody can write into that file.
    return "".join(c if c.isprintable() else "?" for c in text)[:_LONGEST]
