"""Helpers that programs repeat verbatim, held to be the same everywhere.

A program stands alone, so small helpers are copied rather than included. The names in
`verbatim` of `[tool.evidence]` are those of macros, functions and structs of which every
copy must be the same, to the letter.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from evidence.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evidence.project import Project


class _Copy(NamedTuple):
    path: str
    line: int
    text: str


def findings(project: Project) -> Iterator[Finding]:
    """Yield a finding for every copy that differs from the one most programs have."""
    for name in project.config.verbatim:
        by_text: defaultdict[str, list[_Copy]] = defaultdict(list)
        for program in project.programs:
            text = project.texts[program.name]
            if program.language != "cuda" or name not in text:
                continue
            for match in _definition(name).finditer(text):
                copy = _Copy(program.relative, _line(text, match.start()), match[0])
                by_text[copy.text].append(copy)
        # The most frequent is right; among equals the one that came first.
        groups = sorted(by_text.values(), key=len, reverse=True)
        for group in groups[1:]:
            for copy in group:
                yield _finding(name, copy, groups[0][0], len(groups[0]))


def _finding(name: str, copy: _Copy, other: _Copy, count: int) -> Finding:
    lines = zip(copy.text.split("\n"), other.text.split("\n"), strict=False)
    differing = ((n, a, b) for n, (a, b) in enumerate(lines) if a != b)
    short = min(copy.text.count("\n"), other.text.count("\n"))
    number, here, there = next(differing, (short, "", ""))
    same = "one program has" if count == 1 else f"{count} programs have"
    return Finding(
        "copy-differs", copy.path, copy.line + number,
        f"{name} is not as {same} it",
        f"copy it from {other.path}:{other.line}, or take it out of verbatim in [tool.evidence]",
        there.strip() or "nothing", here.strip() or "nothing",
    )  # fmt: skip


def _line(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


@cache
def _definition(name: str) -> re.Pattern[str]:
    """Return what finds a macro, a function or a struct at file scope.

    In house style each of the latter two ends with a brace in the first column.
    """
    return re.compile(
        rf"^\#[ ]*define[ ]+{name}\b(?:[^\n]*\\\n)*[^\n]*"
        rf"|^(?:template[^\n]*\n)?static\ [^;{{}}=]*?\b{name}\([^;{{}}]*\)\s*\{{.*?^\}}"
        rf"|^struct\ {name}\b[^;{{}}]*\{{.*?^\}};",
        re.MULTILINE | re.DOTALL | re.VERBOSE,
    )
