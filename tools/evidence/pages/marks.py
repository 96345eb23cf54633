"""Marks: what stands for a directive in the text until it is rendered."""

from __future__ import annotations

import re

from markdown.util import ETX, STX

MARK = re.compile(f"{STX}ev:([0-9]+){ETX}")
"""A mark; its group is the directive's number on the page."""

BLOCK = re.compile(rf"/{{3,}} [a-z]+ \| {STX}ev:([0-9]+){ETX}")
"""The first line of a block with its mark."""


def mark(index: int) -> str:
    """Return the mark of a directive."""
    return f"{STX}ev:{index}{ETX}"
