"""One process run, hermetic: its own folder, environment and process group.

Nothing of this machine or of an earlier run reaches the program, everything
that it prints is read while it runs, and whatever it leaves behind is found,
killed and reported.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evidence import processes, terminal
from evidence.errors import FULL, MachineError, ToolchainError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import IO

# What a program may need to find its libraries and its GPU.
ALLOWED = (
    "PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "CUDA_HOME", "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES",
)  # fmt: skip
FIXED = {
    "LC_ALL": "C.UTF-8",
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "NO_COLOR": "1",
    "TERM": "dumb",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUTF8": "1",
}
PREFIX = "evidence-run-"

_TICK = 0.05  # seconds between looks at the clock while a program is silent
_GRACE = 0.5  # seconds a pipe may stay open after its program ended
_KEPT_OF_FLOOD = 16_384  # bytes kept of an output that broke its cap
_CHUNK = 65_536


@dataclass(frozen=True, slots=True)
class RunResult:
    """What one process did.

    Attributes:
        exit_status: None if a signal or the timeout ended it.
        signal: Name of the signal that it died by, if it did.
        timed_out: Whether it was killed because its time was up.
        seconds: From start to end.
        stdout: Lines, without colours and line ends.
        stderr: The same of standard error.
        problems: Sentences about what no program may do.
        cells: What each cell of a notebook left; None for any other program.
    """

    exit_status: int | None
    signal: str | None
    timed_out: bool
    seconds: float
    stdout: tuple[str, ...] = ()
    stderr: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    cells: tuple[Any, ...] | None = None

    def ended(self) -> str:
        """Return how it ended, as the end of a sentence."""
        if self.timed_out:
            return f"was killed after {self.seconds:.0f} s"
        if self.signal:
            return f"died by {self.signal}"
        return f"ended with exit status {self.exit_status}"

    def document(self, *, cells: bool = True) -> dict[str, Any]:
        """Return the run as it stands in a record, with what cells left or without."""
        kept = {"cells": list(self.cells)} if cells and self.cells is not None else {}
        return kept | {
            "exit_status": self.exit_status,
            "signal": self.signal,
            "timed_out": self.timed_out,
            "seconds": round(self.seconds, 3),
            "stdout": list(self.stdout),
            "stderr": list(self.stderr),
            "problems": list(self.problems),
        }


@dataclass(frozen=True, slots=True)
class Task:
    """What to run.

    Attributes:
        words: The command; its first word is absolute, or `./name` in the folder.
        files: Name in the run's folder → file that is copied there.
        timeout: Seconds it may take.
        max_bytes: Bytes it may print on each stream.
        environment: Variables besides the allowed and fixed ones.
        keep: Name in the run's folder → where to copy it to afterwards.
    """

    words: tuple[str, ...]
    files: Mapping[str, Path]
    timeout: float
    max_bytes: int
    environment: Mapping[str, str]
    keep: Mapping[str, Path]


def task(
    words: Sequence[str],
    files: Mapping[str, Path],
    *,
    timeout: float = 120.0,
    max_bytes: int = 1_000_000,
    environment: Mapping[str, str] | None = None,
    keep: Mapping[str, Path] | None = None,
) -> Task:
    """Return a task; see `Task` for the arguments."""
    return Task(tuple(words), files, timeout, max_bytes, environment or {}, keep or {})


def folder_prefix() -> str:
    """Return how the names of this process's temporary folders begin."""
    return f"{PREFIX}{os.getpid()}-"


def run(todo: Task) -> RunResult:
    """Run a task in a fresh folder, which is gone afterwards.

    Raises:
        ToolchainError: The process could not be started at all.
    """
    folder = Path(os.path.realpath(tempfile.mkdtemp(prefix=folder_prefix())))
    try:
        work, home = folder / "work", folder / "home"
        work.mkdir()
        home.mkdir()
        for name, source in todo.files.items():
            target = work / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
        result = _run_in(todo, work, _environment(home, todo.environment), str(folder))
        for name, target in todo.keep.items():
            if (work / name).is_file():
                shutil.copyfile(work / name, target)
    except OSError as error:
        # A full disk is no program's own trouble.
        kind = MachineError if error.errno in FULL else ToolchainError
        raise kind(
            f"cannot run {Path(todo.words[0]).name}: {error.strerror or error}",
            path=error.filename or folder,
            fix="make room or mend its permissions, then run the same command",
        ) from None
    else:
        return result
    finally:
        # Whatever interrupts this tool, and when: nothing may go on running.
        processes.kill_of(str(folder))
        shutil.rmtree(folder, ignore_errors=True)


