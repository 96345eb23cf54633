"""Recording edited programs again in the background, one at a time.

The work is done by `evidence record` in a process of its own, so whatever
happens to it, the server goes on; what it stores, it stores as ever. That
process is this module too: it ends when its server does, however that ends.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from evidence import cli, machine, processes, runner, store
from evidence.device import LocalGpu
from evidence.errors import EvidenceError

if TYPE_CHECKING:
    from collections.abc import Callable

_LOG = logging.getLogger("mkdocs.plugins.evidence")
_GRACE = 3.0  # seconds that a recording gets to end its programs
_TICK = 0.1  # seconds between looks at a recording that runs
_KEPT = 3  # lines shown of what a recording said


def missing() -> str:
    """Return what this machine lacks to record; empty for nothing."""
    try:
        here = machine.probe(LocalGpu())
    except EvidenceError as error:
        return str(error)
    return "" if here.nvcc is not None else here.nvcc_missing


class Rerunner:
    """Records the programs that it is told about; the latest first.

    Args:
        root: The project's folder.
        folder: Gets a new file when a recording ended that stored nothing,
            so that whoever watches it builds the site again.
        lacks: Says what the machine lacks.
    """

    def __init__(self, root: Path, folder: Path, lacks: Callable[[], str] = missing) -> None:
        self._root = root
        self._folder = folder
        self._lacks = lacks
        self._changed = threading.Condition()
        self._waiting: list[str] = []  # the latest last
        self._running: str | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._superseded = False
        self._failures: dict[str, str] = {}
        self._stopped = False
        self._thread: threading.Thread | None = None

    def want(self, program: str) -> None:
        """Record a program as it is now, before all others; a recording of it starts anew."""
        with self._changed:
            self._forget(program)
            self._waiting.append(program)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def drop(self, program: str) -> None:
        """Do not record a program after all."""
        with self._changed:
            self._forget(program)

    def notes(self) -> dict[str, str]:
        """Return what is being done, by program."""
        with self._changed:
            notes = dict.fromkeys(self._waiting, "waits to be recorded")
            now = self._running or (self._waiting[-1] if self._waiting else None)
            return notes | ({now: "being recorded now"} if now is not None else {})

    def failures(self) -> dict[str, str]:
        """Return why programs could not be recorded, by program."""
        with self._changed:
            return dict(self._failures)

    def stop(self) -> None:
        """End the recording that is running, with all that it started."""
        with self._changed:
            self._stopped = True
            self._waiting.clear()
            process = self._process
            self._changed.notify_all()
        if process is not None:
            end(process)
        if self._thread is not None:
            self._thread.join(2 * _GRACE)

    def _forget(self, program: str) -> None:
        self._failures.pop(program, None)
        if program in self._waiting:
            self._waiting.remove(program)
        if self._running == program and self._process is not None:
            self._superseded = True
            _interrupt(self._process)

    def _work(self) -> None:
        reason = self._lacks()
        if reason:
            _LOG.info("programs are not recorded again: %s", reason)
        while True:
            with self._changed:
                if reason:
                    self._waiting.clear()
                self._changed.wait_for(lambda: self._waiting or self._stopped)
                if self._stopped:
                    return
                if reason:
                    continue
                program = self._running = self._waiting.pop()
                self._superseded = False
                self._process = process = self._start(program)
            said, status = self._finish(process)
            with self._changed:
                self._running = self._process = None
                ended = self._superseded or self._stopped
                if status != 0 and not ended:
                    self._failures[program] = said
            if not ended:
                self._tell(program, said, status)

    def _start(self, program: str) -> subprocess.Popen[bytes]:
        _LOG.info("recording %s", program)
        words = ["evidence.rerun", "--project", str(self._root), "record", program]
        return subprocess.Popen(
            [sys.executable, "-m", *words],
            cwd=self._root, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    def _finish(self, process: subprocess.Popen[bytes]) -> tuple[str, int]:
        """Wait for a recording; return the last of what it said, and its exit status."""
        data: list[bytes] = []
        # Not `communicate`: it would close the pipe that tells the process of our end.
        reader = threading.Thread(target=_read, args=(process, data), daemon=True)
        reader.start()
        left = _GRACE
        while left > 0 and reader.is_alive():
            reader.join(_TICK)
            # It was asked to end, or ended, and still something holds its output open.
            if self._superseded or self._stopped or process.poll() is not None:
                left -= _TICK
        end(process)
        reader.join(_GRACE)
        lines = b"".join(data).decode("utf-8", "replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        return " · ".join(said[-_KEPT:]), process.returncode

    def _tell(self, program: str, said: str, status: int) -> None:
        """Say how a recording ended, to the log and to whoever watches the folder."""
        outcome = "recorded" if status == 0 else "not recorded"
        _LOG.info("%s: %s: %s", outcome, program, said)
        with contextlib.suppress(EvidenceError):  # a full disk: the log has said it
            store.write(self._folder / "ended", f"{time.time_ns()} {program} {status}\n")


def _read(process: subprocess.Popen[bytes], data: list[bytes]) -> None:
    assert process.stdout is not None  # noqa: S101
    data.extend(process.stdout)


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    """Ask a recording to end: it takes its programs with it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGINT)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a recording and all that it has started, and wait for it."""
    if process.poll() is None:
        _interrupt(process)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdin is not None:
        process.stdin.close()
    # Programs run in groups of their own, which their folders tell.
    processes.kill_orphans(Path(tempfile.gettempdir()), runner.PREFIX)


def main() -> None:
    """Do what the command line says until it is done, or whoever started this is gone."""
    # A server in the background ignores interrupts, and so would what it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=_until_alone, daemon=True).start()
    cli.main(sys.argv[1:])


def _until_alone() -> None:
    """Interrupt everything of this group once nobody holds the other end of the input."""
    # Not through sys.stdin, which a thread that waits would hold at our end.
    while os.read(0, 1):
        pass
    os.killpg(0, signal.SIGINT)


if __name__ == "__main__":
    main()
