"""Saying what is going on: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Reporter(Protocol):
    """Whoever is told what is going on."""

    def begin(self, what: str, total: int) -> None:
        """Begin a phase of `total` parts."""

    def part(self, done: int, total: int, what: str) -> None:
        """Say that `done` parts of the phase are over, and what is now."""

    def say(self, text: str) -> None:
        """Say something that stays on the screen."""

    def end(self) -> None:
        """End the phase."""


class Lines:
    """Plain lines, for logs: one for each program, none for each step.

    Args:
        err: Whether they go to standard error.
    """

    def __init__(self, *, err: bool = False) -> None:
        self._err = err
        self._last = -1

    def begin(self, what: str, total: int) -> None:
        """Begin a phase."""
        self._last = -1
        self.say(f"{what}: {total}")

    def part(self, done: int, total: int, what: str) -> None:
        """Say a line when another part has been done."""
        if done != self._last:
            self._last = done
            self.say(f"[{done}/{total}] {what}")

    def say(self, text: str) -> None:
        """Say a line."""
        stream = sys.stderr if self._err else sys.stdout
        stream.write(f"{text}\n")
        stream.flush()

    def end(self) -> None:
        """End the phase; nothing to clear away."""


class Bars:
    """A bar that is gone when its phase is over.

    Args:
        err: Whether it goes to standard error.
    """

    def __init__(self, *, err: bool = False) -> None:
        from rich.console import Console  # noqa: PLC0415 - only where there is a terminal

        self._console = Console(highlight=False, stderr=err)
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def begin(self, what: str, total: int) -> None:
        """Show a bar."""
        from rich.progress import (  # noqa: PLC0415
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )

        self.end()
        columns = (
            TextColumn("{task.fields[phase]}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}", markup=False),
        )
        self._progress = Progress(*columns, console=self._console, transient=True)
        self._progress.start()
        self._task = self._progress.add_task("", total=total, phase=what)

    def part(self, done: int, total: int, what: str) -> None:
        """Move the bar."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done, total=total, description=what)

    def say(self, text: str) -> None:
        """Say a line above the bar."""
        self._console.print(text, markup=False, soft_wrap=True)

    def end(self) -> None:
        """Take the bar away."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


def reporter(*, err: bool = False) -> Reporter:
    """Return the reporter that fits where the output goes."""
    stream = sys.stderr if err else sys.stdout
    return Bars(err=err) if stream.isatty() else Lines(err=err)
