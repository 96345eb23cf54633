"""Which page is being rendered, asked of whatever renders it.

MkDocs and ProperDocs hand the page's file to a tree processor, Zensical hands
its path to a preprocessor, and plain Python-Markdown knows nothing, so there
the extension's option `page` says it.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evidence.pages.hosted import Repository

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from markdown import Markdown


@dataclass(frozen=True, slots=True)
class Watched:
    """What a host looks at to see whether the page it has kept is still good.

    Attributes:
        file: The site's configuration.
        entries: What it says under `watch`.
    """

    file: Path
    entries: tuple[str, ...]

    def covers(self, path: Path) -> bool:
        """Whether a change of a file, or in a folder, is noticed."""
        tops = [(self.file.parent / entry).resolve() for entry in self.entries]
        return any(path.resolve().is_relative_to(top) for top in tops)


@dataclass(frozen=True, slots=True)
class Host:
    """The page that is being rendered.

    Attributes:
        path: Its file; None if nobody knows.
        build: An object that lives as long as one build of the site; None if
            the host has none.
        anchors: Where the host collects the anchors of the page, if it checks links.
        resolve: Turns a link to a Markdown file into one to its page.
        rewrites: Whether it does so itself with every link of the finished HTML.
        watched: When it renders a page again; None if it always does.
        repository: Where the site says that its sources are.
    """

    path: Path | None
    build: Any = None
    anchors: set[str] | None = None
    resolve: Callable[[str], str] | None = None
    rewrites: bool = False
    watched: Watched | None = None
    repository: Repository = field(default_factory=Repository)

    def link(self, target: str) -> str:
        """Return a link to another page, to be put into finished HTML.

        MkDocs rewrites links between Markdown files, but not those; Zensical does.
        """
        return target if self.rewrites else self.address(target)

    def address(self, target: str) -> str:
        """Return a link to another page as a reader's browser needs it."""
        return target if self.resolve is None else self.resolve(target)

    def has(self, path: str) -> bool:
        """Whether the site has a file of this path, relative to the docs."""
        find = getattr(self.build, "get_file_from_path", None)
        return find is not None and find(path) is not None

    def announce(self, anchors: Iterable[str]) -> None:
        """Tell the host about anchors that it cannot see in the tree."""
        if self.anchors is not None:
            self.anchors.update(anchors)


def of(md: Markdown, option: str) -> Host:
    """Find out which page is being rendered.

    Args:
        md: The instance that renders it.
        option: The extension's option `page`, which goes before all else.
    """
    if option:
        return Host(Path(option))
    return _mkdocs(md) or _zensical(md) or Host(None)


def _mkdocs(md: Markdown) -> Host | None:
    if "relpath" not in md.treeprocessors:
        return None
    processor: Any = md.treeprocessors["relpath"]
    file = getattr(processor, "file", None)
    path = getattr(file, "abs_src_path", None)
    if path is None:
        return None
    # ProperDocs registers it under another name than MkDocs.
    collecting = [getattr(p, "present_anchor_ids", None) for p in md.treeprocessors]
    anchors = next((found for found in collecting if found is not None), None)
    resolve = getattr(processor, "path_to_url", None)
    settings: Any = getattr(processor, "config", None) or {}
    return Host(
        Path(path), getattr(processor, "files", None), anchors, resolve,
        repository=_repository(settings),
    )  # fmt: skip


def _zensical(md: Markdown) -> Host | None:
    if "rendering_context" not in md.preprocessors:
        return None
    context: Any = md.preprocessors["rendering_context"]
    path = getattr(getattr(context, "page", None), "path", None)
    if path is None:
        return None
    settings = dict(getattr(context, "config", None) or {})
    root = Path(settings.get("root_dir", ""))
    docs = root / settings.get("docs_dir", "docs")
    files = [root / name for name in ("zensical.toml", "mkdocs.yml", "mkdocs.yaml")]
    file = next((file for file in files if file.is_file()), files[0])
    return Host(
        Path(path) if Path(path).is_file() else docs / path,
        resolve=Resolver(str(path), bool(settings.get("use_directory_urls", True))),
        rewrites=True,
        watched=Watched(file, tuple(settings.get("watch") or ())),
        repository=_repository(settings),
    )


def _repository(settings: Any) -> Repository:
    said = {name: str(settings.get(name) or "") for name in ("repo_url", "edit_uri", "docs_dir")}
    return Repository(said["repo_url"], said["edit_uri"], Path(said["docs_dir"] or "docs").name)


@dataclass(frozen=True, slots=True)
class Resolver:
    """Turns links of a page to Markdown files into links to pages.

    Attributes:
        page: The page's file, relative to the docs.
        folders: Whether a page's address is that of a folder.
    """

    page: str
    folders: bool

    def __call__(self, target: str) -> str:
        """Return a link as a reader's browser needs it."""
        file, hash_, anchor = target.partition("#")
        if not file.endswith(".md"):
            return target
        to = posixpath.normpath(posixpath.join(posixpath.dirname(self.page), file))
        here = posixpath.dirname(self._address(self.page))
        relative = posixpath.relpath(self._address(to), here or ".")
        if self.folders:
            relative = posixpath.join(posixpath.dirname(relative), "") or "./"
        return f"{relative}{hash_}{anchor}"

    def _address(self, file: str) -> str:
        """Return a page's file in the site; that of a folder's page is its index."""
        stem = file.removesuffix(".md")
        folder, name = posixpath.split(stem)
        if name in ("index", "README"):
            return posixpath.join(folder, "index.html")
        return posixpath.join(stem, "index.html") if self.folders else f"{stem}.html"
