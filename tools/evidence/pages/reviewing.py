"""Noting that sections were read: what `evidence reviewed` does."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evidence.errors import ConfigError, EvidenceError
from evidence.pages import reread

if TYPE_CHECKING:
    from collections.abc import Iterable

    from evidence.pages.bindings import Pages
    from evidence.pages.reread import Judged
    from evidence.pages.reviews import Reviews
    from evidence.pages.shown import Bound


@dataclass(frozen=True, slots=True)
class Page:
    """A page that can be marked.

    Attributes:
        name: What its lock files lie under.
        bound: The page, looked up.
        reviews: All that is kept.
    """

    name: str
    bound: Bound
    reviews: Reviews

    @property
    def sections(self) -> set[str]:
        """Return the sections that stand on something."""
        return {section.name for section in self.bound.sections}

    @property
    def doubtful(self) -> set[str]:
        """Return the sections that show something which cannot be looked up."""
        return {section.name for section in self.bound.sections if section.doubtful}

    def judged(self) -> list[Judged]:
        """Return its sections compared with what they were last read against."""
        return reread.judge(self.reviews.page(self.name), self.bound.sections)


class Reviewing:
    """The pages of a project, to be marked as read.

    Args:
        pages: The pages.

    Raises:
        ConfigError: The project keeps no reviews.
    """

    def __init__(self, pages: Pages) -> None:
        self._reviews = pages.library.reviews
        if not self._reviews.kept:
            raise ConfigError(
                "this project keeps no reviews: `reviewed` is empty",
                path="pyproject.toml",
                fix='set reviewed = "reviewed" in [tool.evidence]',
            )
        self._root = pages.library.project
        self._unreadable: set[str] = set()
        self._pages: dict[str, Page] = {}
        for path in pages.library.pages():
            name = self._reviews.name(self._root.relative(path)) or ""
            try:
                self._pages[name] = Page(name, pages.bound(path), self._reviews)
            except EvidenceError:
                self._unreadable.add(name)  # `check` says why

    def everything(self) -> list[tuple[Page, set[str]]]:
        """Return every page with all of its sections."""
        return [(page, page.sections) for page in self._pages.values()]

    def choose(self, wanted: Iterable[str]) -> list[tuple[Page, set[str]]]:
        """Return the pages and sections that arguments of the command mean.

        Raises:
            EvidenceError: There is no such page or section.
        """
        chosen: dict[str, set[str]] = {}
        for text in wanted:
            title, mark, section = text.partition("#")
            page = self._find(title)
            names = {section} if mark else page.sections
            for name in names - page.sections:
                raise _unknown(f"section `{name}` that stands on something", name, page.sections)
            chosen.setdefault(page.name, set()).update(names)
        return [(self._pages[name], names) for name, names in chosen.items()]

    def _find(self, title: str) -> Page:
        plain = title.replace("\\", "/").removeprefix("./").removesuffix(".md")
        plain = plain.removeprefix(f"{self._root.config.docs}/")
        found = [p for n, p in self._pages.items() if plain in (n, n.rpartition("/")[2])]
        # Of pages with one name, that of a source stands on nothing.
        fitting = [p for p in found if p.name == plain] or [p for p in found if p.sections]
        if len(fitting or found) == 1:
            return (fitting or found)[0]
        if found:
            several = ", ".join(page.name for page in found)
            raise EvidenceError(f"{title!r} stands for several pages: {several}", fix="name one")
        known = {part for n in self._pages for part in (n, n.rpartition("/")[2])}
        raise _unknown(f"page {title!r}", plain, known)

    def mark(self, page: Page, names: set[str]) -> list[Judged]:
        """Note that sections were read; return those that had to be."""
        return reread.mark(self._reviews, page.name, page.bound.sections, names)

    def settle(self, page: Page) -> None:
        """Move what is kept under a section's old name, without anybody reading."""
        kept = self._reviews.page(page.name)
        self.mark(page, reread.settled(kept, page.bound.sections))

    def prune(self) -> None:
        """Remove what is kept of pages that are gone."""
        for name, section, _ in list(self._reviews.all()):
            if name not in self._pages and name not in self._unreadable:
                self._reviews.remove(name, section)


def _unknown(what: str, name: str, known: Iterable[str]) -> EvidenceError:
    close = difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.4)
    hint = f"; close: {', '.join(close)}" if close else ""
    return EvidenceError(f"there is no {what}{hint}", fix="list them with: evidence reviewed")
