"""Exercises: a starter with a region to fill in, and a solution of the same program.

A day with an exercise has two programs, `starter` and `solution`, that are the same
but for what stands in their region `exercise`. The starter compiles and fails its own
gate, the solution passes; both are recorded like every other program. A reader's
answer is judged by the starter's own gate: only what stands in the region is taken
from the reader's file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evidence import key, lexing, markers, regions
from evidence.errors import EvidenceError, SourceError
from evidence.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from evidence.model import Language, Program
    from evidence.project import Project

REGION = "exercise"
STARTER, SOLUTION = "starter", "solution"
_KEEP = f"keep the lines `// snippet: {REGION}` and `// end snippet` around your code"


@dataclass(frozen=True, slots=True)
class Parts:
    """A source, cut at its exercise.

    Attributes:
        before: Everything up to the region, its first marker included.
        answer: What stands in it.
        after: Everything from its last marker on.
        line: One-based line on which `answer` begins.
    """

    before: str
    answer: str
    after: str
    line: int

    @property
    def outside(self) -> str:
        """Return everything but the answer."""
        return f"{self.before}{self.after}"


def belongs(program: Program) -> bool:
    """Return whether a program is a starter or a solution."""
    return program.stem in (STARTER, SOLUTION)


def cut(text: str, shown: str, language: Language) -> Parts:
    """Cut a source at its exercise.

    Args:
        text: The source, LF.
        shown: Its path for messages.
        language: Decides what a comment is.

    Raises:
        SourceError: It has no region `exercise`, or one that is not sound.
    """
    found, wrong = markers.find(text, shown, language)
    starts = [m.line for m in found if not m.end and m.name == REGION]
    end = _end(found, starts[0]) if starts else None
    if len(starts) != 1 or end is None:
        if not starts and wrong:
            raise wrong[0]  # a marker that is misspelt is why there is none
        what = (
            "no region" if not starts else "no end of its region" if end is None else "two regions"
        )
        raise SourceError(
            f"has {what} `{REGION}`", path=shown, line=starts[-1] if starts else 1, fix=_KEEP
        )
    lines = text.split("\n")
    start, end = starts[0], end - 1
    return Parts(
        before="".join(f"{line}\n" for line in lines[:start]),
        answer="".join(f"{line}\n" for line in lines[start:end]),
        after="\n".join(lines[end:]),
        line=start + 1,
    )


def _end(found: list[markers.Marker], start: int) -> int | None:
    """Return the line of the marker that ends the region begun on a line."""
    depth = 0
    for marker in found:
        if marker.line >= start:
            depth += -1 if marker.end else 1
            if depth == 0:
                return marker.line
    return None


def starter_of(project: Project, day: str) -> Program:
    """Return the starter of a day's exercise.

    Args:
        project: The project.
        day: The day's number, or a folder's name.

    Raises:
        EvidenceError: The day has none; days that have one are listed.
    """
    found = [p for p in project.find([day]) if p.stem == STARTER]
    if len(found) == 1:
        return found[0]
    days = sorted({p.folder for p in project.programs if p.stem == STARTER})
    known = f"; there is one for {', '.join(days)}" if days else ""
    what = "several exercises" if found else "no exercise that can be graded"
    raise EvidenceError(f"{day} has {what}{known}", fix="see: evidence grade --help")


def code(text: str, language: Language) -> str:
    """Return what of a text is code, without comments and layout."""
    return lexing.code_text(text, language)


def lacking(answer: str, wanted: tuple[str, ...], language: Language) -> list[str]:
    """Return the identifiers that a right answer must contain and this one does not."""
    text = code(answer, language)
    return [name for name in wanted if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)]


def read(path: Path, shown: str) -> str:
    """Return a source's text, LF.

    Raises:
        SourceError: It is not there or not UTF-8.
    """
    return key.read_text(path, shown)[1]


def findings(project: Project) -> Iterator[Finding]:
    """Yield a finding for every exercise that cannot be what it says."""
    by_name = {program.name: program for program in project.programs}
    for program in project.programs:
        if not belongs(program):
            continue
        other = SOLUTION if program.stem == STARTER else STARTER
        partner = by_name.get(f"{program.folder}/{other}")
        if partner is None:
            yield _finding(program, f"has no {other} beside it", f"write {other}.cu")
        elif program.stem == STARTER:
            yield from _pair(project, program, partner)


def _pair(project: Project, starter: Program, solution: Program) -> Iterator[Finding]:
    try:
        given = cut(project.texts[starter.name], starter.relative, starter.language)
        solved = cut(project.texts[solution.name], solution.relative, solution.language)
        regions.read(project.texts[starter.name], starter.relative, starter.language)
    except SourceError as error:
        yield Finding.of(error, "exercise", starter.relative)
        return
    if _plain(given, starter) != _plain(solved, solution):
        yield _finding(
            solution,
            f"differs from {starter.path.name} outside of its region `{REGION}`",
            f"make the rest the same as in {starter.relative}",
        )
    if code(given.answer, starter.language) == code(solved.answer, solution.language):
        yield _finding(solution, "solves nothing: its region is the starter's", "write the answer")
    if starter.plan.expect.kind == "success":
        yield _finding(
            starter,
            "is not said to fail, so its gate would pass an exercise that nobody did",
            'write expect = { exit = 1, text = "…" } for it in evidence.toml',
        )
    for name in lacking(solved.answer, starter.plan.grade, solution.language):
        yield _finding(
            solution,
            f"does without {name}, which grade in evidence.toml says a right answer must contain",
            "correct one of them",
        )


def _plain(parts: Parts, program: Program) -> str:
    # A program may print its own name; that alone is no difference.
    return code(parts.outside, program.language).replace(program.stem, "")


def _finding(program: Program, message: str, fix: str) -> Finding:
    return Finding("exercise", program.relative, 1, message, fix)
