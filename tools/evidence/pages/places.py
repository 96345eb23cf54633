"""Places: which values of a record carry an anchor, and whether they have got it.

A page's numbers lead into the recorded output. Only a value that some page
has a name for needs a place there; a record has hundreds more.
"""

from __future__ import annotations

import contextlib
from html import escape
from typing import TYPE_CHECKING

from evidence import addresses
from evidence.errors import EvidenceError
from evidence.pages import diffs, entries, ids
from evidence.pages.directives import Block
from evidence.pages.names import Names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from evidence.model import Program
    from evidence.pages.library import Library
    from evidence.pages.pagetext import PageText
    from evidence.values import Value


class Places:
    """Hands out the anchors of one shown record, each of them once.

    Args:
        program: The program whose record it is.
        wanted: Addresses of the values that need a place.
    """

    def __init__(self, program: Program, wanted: Collection[str]) -> None:
        self._program = program.name
        self.left = dict.fromkeys(sorted(wanted))

    def take(self, address: str) -> str:
        """Return the attribute that makes an element the place of a value.

        Empty for a value that needs none, or has one already.
        """
        if address not in self.left:
            return ""
        del self.left[address]
        return f' id="{escape(ids.value(self._program, address))}"'


class Named:
    """What the pages of a project have names for, program by program.

    Args:
        library: The project's pages and programs.
    """

    def __init__(self, library: Library) -> None:
        self._library = library
        self._patterns: dict[str, set[str]] | None = None

    def of(self, program: Program, values: Mapping[str, Value]) -> frozenset[str]:
        """Return the addresses of a program's values that some page has a name for."""
        if self._patterns is None:
            self._patterns = self._read()
        found: set[str] = set()
        for pattern in self._patterns.get(program.name, ()):
            if pattern in values:
                found.add(pattern)
            elif "*" in pattern:
                with contextlib.suppress(EvidenceError):  # the page's own findings say so
                    found |= {value.address for value in addresses.resolve(pattern, values)}
        return frozenset(found)

    def _read(self) -> dict[str, set[str]]:
        patterns: dict[str, set[str]] = {}
        for path in self._library.pages():
            try:
                page = self._library.page(path)
            except EvidenceError:
                continue  # the page's own findings say so
            names = Names(self._library, page.front)
            for program, address in self._of(page, names):
                patterns.setdefault(program.name, set()).add(address)
        return patterns

    def _of(self, page: PageText, names: Names) -> Iterator[tuple[Program, str]]:
        """Yield what a page has a name for, or spells out in a block."""
        taken = [name.name for name in page.front.values]
        for block in page.scan.items:
            with contextlib.suppress(EvidenceError):  # the page's own findings say so
                if isinstance(block, Block) and block.kind == "plot":
                    for address in entries.spelled(block):
                        names.take(address, block.line)
                        taken.append(address)
                elif isinstance(block, Block) and block.kind == "diff":
                    yield from diffs.spelled(self._library, block, names.programs)
        for name in taken:
            with contextlib.suppress(EvidenceError):
                yield names.place(name)
