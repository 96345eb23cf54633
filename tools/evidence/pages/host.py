"""Which page is being rendered, asked of whatever renders it.

MkDocs and ProperDocs hand the page's file to a tree processor, Zensical hands
its path to a preprocessor, and plain Python-Markdown knows nothing, so there
the extension's option `page` says it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from markdown import Markdown


@dataclass(frozen=True, slots=True)
class Host:
    """The page that is being rendered.

    Attributes:
        path: Its file; None if nobody knows.
        build: An object that lives as long as one build of the site; None if
            the host has none.
        anchors: Where the host collects the anchors of the page, if it checks links.
        resolve: Turns a link to a Markdown file into one to its page.
    """

    path: Path | None
    build: Any = None
    anchors: set[str] | None = None
    resolve: Callable[[str], str] | None = None

    def link(self, target: str) -> str:
        """Return a link to another page as a reader's browser needs it.

        Hosts rewrite links between Markdown files, but not those in finished HTML.
        """
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
    return Host(Path(path), getattr(processor, "files", None), anchors, resolve)


def _zensical(md: Markdown) -> Host | None:
    if "rendering_context" not in md.preprocessors:
        return None
    context: Any = md.preprocessors["rendering_context"]
    path = getattr(getattr(context, "page", None), "path", None)
    if path is None:
        return None
    docs = dict(getattr(context, "config", None) or {}).get("docs_dir", "docs")
    return Host(Path(path) if Path(path).is_file() else Path(docs) / path)
