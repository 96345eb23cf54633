"""Which pages a build of the site works from, looked up once a build."""

from __future__ import annotations

import os
import re
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evidence import config, project
from evidence.errors import EvidenceError
from evidence.pages import binder, front, lines
from evidence.pages.bindings import Pages
from evidence.pages.library import Library
from evidence.pages.pagetext import PageText

if TYPE_CHECKING:
    from evidence.pages.host import Host
    from evidence.pages.shown import Bound

_BLANK = re.compile(r"^ +$", re.MULTILINE)
_UNKNOWN_PAGE = "page.md"


def bound(pages: Pages, text: str, path: Path | None) -> Bound:
    """Return the page looked up, from its file if the host left its text alone."""
    if path is None:
        return binder.bind(pages.library, PageText(_UNKNOWN_PAGE, text))
    file = Path(os.path.abspath(path))  # noqa: PTH100
    try:
        bound = pages.bound(file)
    except EvidenceError:
        return binder.bind(pages.library, PageText(pages.library.project.relative(file), text))
    if _plain(bound.page.scan.text) in (_plain(text), _plain(front.split(text)[1])):
        return bound
    page = PageText(bound.page.path, text, bound.page)
    return binder.bind(pages.library, page)


def _plain(text: str) -> str:
    """Return a text without what Python-Markdown drops before it looks at it."""
    return _BLANK.sub("", lines.normalise(text)).strip("\n")


# The pages of one build of the site. A host without builds gets fresh ones
# whenever a file of the project has changed.
_BY_BUILD: weakref.WeakKeyDictionary[Any, dict[Path, Pages]] = weakref.WeakKeyDictionary()
_BY_STAMP: dict[Path, tuple[object, Pages]] = {}


def share(build: Any, pages: Pages) -> None:
    """Let a build use pages that are looked up already."""
    root = pages.library.project.root
    _BY_BUILD.setdefault(build, {})[root] = pages


def pages_for(host: Host, folder: Path) -> Pages:
    """Return the pages of the project around a folder, looked up once a build.

    Raises:
        ConfigError: There is no project around the folder.
    """
    if host.build is not None:
        known = _BY_BUILD.setdefault(host.build, {})
        near = next((known[f] for f in (folder, *folder.parents) if f in known), None)
        if near is None:
            near = Pages(Library(project.load(folder)))
            known[near.library.project.root] = near
        return near
    settings = config.load(folder)
    stamp = _stamp(settings)
    if _BY_STAMP.get(settings.root, (None,))[0] != stamp:
        _BY_STAMP[settings.root] = (stamp, Pages(Library(project.read(settings))))
    return _BY_STAMP[settings.root][1]


def _stamp(settings: config.Config) -> object:
    """Return what changes whenever a file of the project does."""
    names = (*settings.roots, settings.docs, settings.reviewed)
    tops = [settings.root / name for name in names if name]
    files = [path for top in tops for path in top.rglob("*") if path.is_file()]
    stats = sorted((str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in files)
    return (settings, tuple(stats))
