"""The lock files: what the text of each section was last read against.

One file for each section, `reviewed/days/097-attention/the-code.json`, and in
it one line for each thing that the section stands on. Files, because two
branches that each review sections of one page then never change the same file
unless they review the same section.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from evidence import store
from evidence.errors import RecordError
from evidence.findings import Finding
from evidence.pages import grounds

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from evidence.pages.grounds import Key, State
    from evidence.project import Project

    States = dict[Key, State]

_SUFFIX = ".json"


@dataclass(slots=True)
class PageReviews:
    """What is kept about one page.

    Attributes:
        states: By section, what it was read against.
        broken: By section, the finding about its file that cannot be read.
    """

    states: dict[str, States] = field(default_factory=dict)
    broken: dict[str, Finding] = field(default_factory=dict)


class Reviews:
    """The lock files of a project, each read once.

    Args:
        project: The project.
    """

    def __init__(self, project: Project) -> None:
        self._project = project
        self._root = project.root / project.config.reviewed
        self._files: dict[str, dict[str, Path]] | None = None
        self._pages: dict[str, PageReviews] = {}

    @property
    def kept(self) -> bool:
        """Whether the project keeps reviews at all."""
        return bool(self._project.config.reviewed)

    def name(self, page: str) -> str | None:
        """Return what a page's files lie under, `days/097-attention`; None if it has none.

        Args:
            page: Its path relative to the project's root.
        """
        docs = f"{self._project.config.docs}/"
        if not self.kept or not page.startswith(docs) or not page.endswith(".md"):
            return None
        return page[len(docs) : -len(".md")]

    def page(self, name: str) -> PageReviews:
        """Return what is kept about a page."""
        if name not in self._pages:
            kept = self._pages[name] = PageReviews()
            for section, path in sorted(self._found().get(name, {}).items()):
                try:
                    kept.states[section] = _read(path, self._project.relative(path))
                except RecordError as error:
                    kept.broken[section] = Finding.of(error, "bad-review")
        return self._pages[name]

    def all(self) -> Iterator[tuple[str, str, str]]:
        """Yield page, section and path relative to the root of every file."""
        for name, sections in sorted(self._found().items()):
            for section, path in sorted(sections.items()):
                yield name, section, self._project.relative(path)

    def path(self, name: str, section: str) -> Path:
        """Return the file of a section."""
        return self._root / name / f"{section}{_SUFFIX}"

    def write(self, name: str, section: str, states: States) -> bool:
        """Write what a section was read against; return whether the file changed."""
        path, text = self.path(name, section), dump(states)
        try:
            if path.read_text(encoding="utf-8") == text:
                return False
        except (OSError, UnicodeDecodeError):
            pass  # there is none, or none that can be kept
        store.write(path, text)
        self._forget(name)
        return True

    def remove(self, name: str, section: str) -> None:
        """Remove the file of a section, and the folders that it leaves empty."""
        path = self.path(name, section)
        path.unlink(missing_ok=True)
        folder = path.parent
        while folder != self._root.parent and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
            folder = folder.parent
        self._forget(name)

    def _forget(self, name: str) -> None:
        self._files = None
        self._pages.pop(name, None)

    def _found(self) -> dict[str, dict[str, Path]]:
        """Return every lock file by page and section."""
        if self._files is None:
            self._files = {}
            for folder, _, names in os.walk(self._root) if self.kept else ():
                found = [name for name in names if name.endswith(_SUFFIX) and name[0] != "."]
                if found:
                    place = os.path.relpath(folder, self._root).replace(os.sep, "/")
                    at = self._root / place
                    self._files[place] = {name[: -len(_SUFFIX)]: at / name for name in found}
        return self._files


def dump(states: States) -> str:
    """Return the text of a lock file: sorted, one line for each state."""
    groups = []
    for kind in grounds.KINDS:
        rows = sorted((name, list(state)) for (k, name), state in states.items() if k == kind)
        lines = ",\n".join(f"  {_json(name)}: {_json(state)}" for name, state in rows)
        if lines:
            groups.append(f" {_json(kind)}: {{\n{lines}\n }}")
    return "{\n" + ",\n".join(groups) + "\n}\n"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _read(path: Path, shown: str) -> States:
    fix = f"take one side of a merge whole, or remove it and run: evidence reviewed {_hint(path)}"
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise RecordError(f"cannot be read: {error.strerror}", path=shown, fix=fix) from None
    except ValueError as error:
        line = getattr(error, "lineno", 1)
        raise RecordError("is not JSON", path=shown, line=line, fix=fix) from None
    found: States = {}
    if not _is_review(document):
        raise RecordError("is no review of a section", path=shown, fix=fix)
    for kind in grounds.KINDS:
        for name, state in document.get(kind, {}).items():
            if not grounds.fits(kind, state):
                raise RecordError(f"says nothing of {name}", path=shown, fix=fix)
            found[kind, name] = tuple(state)
    return found


def _is_review(document: object) -> bool:
    return (
        isinstance(document, dict)
        and document.keys() <= set(grounds.KINDS)
        and all(isinstance(states, dict) for states in document.values())
    )


def _hint(path: Path) -> str:
    return f"{path.parent.name}#{path.stem}"
