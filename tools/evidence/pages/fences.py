"""Fenced code, exactly as pymdownx.superfences finds it."""

from __future__ import annotations

import re
from dataclasses import dataclass

_PREFIX = re.compile(r"[> ]*")
# A fence, a language, and options in braces or as words; what else may follow
# makes the renderer look for attributes, and it takes the line for a fence.
_FENCE = re.compile(r"(~{3,}|`{3,})[^`\n]*$")


@dataclass(slots=True)
class _Fence:
    start: int
    prefix: str
    marker: str
    blanks: int = 0


def fenced(lines: list[str]) -> set[int]:
    """Return the numbers of all lines in fences, the fences' own lines too.

    A fence that is not closed, or that a line of too little indentation
    interrupts, is none.
    """
    found: set[int] = set()
    fence: _Fence | None = None
    for index, line in enumerate(lines):
        if fence is None:
            prefix = _PREFIX.match(line)[0]  # type: ignore[index]  # matches the empty string
            if match := _FENCE.match(line, len(prefix)):
                fence = _Fence(index, prefix, match[1])
            continue
        outcome = _follow(fence, line)
        if outcome == "end":
            found.update(range(fence.start, index + 1))
        if outcome != "content":
            fence = None
    return found


def _follow(fence: _Fence, line: str) -> str:
    """Say what a line is to an open fence: its end, content, or none."""
    width = len(_PREFIX.match(line[: len(fence.prefix)])[0])  # type: ignore[index]
    prefix, content = line[:width], line[width:]
    ends = re.fullmatch(re.escape(fence.marker) + r"[ \t]*", content) is not None
    quotes, level = fence.prefix.count(">"), prefix.count(">")
    if quotes:
        return _follow_quoted(fence, content, width, level - quotes, ends)
    if level:
        return "none"
    if not content.strip():
        return "content"
    if width != len(fence.prefix):
        return "none"
    return "end" if ends else "content"


def _follow_quoted(fence: _Fence, content: str, width: int, deeper: int, ends: bool) -> str:
    if deeper > 0:
        return "none"
    if not content:
        fence.blanks += 1
        return "content"
    if width < len(fence.prefix) or (fence.blanks and deeper < 0):
        return "none"
    fence.blanks = 0
    return "end" if ends else "content"
