"""The days in the site's navigation: generated lines of `mkdocs.yml`.

Every host reads them, with or without a plugin. They are the lines that are
indented deeper than the one with the comment `# evidence nav`; `evidence nav`
writes them, `evidence check` compares.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from evidence.errors import ConfigError
from evidence.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, KeysView
    from pathlib import Path

    from evidence.pages.course import Course
    from evidence.project import Project

NAME = "mkdocs.yml"
_MARK = re.compile(r"(?P<indent> *)- .*#\s*evidence nav\s*")
_PAGE = re.compile(r" *- (?:.*: )?(\S+\.md) *")
_PLAIN = re.compile(r"(?!.*(?:: | #|:$))[\w].*")


def findings(project: Project, course: Course) -> Iterator[Finding]:
    """Yield a finding if the navigation does not list exactly the days that are there."""
    path = project.root / NAME
    if not course.modules or not path.is_file():
        return
    try:
        lines, start, end = _find(path)
    except ConfigError as error:
        yield Finding.of(error, "nav")
        return
    due = _due(course, lines[start])
    if lines[start + 1 : end] != due:
        listed, wanted = _pages(lines[start + 1 : end]), _pages(due)
        lacks, extra = ", ".join(sorted(wanted - listed)), ", ".join(sorted(listed - wanted))
        parts = [f"lacks {lacks}"] * bool(lacks) + [f"lists {extra}, which is no day"] * bool(extra)
        message = f"the navigation {' and '.join(parts) or 'lists the days in another order'}"
        yield Finding("nav", NAME, start + 1, message, "run: evidence nav")


def write(project: Project, course: Course) -> bool:
    """List the days that are there in the navigation.

    Returns:
        Whether anything changed.

    Raises:
        ConfigError: There is no `mkdocs.yml`, or no place in it for the days.
    """
    path = project.root / NAME
    lines, start, end = _find(path)
    due = _due(course, lines[start])
    if lines[start + 1 : end] == due:
        return False
    lines[start + 1 : end] = due
    path.write_text("\n".join(lines), encoding="utf-8", newline="\n")
    return True


def _find(path: Path) -> tuple[list[str], int, int]:
    """Return the file's lines, the marked one's number, and where its content ends."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        message = f"cannot be read: {error.strerror}"
        raise ConfigError(message, path=NAME, line=1, fix="run this in the project") from None
    for start, line in enumerate(lines):
        match = _MARK.fullmatch(line)
        if match is not None:
            end = start + 1
            deeper = match["indent"] + " "
            while end < len(lines) and lines[end].startswith(deeper):
                end += 1
            return lines, start, end
    raise ConfigError(
        "nav has no place for the days",
        path=NAME,
        line=1,
        fix="mark one with a comment, `- The days: # evidence nav`",
    )


def _pages(lines: Iterable[str]) -> KeysView[str]:
    """Return the pages that some lines list, in their order."""
    return dict.fromkeys(m[1] for line in lines if (m := _PAGE.fullmatch(line))).keys()


def _due(course: Course, marked: str) -> list[str]:
    """Return the lines of all days that are there, module by module."""
    indent = " " * (len(marked) - len(marked.lstrip(" ")) + 4)
    lines = []
    for module in course.modules:
        days = sorted(d.number for d in course.days.values() if d.module == module.number)
        if days:
            title = f"{module.number} · {module.title}"
            name = title if _PLAIN.fullmatch(title) else json.dumps(title, ensure_ascii=False)
            lines.append(f"{indent}- {name}:")
            lines += [f"{indent}    - {course.days[number].page}" for number in days]
    return lines
