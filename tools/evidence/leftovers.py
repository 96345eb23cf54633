"""Processes that a program leaves behind, found by their environment."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def kill(folder: str) -> list[int]:
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
