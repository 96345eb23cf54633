"""Refusing a host that would keep pages after what they show has changed.

Zensical renders a page again only when its own text or a file under `watch`
has changed. A page also shows programs, their evidence and numbers of other
pages, so all of these have to be watched, or a page could outlive its program.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from evidence import config
from evidence.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from evidence.pages.host import Watched


def require(watched: Watched | None, settings: config.Config) -> None:
    """Refuse to render pages that the host would keep too long.

    Args:
        watched: When the host renders a page again; None if it always does.
        settings: Of the project.

    Raises:
        ConfigError: Something that pages are made of is not watched.
    """
    if watched is None:
        return
    unwatched = [path for path in _due(settings) if not watched.covers(path)]
    if not unwatched:
        return
    file = watched.file.resolve()
    names = [path.relative_to(settings.root).as_posix() for path in unwatched]
    line = f"watch{' =' if file.suffix == '.toml' else ':'} {_list((*watched.entries, *names))}"
    raise ConfigError(
        "Zensical keeps a page until its own text or something under `watch` changes, and pages "
        f"are made of {', '.join(names)} too",
        path=file.relative_to(settings.root) if file.is_relative_to(settings.root) else file,
        line=_line(file),
        fix=f"write: {line}",
    )


def _due(settings: config.Config) -> list[Path]:
    """Return everything that pages are made of, as far as it is there."""
    names = (*settings.roots, settings.reviewed, settings.docs, config.FILE)
    paths = [settings.root / name for name in names if name]
    return [path for path in paths if path.exists()]


def _list(names: Iterable[str]) -> str:
    """Return a list as both YAML and TOML read it."""
    return json.dumps(list(names), ensure_ascii=False)


def _line(file: Path) -> int:
    """Return the line of `watch`; the first if there is none."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return next((n for n, text in enumerate(lines, 1) if text.startswith("watch")), 1)
