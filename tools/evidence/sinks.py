"""Where finished records go: into the tree, into a bundle, or only to who asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from evidence import bundle, filing, store
from evidence.staging import Staging

if TYPE_CHECKING:
    from pathlib import Path

    from evidence.model import Program
    from evidence.project import Project
    from evidence.shards import Part

STAGING = ".evidence/staging"


class Sink(Protocol):
    """Takes finished records.

    Attributes:
        staging: Keeps them until the recording is over.
        written: Files that were written.
    """

    staging: Staging
    written: list[str]

    def keep(self, program: Program, data: dict[str, Any]) -> list[str]:
        """Take a record; return what became of it, first on the program's own line."""

    def close(self) -> list[str]:
        """Write what is written at the end; return what to say about it."""


class Tree:
    """Each record beside its program, as soon as it is there."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.staging = Staging(project.root / STAGING)
        self.written: list[str] = []

    def keep(self, program: Program, data: dict[str, Any]) -> list[str]:
        """Store a record."""
        filed = filing.file(self.project, program, data)
        if filed.written:
            self.written.append(filed.path)
        return [filed.explain(), *(f"  drift: {change}" for change in filed.drift)]

    def close(self) -> list[str]:
        """Everything is written already."""
        return []


class Bundle:
    """All records in one file, which is written at the end.

    Args:
        target: The file; its records lie in a folder beside it until it is whole.
        part: Which shard of a recording it is, if of one.
    """

    def __init__(self, target: Path, part: Part | None = None) -> None:
        self.target = target
        self.part = part
        self.staging = Staging(partial_of(target))
        self.records: list[tuple[str, str, str]] = []
        self.written: list[str] = []

    def keep(self, program: Program, data: dict[str, Any]) -> list[str]:
        """Put a record by."""
        self.records.append((program.name, data["device"]["label"], store.dump(data)))
        return []

    def close(self) -> list[str]:
        """Write the file."""
        # That a shard came out empty is told by its bundle.
        if not self.records and self.part is None:
            return []
        bundle.write(self.target, bundle.pack(self.records, self.part))
        self.written.append(str(self.target))
        return [f"wrote {self.target} ({len(self.records)} records)"]


class Kept:
    """Records that are looked at and stored nowhere."""

    def __init__(self) -> None:
        self.staging = Staging(None)
        self.records: dict[str, dict[str, Any]] = {}
        self.written: list[str] = []

    def keep(self, program: Program, data: dict[str, Any]) -> list[str]:
        """Remember a record."""
        self.records[program.name] = data
        return []

    def close(self) -> list[str]:
        """Nothing is written."""
        return []


def partial_of(target: Path) -> Path:
    """Return the folder beside a bundle that holds its records until it is whole."""
    return target.with_name(target.name + ".partial")
