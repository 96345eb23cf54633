"""Other processes: what a program leaves behind, and how one died."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def kill_of(folder: str) -> list[int]:
    """Kill every process whose environment names a folder as its HOME or TMPDIR.

    A process may leave its group and close its pipes, but it inherits the
    environment; so this finds what killing a group does not.

    Returns:
        The numbers of the processes that were killed.
    """
    found = list(_processes(folder))
    for pid in found:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return found


def _processes(folder: str) -> Iterator[int]:
    wanted = f"={folder}/".encode()
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            # Empty for a process that has ended and waits for its parent.
            environment = Path(entry.path, "environ").read_bytes()
        except OSError:
            continue
        if wanted in environment:
            yield int(entry.name)


def no_core(pid: int) -> None:
    """Keep a process from dumping its core.

    The core of a process that mapped a GPU takes minutes to write.
    """
    import resource  # noqa: PLC0415 - POSIX only

    with contextlib.suppress(OSError, ValueError, AttributeError):
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))


def signal_name(number: int) -> str:
    """Return `SIGSEGV` for 11; `signal 42` for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
