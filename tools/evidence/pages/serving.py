"""What a server remembers from one build of the site to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evidence import key
from evidence.pages import banners
from evidence.pages.edits import Edits
from evidence.pages.indexed import KeptEntries
from evidence.pages.kept import KeptPages
from evidence.pages.memory import Memory
from evidence.pages.outputs import KeptOutputs
from evidence.pages.trace import KeptBound

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from evidence.project import Project
    from evidence.rerun import Rerunner
    from evidence.states import State

_FOLDER = ".evidence/serve"


class Serving:
    """One server: what the author edited, and what is recorded again because of it."""

    def __init__(self) -> None:
        self.edits = Edits()
        self.memory = Memory()
        self.kept = KeptPages()
        self.outputs = KeptOutputs()
        self.entries = KeptEntries()
        self.bound = KeptBound()
        self._rerunner: Rerunner | None = None
        self._keys: dict[str, str] | None = None  # of each program, when last looked at

    def rerun(self, found: Project) -> Path:
        """Record programs again that are edited from now on.

        Args:
            found: The project.

        Returns:
            A folder that changes when a page has to be built again.
        """
        folder = found.root / _FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        if self._rerunner is None:
            from evidence.rerun import Rerunner  # noqa: PLC0415 - a build records nothing

            self._rerunner = Rerunner(found.root, folder)
        return folder

    def look(self, states: Iterable[State], device: str) -> None:
        """Take in the state of all programs; start what has to be recorded.

        Args:
            states: Of every program and device.
            device: The device that prose binds to.
        """
        states = list(states)
        self.memory.turn()
        self.edits.look(states)
        primary = [state for state in states if state.device == device]
        keys = {s.program.name: key.key_of(s.inputs) for s in primary if s.inputs is not None}
        before, self._keys = self._keys, keys
        if self._rerunner is None:
            return
        for state in primary if before is not None else ():
            name = state.program.name
            if before is None or keys.get(name) == before.get(name):
                continue
            if name in keys and state.name in banners.OUTDATED:
                self._rerunner.want(name)
            else:  # the edit was taken back, or cannot be read
                self._rerunner.drop(name)
        self.edits.notes = self._rerunner.notes()
        self.edits.failures = self._rerunner.failures()

    def stop(self) -> None:
        """End what is running."""
        if self._rerunner is not None:
            self._rerunner.stop()
