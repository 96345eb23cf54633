"""One process run, hermetic: its own folder, environment and process group.

Nothing of this machine or of an earlier run reaches the program, everything
that it prints is read while it runs, and whatever it leaves behind is found,
killed and reported.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from evidence import pipes, processes, terminal
from evidence.errors import FULL, MachineError, ToolchainError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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


@dataclass(frozen=True, slots=True)
class Launch:
    """How a task is started.

    Attributes:
        words: The command, with what starts it.
        environment: Its whole environment.
        paths: Folders that exist for this run only; they must not be in the record.
        memory: Bytes that it may hold with all that it starts; None for any.
        wrapped: Whether its end is told as a shell tells it: 128 + signal.
        handles: Open files that it inherits; closed here once it runs.
    """

    words: tuple[str, ...]
    environment: Mapping[str, str]
    paths: tuple[str, ...]
    memory: int | None = None
    wrapped: bool = False
    handles: tuple[int, ...] = ()


class Box(Protocol):
    """What keeps a program away from the machine; see `sandbox`."""

    def bounded(self, todo: Task) -> Task:
        """Return the task with no more time and output than any stranger gets."""

    def launch(self, todo: Task, work: Path, environment: Mapping[str, str]) -> Launch:
        """Return how to start a task whose files lie in a folder."""


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


def run(todo: Task, box: Box | None = None) -> RunResult:
    """Run a task in a fresh folder, which is gone afterwards.

    Args:
        todo: What to run.
        box: What to run it in; None for directly.

    Raises:
        ToolchainError: The process could not be started at all.
    """
    todo = todo if box is None else box.bounded(todo)
    try:
        folder = Path(os.path.realpath(tempfile.mkdtemp(prefix=folder_prefix())))
    except OSError as error:
        raise _cannot(todo, error, tempfile.gettempdir()) from None
    try:
        work, home = folder / "work", folder / "home"
        work.mkdir()
        home.mkdir()
        for name, source in todo.files.items():
            target = work / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
        environment = _environment(home, todo.environment)
        how = Launch(todo.words, environment, (str(work), str(folder)))
        if box is not None:
            how = box.launch(todo, work, environment)
        result = _run_in(todo, work, how, str(folder))
        for name, target in todo.keep.items():
            # A sandbox makes the file before the program does.
            if (work / name).is_file() and (work / name).stat().st_size:
                shutil.copyfile(work / name, target)
    except OSError as error:
        raise _cannot(todo, error, str(folder)) from None
    else:
        return result
    finally:
        # Whatever interrupts this tool, and when: nothing may go on running.
        processes.kill_of(str(folder))
        shutil.rmtree(folder, ignore_errors=True)


def _cannot(todo: Task, error: OSError, folder: str) -> ToolchainError:
    # A full disk is no program's own trouble.
    kind = MachineError if error.errno in FULL else ToolchainError
    return kind(
        f"cannot run {Path(todo.words[0]).name}: {error.strerror or error}",
        path=error.filename or folder,
        fix="make room or mend its permissions, then run the same command",
    )


def _environment(home: Path, extra: Mapping[str, str]) -> dict[str, str]:
    allowed = {name: os.environ[name] for name in ALLOWED if name in os.environ}
    own = {"HOME": str(home), "TMPDIR": str(home)}
    return {**allowed, **FIXED, **own, **extra}


def _run_in(todo: Task, work: Path, how: Launch, mark: str) -> RunResult:
    started = time.perf_counter()
    try:
        process = subprocess.Popen(
            how.words, cwd=work, env=how.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
            pass_fds=how.handles,
        )  # fmt: skip
    finally:
        for handle in how.handles:
            os.close(handle)
    processes.no_core(process.pid)
    reader = pipes.Reader(process, started + todo.timeout, todo.max_bytes, how.memory)
    try:
        reader.read()
    finally:
        if process.poll() is None:
            pipes.kill_group(process)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
        left = processes.kill_of(mark)
    seconds = reader.ended - started
    problems = list(reader.problems)
    if (left or reader.held) and not (reader.timed_out or reader.stopped):
        count = max(len(left), 1)
        which = "a process" if count == 1 else f"{count} processes"
        held = " that held its output open" if reader.held else ""
        problems.append(f"left {which} running{held}")
    lines = {
        name: tuple(
            _neutral(line, how.paths) for line in terminal.lines(name, bytes(data), problems)
        )
        for name, data in reader.data.items()
    }
    status = process.returncode
    if how.wrapped:
        status = processes.unwrapped(status)
    died = status < 0 and not reader.timed_out and not reader.stopped
    return RunResult(
        exit_status=status if status >= 0 and not reader.timed_out else None,
        signal=processes.signal_name(-status) if died else None,
        timed_out=reader.timed_out,
        seconds=seconds,
        stdout=lines["stdout"],
        stderr=lines["stderr"],
        problems=tuple(problems),
    )


def _neutral(line: str, paths: Sequence[str]) -> str:
    for path in paths:
        line = line.replace(path, "<tmp>")
    return line
