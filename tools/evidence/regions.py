"""Regions: the lines of a program between two marker comments.

A region starts at a line that holds nothing but `// snippet: name` and ends at
one that holds nothing but `// end snippet` (`#` instead of `//` in Python).
The end may repeat the name, `// end snippet: name`; it then has to be the name
of the region opened last, so that regions that overlap are seen. Regions may
be nested; no marker is ever part of what is shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from evidence import markers
from evidence.markers import SourceAt

if TYPE_CHECKING:
    from evidence.errors import SourceError
    from evidence.markers import Marker
    from evidence.model import Language


@dataclass(frozen=True, slots=True)
class Region:
    """The lines of one region, without markers and common indent.

    Attributes:
        name: Matches `[a-z][a-z0-9-]*`, unique in its file.
        first_line: One-based number of the first line shown.
        last_line: One-based number of the last line shown.
        lines: Line numbers with their text; blank lines are empty. Numbers
            leave a gap where a nested region's marker stood.
    """

    name: str
    first_line: int
    last_line: int
    lines: tuple[tuple[int, str], ...]

    @property
    def text(self) -> str:
        """Return the shown lines, each ended by LF."""
        return "".join(f"{text}\n" for _, text in self.lines)


def read(text: str, path: str, language: Language) -> dict[str, Region]:
    """Read every region of a source.

    Args:
        text: The source, LF or CRLF.
        path: Shown in messages.
        language: Decides what a comment is.

    Returns:
        Regions by name, in the order of their first line.

    Raises:
        SourceError: The first thing that is wrong with any region of the file.
    """
    regions, errors = scan(text, path, language)
    if errors:
        raise errors[0]
    return regions


def scan(text: str, path: str, language: Language) -> tuple[dict[str, Region], list[SourceError]]:
    """Read every region, and everything that is wrong, ordered by line.

    A region with an error is left out of the result.
    """
    text = text.replace("\r\n", "\n")
    found, errors = markers.find(text, path, language)
    if not found:
        return {}, errors
    spans, unpaired = _pair(found, SourceAt(path, 0, markers.COMMENT[language]))
    if not errors:  # where a marker is misspelt, its pair's complaint is an echo
        errors = unpaired
    lines = text.split("\n")
    marked = {marker.line for marker in found}
    regions: dict[str, Region] = {}
    for name, start, end in sorted(spans, key=lambda span: span[1]):
        shown = [(n, lines[n - 1]) for n in range(start + 1, end) if n not in marked]
        region = _region(name, shown, SourceAt(path, start, ""))
        if isinstance(region, Region):
            regions[name] = region
        else:
            errors.append(region)
    return regions, sorted(errors, key=lambda error: error.line or 0)


def _pair(
    found: list[Marker], source: SourceAt
) -> tuple[list[tuple[str, int, int]], list[SourceError]]:
    """Match ends with starts: (name, line of the start, line of the end)."""
    spans: list[tuple[str, int, int]] = []
    errors: list[SourceError] = []
    first: dict[str, int] = {}
    opened: list[tuple[str, int]] = []
    for marker in found:
        at = SourceAt(source.path, marker.line, source.prefix)
        if not marker.end and marker.name is not None:
            if marker.name in first:
                errors.append(_twice(marker.name, first[marker.name], at))
            first.setdefault(marker.name, marker.line)
            opened.append((marker.name, marker.line))
        elif not opened:
            errors.append(_unopened(at))
        elif marker.name in (None, opened[-1][0]):
            name, start = opened.pop()
            spans += [(name, start, marker.line)] if first[name] == start else []
        else:
            errors.append(_overlap(str(marker.name), opened[-1], at))
            # Drop the one that was named, or everything after it is an echo.
            opened = [entry for entry in opened if entry[0] != marker.name]
    errors += [_unended(name, SourceAt(source.path, n, source.prefix)) for name, n in opened]
    return spans, errors


def _twice(name: str, first: int, at: SourceAt) -> SourceError:
    return at.error(f"region `{name}` is opened twice, first at line {first}", "rename one of them")


def _unopened(at: SourceAt) -> SourceError:
    return at.error(
        f"`{at.prefix} end snippet` ends no region",
        f"remove it, or open the region with `{at.prefix} snippet: name`",
    )


def _overlap(name: str, inner: tuple[str, int], at: SourceAt) -> SourceError:
    return at.error(
        f"the end of region `{name}` is wrongly nested: "
        f"`{inner[0]}`, opened at line {inner[1]}, has not ended",
        f"end `{inner[0]}` first",
    )


def _unended(name: str, at: SourceAt) -> SourceError:
    return at.error(f"region `{name}` is never ended", f"add `{at.prefix} end snippet` after it")


def _region(name: str, lines: list[tuple[int, str]], at: SourceAt) -> Region | SourceError:
    indents = {n: text[: -len(text.lstrip(" \t"))] for n, text in lines if text.strip()}
    if not indents:
        fix = "move its markers around some code, or remove them"
        return at.error(f"region `{name}` is empty", fix)
    mixed = _mixed(indents)
    if mixed is not None:
        return SourceAt(at.path, mixed, "").error(
            f"region `{name}` is indented with tabs and spaces mixed", "indent with spaces alone"
        )
    first, last = min(indents), max(indents)
    cut = min(map(len, indents.values()))  # all of one kind, so the shortest is common
    shown = tuple(
        (n, text[cut:] if n in indents else "") for n, text in lines if first <= n <= last
    )
    return Region(name, first, last, shown)


def _mixed(indents: dict[int, str]) -> int | None:
    """Return the line at which a second kind of white space comes in."""
    spaces = "".join(indents.values())
    if "\t" not in spaces or " " not in spaces:
        return None
    seen = ""
    for number, indent in indents.items():
        seen += indent
        if "\t" in seen and " " in seen:
            return number
    return None
