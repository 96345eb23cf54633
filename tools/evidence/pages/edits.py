"""What an author has edited while the server ran: the lines, not only the files."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from evidence import key, lexing
from evidence.errors import SourceError
from evidence.key import Change
from evidence.pages import banners

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from evidence.model import Language
    from evidence.states import State

_CODE = "code of "


class Edits:
    """Remembers every source as it was when its evidence was fresh."""

    def __init__(self) -> None:
        self._texts: dict[tuple[Path, str], str] = {}  # by file and hash of its code
        self._raw: dict[Path, str] = {}
        self.notes: dict[str, str] = {}  # what is being done, by program
        self.failures: dict[str, str] = {}  # why nothing could be, by program

    def look(self, states: Iterable[State]) -> None:
        """Take in the sources of all programs whose evidence belongs to them."""
        for state in states:
            if state.record is None or state.inputs is None or state.name == banners.STALE:
                continue
            for name, hashes in state.inputs.files.items():
                path = state.program.directory / name
                if self._raw.get(path) == hashes.raw:
                    continue
                try:
                    _, text = key.read_text(path, name)
                except SourceError:
                    continue  # gone since it was hashed: the next look will say so
                self._raw[path] = hashes.raw
                self._texts[path, hashes.code] = text

    def changes(self, state: State) -> list[Change]:
        """Return what differs between a record and its program, line by line where it was seen."""
        found: list[Change] = []
        for change in banners.changes(state):
            exact = list(self._lines(state, change))
            found += exact or [change]
        return found

    def note(self, program: str) -> str:
        """Return what is being done about a program's evidence; empty for nothing."""
        return self.notes.get(program, "")

    def failure(self, state: State) -> str:
        """Return why a program could not be recorded again; empty for nothing."""
        reason = self.failures.get(state.program.name)
        if reason is None or state.name not in banners.OUTDATED:
            return ""
        return f"{state.program.relative}:1: could not be recorded again: {reason}"

    def _lines(self, state: State, change: Change) -> Iterator[Change]:
        name = change.what.removeprefix(_CODE)
        if name == change.what or state.record is None:
            return
        path = state.program.directory / name
        recorded = state.record.data["inputs"]["files"].get(name, {}).get("code", "")
        before = self._texts.get((path, recorded))
        if before is None:
            return
        try:
            _, after = key.read_text(path, name)
        except SourceError:
            return
        yield from lines(change.what, before, after, state.program.language)


def lines(what: str, before: str, after: str, language: Language) -> Iterator[Change]:
    """Yield the lines of code that differ between two versions of a file.

    Args:
        what: What the file is called.
        before: Its older version.
        after: Its newer version.
        language: What it is written in.
    """
    old, new = before.split("\n"), after.split("\n")
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        was, now = "\n".join(old[i1:i2]), "\n".join(new[j1:j2])
        if tag == "equal" or lexing.code_text(was, language) == lexing.code_text(now, language):
            continue  # comments and layout are no change of the code
        yield Change(f"{what}, line {j1 + 1}", _first(was), _first(now))


def _first(text: str) -> str:
    stated = [line.strip() for line in text.split("\n") if line.strip()]
    more = f" (and {len(stated) - 1} more)" if len(stated) > 1 else ""
    return f"{stated[0]}{more}" if stated else ""
