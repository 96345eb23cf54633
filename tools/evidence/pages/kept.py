"""Rendered pages that a server keeps from one build of the site to the next.

The host builds every page again whenever a file changes. Here a page is
rendered again only if something that it was made from is not the same.
"""

from __future__ import annotations

import copy
import logging
import pickle
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evidence.pages.guard import HOSTS

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

    from evidence.pages.bindings import Pages
    from evidence.pages.trace import Trace

# Extensions that make a page of its text alone; any other may read files.
_PURE = ("evidence", "abbr", "admonition", "attr_list", "codehilite", "def_list", "extra",
         "fenced_code", "footnotes", "legacy_attrs", "legacy_em", "md_in_html", "meta", "nl2br",
         "sane_lists", "smarty", "tables", "toc", "wikilinks")  # fmt: skip
_IMPURE = ("pymdownx.snippets", "pymdownx.b64")
_INHERIT = re.compile(rb"^INHERIT:[ \t]*['\"]?([^'\"\n]+?)['\"]?[ \t]*$", re.MULTILINE)
_DEEPEST = 10
_BROKEN = ('class="ev-banner', 'class="ev-error')


@dataclass(slots=True)
class _Kept:
    """A rendered page, and what it was made from."""

    markdown: str
    meta: Any
    trace: Trace
    attributes: dict[str, Any]
    links: dict[str, dict[str, str]] | None  # by the file that they lead to


class KeptPages:
    """The rendered pages of one server."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}
        self._around: object = None
        self._pages: Pages | None = None
        self.rendered: list[str] = []  # in this build

    def begin(self, pages: Pages | None, config: MkDocsConfig, files: Files) -> None:
        """Begin a build.

        Args:
            pages: What pages are made from; None if that is broken.
            config: The host's configuration.
            files: All files of the site: what links may lead to.
        """
        around = (
            configured(config),
            list(config.markdown_extensions),
            [(f.src_uri, f.url, f.inclusion) for f in files],
            [(name, _stamp(Path(config.config_file_path).parent / name)) for name in config.hooks],
        )
        if around != self._around or not all(map(_pure, config.markdown_extensions)):
            self._kept.clear()
        self._around = around
        self._pages = pages
        self.rendered = []
        if pages is not None:
            pages.traces = {}

    def render(self, page: Page, config: MkDocsConfig, files: Files) -> None:
        """Render a page, or put back what it was rendered to."""
        name = page.file.src_uri
        kept = self._kept.pop(name, None)
        if self._pages is None:
            type(page).render(page, config, files)
            return
        if (
            kept is not None
            and (kept.markdown, kept.meta) == (page.markdown, page.meta)
            and kept.trace.holds(self._pages)
        ):
            self._kept[name] = kept
            _put_back(kept, page, files)
            return
        self.rendered.append(name)
        markdown, meta, heard = page.markdown or "", copy.deepcopy(page.meta), _Heard()
        with heard:
            type(page).render(page, config, files)
        content = page.content or ""
        trace = (self._pages.traces or {}).get(Path(page.file.abs_src_path or ""))
        # What was said about a page has to be said in every build.
        if trace is None or heard.count or any(text in content for text in _BROKEN):
            return
        attributes = {name: getattr(page, name, None) for name in _MADE}
        links = page.links_to_anchors
        self._kept[name] = _Kept(
            markdown, meta, trace, _copied(attributes),
            None if links is None else {f.src_uri: dict(found) for f, found in links.items()},
        )  # fmt: skip


_MADE = ("content", "toc", "_title_from_render", "present_anchor_ids")
"""What rendering gives a page, besides its links."""


def configured(config: MkDocsConfig) -> list[bytes]:
    """Return the files that configure the site: its own, and those that this inherits from."""
    path, texts = Path(config.config_file_path), []
    while path.is_file():
        texts.append(path.read_bytes())
        parent = _INHERIT.search(texts[-1])
        if parent is None or len(texts) > _DEEPEST:
            break
        path = path.parent / parent[1].decode()
    return texts


def _again(value: Any) -> Any:
    """Return a deep copy, in a third of the time that `copy.deepcopy` takes."""
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - of our own making


def _copied(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return what a plugin may change without changing what is kept."""
    anchors = attributes["present_anchor_ids"]
    own = {"toc": _again(attributes["toc"]), "present_anchor_ids": set(anchors or ())}
    return attributes | own


def _put_back(kept: _Kept, page: Page, files: Files) -> None:
    for name, value in _copied(kept.attributes).items():
        setattr(page, name, value)
    if kept.links is not None:
        found = {files.get_file_from_path(uri): links for uri, links in kept.links.items()}
        page.links_to_anchors = {file: dict(links) for file, links in found.items() if file}


def _pure(extension: object) -> bool:
    name = str(extension)
    plain = name.removeprefix("markdown.extensions.").partition(":")[0]
    return plain in _PURE or (name.startswith("pymdownx.") and name not in _IMPURE)


def _stamp(path: Path) -> object:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


class _Heard(logging.Handler):
    """Counts the warnings that are given while it listens."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Count one."""
        self.count += record.levelno >= logging.INFO

    def __enter__(self) -> None:
        for name in HOSTS:
            logging.getLogger(name).addHandler(self)

    def __exit__(self, *_: object) -> None:
        for name in HOSTS:
            logging.getLogger(name).removeHandler(self)
