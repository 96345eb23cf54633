"""Other processes: what a program leaves behind, and how one died."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


_SHELL_SIGNAL = 128  # added to a signal's number in an exit status


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


def kill_orphans(folders: Path, prefix: str) -> int:
    """Kill what recordings left running that were killed themselves.

    A run's folder is named after the recorder's process, so that an orphan is
    told from a program of another recording that goes on.

    Args:
        folders: The folder of run folders.
        prefix: How their names begin, before the recorder's process number.

    Returns:
        How many processes were killed.
    """
    count = 0
    for folder in folders.glob(f"{prefix}*-*"):
        owner = folder.name.removeprefix(prefix).split("-")[0]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            count += len(kill_of(os.path.realpath(folder)))
            shutil.rmtree(folder, ignore_errors=True)
    return count


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


def resident(pid: int) -> int:
    """Return the bytes that a process and all that descend from it hold in memory.

    What several of them share is counted for each.
    """
    page = os.sysconf("SC_PAGE_SIZE")
    pages, pending = 0, [pid]
    while pending:
        folder = Path(f"/proc/{pending.pop()}")
        try:
            pages += int((folder / "statm").read_text("ascii").split()[1])
            threads = list((folder / "task").iterdir())
        except (OSError, IndexError):
            continue  # it has ended
        for thread in threads:
            with contextlib.suppress(OSError):
                pending += map(int, (thread / "children").read_text("ascii").split())
    return pages * page


def unwrapped(status: int) -> int:
    """Return -11 for 139, as which a wrapper passes on an end by SIGSEGV."""
    number = status - _SHELL_SIGNAL
    return -number if number in set(signal.Signals) else status


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
