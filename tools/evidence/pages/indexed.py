"""What the site's search keeps of a page, kept from one build to the next.

A search plugin parses every page, element by element, in every build. It
reads a page through one method of its index; a page that it has read before
adds the entries that it added then.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from evidence.pages.outputs import entry

if TYPE_CHECKING:
    from collections.abc import Iterable


class KeptEntries:
    """The search entries of one server's pages."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[object, list[Any]]] = {}
        self.read: list[str] = []  # in this build

    def begin(self, plugins: Iterable[Any]) -> None:
        """Begin a build: have the index of the search plugin, if there is one, ask here first."""
        self.read = []
        for plugin in plugins:
            index = getattr(plugin, "search_index", None)
            # Of Material and of MkDocs itself; another one reads its pages as ever.
            entries = getattr(index, "entries", None) or getattr(index, "_entries", [])
            if entries == [] and hasattr(index, "add_entry_from_context"):
                self._ask_here(index)

    def _ask_here(self, index: Any) -> None:
        read = index.add_entry_from_context

        def add(page: Any) -> None:
            entries = index.entries if hasattr(index, "entries") else index._entries  # noqa: SLF001
            facts = (
                page.content,
                page.url,
                str(page.title),
                page.meta,
                [entry(i) for i in page.toc],
            )
            kept = self._kept.get(page.file.src_uri)
            if kept is None or kept[0] != facts:
                self.read.append(page.file.src_uri)
                count = len(entries)
                read(page)
                self._kept[page.file.src_uri] = (facts, copy.deepcopy(entries[count:]))
            else:
                entries.extend(copy.deepcopy(kept[1]))

        index.add_entry_from_context = add
