"""Block directives as data: their names, options and arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evidence.pages.lines import Line

BLOCKS: dict[str, tuple[str, ...]] = {
    "code": (),
    "output": (),
    "notebook": (),
    "claim": ("expect", "device", "fails_on", "margin"),
    "plot": ("kind", "title", "x", "y", "at", "series", "ceiling", "log"),
    "diff": ("old", "new", "values"),
    "status": (),
    "claims": (),
    "devices": ("ceilings",),
    "map": (),
    "days": (),
    "predict": ("answer", "unit"),
    "ledger": (),
    "ruling": ("claim", "kind", "verdict", "expect", "device", "fails_on", "margin", "by"),
}
"""Names of our blocks, with the options each of them takes."""

OVERVIEWS = ("status", "claims", "devices", "map", "days")
"""Blocks that show something of all evidence, or of all pages."""

ARGUMENTS = {
    "code": "file.cu:region",
    "output": "program",
    "notebook": "program",
    "ledger": "62",
    "ruling": "8",
}
"""Blocks that take an argument, and what it looks like."""

LISTING = ("code", "output", "notebook")
"""Blocks that show a program, or a part of it."""

WITH_TEXT = ("claim", "plot", "predict", "ruling")
"""Blocks that take content."""

MUST = {
    "claim": ("expect", "a < b", "sentence", "write what must hold"),
    "predict": ("answer", "a / b", "question", "ask for a number"),
}
"""Blocks that must have an option, and must have content: what each of these is."""

LABELS = {"plot": ("series", "ceiling"), "diff": ("values",)}
"""Options with a `label: what` in each deeper line, of which readers see the label."""

SEEN = {"plot": ("title", "x", "y"), "predict": ("unit",)}
"""Options that readers see as they are written."""


@dataclass(frozen=True, slots=True)
class Option:
    """One `name: value` line under a block's first line.

    Attributes:
        name: What stands before the colon.
        text: What stands behind it, lines that are indented deeper joined to it.
        line: One-based line of the page.
        more: The lines that are indented deeper, each with its number.
    """

    name: str
    text: str
    line: int
    more: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Block:
    """A block directive.

    Attributes:
        kind: Its name, one of `BLOCKS`.
        argument: What stands after the bar.
        options: Its options, in order.
        line: One-based line of the page.
        start: Offset of its first slash in the text that was scanned.
        end: Offset behind its last option.
        head: First slash to last option, as written.
        body: Its content, without the containers' prefix.
    """

    kind: str
    argument: str
    options: tuple[Option, ...]
    line: int
    start: int
    end: int
    head: str
    body: str

    def option(self, name: str) -> Option | None:
        """Return an option, if it is given."""
        return next((o for o in self.options if o.name == name), None)


@dataclass(frozen=True, slots=True)
class Prose:
    """Text that readers see as text: a paragraph, a heading, a table's row, a label.

    Attributes:
        lines: Its lines.
        claimed: Whether it stands in a claim.
    """

    lines: tuple[Line, ...]
    claimed: bool = False