def _environment(home: Path, extra: Mapping[str, str]) -> dict[str, str]:
    allowed = {name: os.environ[name] for name in ALLOWED if name in os.environ}
    own = {"HOME": str(home), "TMPDIR": str(home)}
    return {**allowed, **FIXED, **own, **extra}


def _run_in(todo: Task, work: Path, environment: dict[str, str], mark: str) -> RunResult:
    started = time.perf_counter()
    process = subprocess.Popen(
        todo.words, cwd=work, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    processes.no_core(process.pid)
    reader = _Reader(process, started + todo.timeout, todo.max_bytes)
    try:
        reader.read()
    finally:
        if process.poll() is None:
            _kill_group(process)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
        left = processes.kill_of(mark)
    seconds = reader.ended - started
    problems = list(reader.problems)
    if (left or reader.held) and not (reader.timed_out or reader.flooded):
        count = max(len(left), 1)
        which = "a process" if count == 1 else f"{count} processes"
        held = " that held its output open" if reader.held else ""
        problems.append(f"left {which} running{held}")
    lines = {
        # The folder's name is made up for this run; it must not be in the record.
        name: tuple(
            line.replace(str(work), "<tmp>").replace(mark, "<tmp>")
            for line in terminal.lines(name, bytes(data), problems)
        )
        for name, data in reader.data.items()
    }
    status = process.returncode
    died = status < 0 and not reader.timed_out and not reader.flooded
    return RunResult(
        exit_status=status if status >= 0 and not reader.timed_out else None,
        signal=processes.signal_name(-status) if died else None,
        timed_out=reader.timed_out,
        seconds=seconds,
        stdout=lines["stdout"],
        stderr=lines["stderr"],
        problems=tuple(problems),
    )


class _Reader:
    """Reads both pipes at once until the process ended, its time is up or a cap broke."""

    def __init__(self, process: subprocess.Popen[bytes], deadline: float, cap: int) -> None:
        self.process = process
        self.deadline = deadline
        self.cap = cap
        self.data = {"stdout": bytearray(), "stderr": bytearray()}
        self.problems: list[str] = []
        self.ended = 0.0
        self.timed_out = self.flooded = self.held = False

    def read(self) -> None:
        streams: dict[str, IO[bytes] | None] = {
            "stdout": self.process.stdout, "stderr": self.process.stderr,
        }  # fmt: skip
        with selectors.DefaultSelector() as selector:
            for name, stream in streams.items():
                assert stream is not None  # noqa: S101
                os.set_blocking(stream.fileno(), False)
                selector.register(stream, selectors.EVENT_READ, name)
            self._pump(selector)
        if not self.timed_out and not self.flooded:
            # Both pipes are closed; the process may live on in silence.
            try:
                self.process.wait(max(0.0, self.deadline - time.perf_counter()))
            except subprocess.TimeoutExpired:
                self._time_up()
        self.ended = self.ended or time.perf_counter()

    def _pump(self, selector: selectors.BaseSelector) -> None:
        while selector.get_map():
            for entry, _ in selector.select(_TICK):
                self._take(selector, entry)
            now = time.perf_counter()
            if self.flooded:
                return
            if self.process.poll() is None:
                if now >= self.deadline:
                    self._time_up()
                    return
            elif not self.ended:
                self.ended = now
            elif now - self.ended > _GRACE:
                # The program is gone and still somebody holds its pipe.
                self.held = True
                return

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
        if len(kept) > self.cap and not self.flooded:
            self.flooded = True
            del kept[min(self.cap, _KEPT_OF_FLOOD) :]
            del kept[kept.rfind(b"\n") + 1 :]
            self.problems.append(f"printed more than {self.cap} bytes on {entry.data}")
            self.ended = time.perf_counter()
            _kill_group(self.process)

    def _time_up(self) -> None:
        self.timed_out = True
        self.ended = time.perf_counter()
        _kill_group(self.process)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
