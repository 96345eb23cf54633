"""What a process prints, read while it runs: until it ends, its time is up or a cap breaks."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from typing import TYPE_CHECKING

from evidence import processes

if TYPE_CHECKING:
    from typing import IO

_TICK = 0.05  # seconds between looks at the clock while a program is silent
_GRACE = 0.5  # seconds a pipe may stay open after its program ended
_LOOK = 0.2  # seconds between looks at how much memory is in use
_KEPT_OF_FLOOD = 16_384  # bytes kept of an output that broke its cap
_CHUNK = 65_536


class Reader:
    """Reads both pipes of a process at once.

    Args:
        process: The process; it leads its own group.
        deadline: When its time is up, on `time.perf_counter`.
        cap: Bytes it may print on each stream.
        memory: Bytes it may hold with all that it started; None for any.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        deadline: float,
        cap: int,
        memory: int | None = None,
    ) -> None:
        self.process = process
        self.deadline = deadline
        self.cap = cap
        self.memory = memory
        self.data = {"stdout": bytearray(), "stderr": bytearray()}
        self.problems: list[str] = []
        self.ended = 0.0
        self.timed_out = self.stopped = self.held = False
        self._looked = 0.0

    def read(self) -> None:
        """Read until there is nothing more to come; `data`, `problems` and the rest tell."""
        streams: dict[str, IO[bytes] | None] = {
            "stdout": self.process.stdout, "stderr": self.process.stderr,
        }  # fmt: skip
        with selectors.DefaultSelector() as selector:
            for name, stream in streams.items():
                assert stream is not None  # noqa: S101
                os.set_blocking(stream.fileno(), False)
                selector.register(stream, selectors.EVENT_READ, name)
            self._pump(selector)
        if not self.timed_out and not self.stopped:
            # Both pipes are closed; the process may live on in silence.
            self._wait()
        self.ended = self.ended or time.perf_counter()

    def _pump(self, selector: selectors.BaseSelector) -> None:
        while selector.get_map():
            for entry, _ in selector.select(_TICK):
                self._take(selector, entry)
            now = time.perf_counter()
            if self.stopped:
                return
            if self.process.poll() is None:
                if self._over(now):
                    return
            elif not self.ended:
                self.ended = now
            elif now - self.ended > _GRACE:
                # The program is gone and still somebody holds its pipe.
                self.held = True
                return

    def _wait(self) -> None:
        while True:
            left = max(0.0, self.deadline - time.perf_counter())
            try:
                self.process.wait(left if self.memory is None else min(left, _LOOK))
            except subprocess.TimeoutExpired:
                if not self._over(time.perf_counter()):
                    continue
            return

    def _over(self, now: float) -> bool:
        """Return whether the process had to be ended, and end it."""
        if now >= self.deadline:
            self.timed_out = True
        elif self.memory is not None and now - self._looked >= _LOOK:
            self._looked = now
            if processes.resident(self.process.pid) > self.memory:
                self.stopped = True
                self.problems.append(f"used more than {self.memory // 2**20} MiB of memory")
        if self.timed_out or self.stopped:
            self.ended = now
            kill_group(self.process)
        return self.timed_out or self.stopped

    def _take(self, selector: selectors.BaseSelector, entry: selectors.SelectorKey) -> None:
        try:
            chunk = os.read(entry.fd, _CHUNK)
        except BlockingIOError:
            return
        if not chunk:
            selector.unregister(entry.fileobj)
            return
        kept = self.data[entry.data]
        kept += chunk
        if len(kept) > self.cap and not self.stopped:
            self.stopped = True
            del kept[min(self.cap, _KEPT_OF_FLOOD) :]
            del kept[kept.rfind(b"\n") + 1 :]
            self.problems.append(f"printed more than {self.cap} bytes on {entry.data}")
            self.ended = time.perf_counter()
            kill_group(self.process)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process with its group, and wait for its end."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
