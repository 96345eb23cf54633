"""Days that pages and programs refer to, and whether they are there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from evidence.errors import EvidenceError
from evidence.findings import Finding
from evidence.pages.course import needs_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evidence.pages.course import Course
    from evidence.pages.library import Library

MENTION = re.compile(
    r"\b[Dd]ay(?:s\s+(?P<many>\d{1,3}(?:(?:,\s*(?:and\s+)?|\s+(?:and|or|to)\s+)\d{1,3})+)"
    r"|\s+(?P<one>\d{1,3}))\b(?![.,]?\d)"
)
"""A day that a text refers to: `day 16`, `days 15, 16 and 24`."""

_NUMBER = re.compile(r"\d{1,3}")


def mentioned(text: str) -> Iterator[tuple[int, int]]:
    """Yield the days that a text refers to, each with its offset."""
    for match in MENTION.finditer(text):
        numbers = match["one"] or match["many"]
        base = match.start("one") if match["one"] else match.start("many")
        for number in _NUMBER.finditer(numbers):
            yield int(number[0]), base + number.start()


def references(library: Library, course: Course) -> Iterator[Finding]:
    """Yield what refers to days that are not there.

    A day that nobody plans is an error where it stands. Days that are planned are one
    warning in all, since they ask for nothing.
    """
    if not course.modules:
        return
    planned: set[int] = set()
    referring = 0
    for path, found in _mentions(library):
        lines: dict[int, int] = {}
        for number, line in found:
            if number not in course.days:
                lines[number] = min(line, lines.get(number, line))
        for number in sorted(lines.keys() - course.planned.keys()):
            message = f"there is no day {number}, and none is planned"
            yield Finding("unknown-day", path, lines[number], message, "correct the number")
        waiting = lines.keys() & course.planned.keys()
        planned |= waiting
        referring += bool(waiting)
    if planned:
        days = ", ".join(str(number) for number in sorted(planned))
        which = f"day {days}, which has" if len(planned) == 1 else f"days {days}, which have"
        who = (
            "one page or program refers"
            if referring == 1
            else (f"{referring} pages and programs refer")
        )
        yield Finding(
            "day-planned", f"{library.project.config.docs}/{course.page}", 1,
            f"{who} to {which} no page yet",
            "links appear with the pages, so there is nothing to do",
            severity="warning",
        )  # fmt: skip


def _mentions(library: Library) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    """Yield every page and program with the days that it refers to and their lines."""
    for path in library.written():
        try:
            page = library.page(path)
        except EvidenceError:
            continue
        found = [(need, where) for need, where in needs_of(page)]
        for prose in page.scan.prose:
            for line in prose.lines:
                found += [(n, page.first_line + line.index) for n, _ in mentioned(line.rest)]
        yield page.path, found
    for program in library.project.programs:
        text = library.text(program)
        yield (
            program.relative,
            [(n, text.count("\n", 0, offset) + 1) for n, offset in mentioned(text)],
        )
