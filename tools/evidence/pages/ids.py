"""Anchors: the names by which links reach lines, outputs and values.

Slugs never hold `~`, so joining them by it keeps anchors unique.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evidence.model import Program


def output(program: str) -> str:
    """Return the anchor of a program's output."""
    return f"ev~{_flat(program)}"


def value(program: str, address: str) -> str:
    """Return the anchor of one value."""
    return f"{output(program)}~{_flat(address)}"


def source(program: Program, number: int | None = None) -> str:
    """Return the anchor of a program's listing, or of one of its lines."""
    name = f"src~{program.folder}~{program.path.name}"
    return name if number is None else f"{name}~{number}"


LINE = "L"
"""What anchors of lines begin with, on the page that is about one source."""


def claim(number: int) -> str:
    """Return the anchor of the claim of this number on its page."""
    return f"claim~{number}"


def ruling(number: int) -> str:
    """Return the anchor of the ruling on the claim of this number."""
    return f"ruling~{number}"


def explorer(program: Program) -> str:
    """Return the anchor of the link that opens a program in Compiler Explorer."""
    return f"explorer~{program.folder}~{program.path.name}"


def region(program: Program, name: str) -> str:
    """Return the anchor of a shown region."""
    return f"{source(program)}~{name}"


def _flat(name: str) -> str:
    return name.replace("/", "~")
