"""Several GPUs side by side: one program on each at a time."""

from __future__ import annotations

import contextlib
import os
import queue
import tempfile
import threading
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from evidence import processes, runner
from evidence.errors import EvidenceError, MachineError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from evidence.machine import Machine
    from evidence.model import Program
    from evidence.runner import RunResult, Task

T = TypeVar("T")
_AGAIN = 0.1  # seconds between looks at what is still running


def each(
    programs: Sequence[Program],
    machines: Sequence[Machine],
    make: Callable[[Program, Machine], T],
) -> Generator[tuple[Program, T | EvidenceError], None, None]:
    """Yield what was made of each program, or why nothing was, as they come to an end.

    With one machine everything happens in the caller's thread, with several in one
    thread for each. What is yielded is dealt with before the next is yielded.

    Args:
        programs: Programs, the first to begin with first.
        machines: One for each GPU.
        make: Makes a record on a machine.

    Raises:
        MachineError: A machine cannot go on; what the others had begun was yielded.
    """
    if len(machines) > 1:
        yield from _Lanes(programs, machines, make).run()
        return
    for program in programs:
        try:
            made: T | EvidenceError = make(program, machines[0])
        except MachineError:
            raise
        except EvidenceError as error:
            made = error
        yield program, made


class _Lanes:
    """A queue of programs, and a thread for each machine that takes from it."""

    def __init__(
        self,
        programs: Sequence[Program],
        machines: Sequence[Machine],
        make: Callable[[Program, Machine], T],
    ) -> None:
        self.waiting = deque(programs)
        self.make = make
        self.done: queue.SimpleQueue[tuple[Program, T | BaseException] | None] = queue.SimpleQueue()
        self.ended = threading.Event()
        self.threads = [
            threading.Thread(target=self._lane, args=(self._guarded(machine),), daemon=True)
            for machine in machines
        ]

    def run(self) -> Generator[tuple[Program, T | EvidenceError], None, None]:
        for thread in self.threads:
            thread.start()
        fatal: BaseException | None = None
        left = len(self.threads)
        try:
            while left:
                got = self.done.get()
                if got is None:
                    left -= 1
                    continue
                program, made = got
                if isinstance(made, BaseException) and not _of_one(made):
                    fatal = fatal or made
                    continue
                yield program, made  # type: ignore[misc]
        finally:
            self._end()
        if fatal is not None:
            raise fatal

    def _guarded(self, machine: Machine) -> Machine:
        def run(todo: Task) -> RunResult:
            if self.ended.is_set():
                raise MachineError("the recording was stopped")
            return machine.run(todo)

        return replace(machine, run=run)

    def _lane(self, machine: Machine) -> None:
        with contextlib.suppress(IndexError):
            while not self.ended.is_set():
                program = self.waiting.popleft()
                try:
                    self.done.put((program, self.make(program, machine)))
                except BaseException as error:  # noqa: BLE001 - raised where it can be caught
                    if not _of_one(error):
                        # The others finish what they have begun; nobody begins anew.
                        self.waiting.clear()
                    self.done.put((program, error))
        self.done.put(None)

    def _end(self) -> None:
        """Let nothing go on running, whatever the reason."""
        self.ended.set()
        self.waiting.clear()
        folders = Path(tempfile.gettempdir())
        for thread in self.threads:
            while thread.is_alive():
                for folder in folders.glob(f"{runner.folder_prefix()}*"):
                    processes.kill_of(os.path.realpath(folder))
                thread.join(_AGAIN)


def _of_one(error: BaseException) -> bool:
    """Whether an error is of its program alone."""
    return isinstance(error, EvidenceError) and not isinstance(error, MachineError)
