"""A copy of what recording needs: a job that waits in a queue must not see later edits.

The copy is refreshed in place, so that what an interrupted job left in it (compiled
programs, finished records) is still there for the next.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from evidence import config

if TYPE_CHECKING:
    from pathlib import Path

    from evidence.project import Project


def refresh(project: Project, folder: Path) -> None:
    """Make a folder a copy of the project's programs, their evidence and its configuration.

    Files that are alike are left alone, those that are gone are removed; times go
    along, so that nothing is compiled again that need not be.

    Args:
        project: The project.
        folder: The copy; made if it is not there.

    Raises:
        OSError: Something cannot be read or written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy2(project.root / config.FILE, folder / config.FILE)
    for root in project.config.roots:
        source, target = project.root / root, folder / root
        if source.is_dir():
            _mirror(source, target)
        elif target.is_dir():
            shutil.rmtree(target)


def _mirror(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    names = {path.name for path in source.iterdir()}
    for old in target.iterdir():
        kind_changed = old.is_dir() and not (source / old.name).is_dir()
        if old.name in names and not kind_changed:
            continue
        if old.is_dir() and not old.is_symlink():
            shutil.rmtree(old)
        else:
            old.unlink()
    for path in source.iterdir():
        copy = target / path.name
        if path.is_dir():
            if copy.exists() and not copy.is_dir():
                copy.unlink()
            _mirror(path, copy)
        elif not _alike(path, copy):
            shutil.copy2(path, copy)


def _alike(path: Path, copy: Path) -> bool:
    if not copy.is_file():
        return False
    old, new = copy.stat(), path.stat()
    return (old.st_size, old.st_mtime_ns) == (new.st_size, new.st_mtime_ns)
