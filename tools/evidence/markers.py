"""Marker comments of regions: where they stand, and how they may be written.

Only real comments count, so the text has to be cut into strings, block
comments and line comments. Cutting a whole source costs milliseconds; here
only those lines are cut that hold a suspect, or on which something begins
that may run over several lines. Any other line leaves the lexer where it was.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evidence.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evidence.model import Language

COMMENT: dict[Language, str] = {"cuda": "//", "python": "#", "notebook": "#"}

_NAME = re.compile(r"[a-z][a-z0-9-]*")
_EXACT = re.compile(r"(?://|#) (?P<end>end )?snippet(?:: (?P<name>\S+))?")
_SUSPECT = re.compile(r"snip|ppet", re.IGNORECASE)
# Raw strings first, or their quote would open an ordinary string; numbers, or
# the separators of 1'000'000 would open characters. A line comment of C++ runs
# on over a line that ends in a backslash.
_TOKENS: dict[Language, re.Pattern[str]] = {
    "cuda": re.compile(
        r"""(?<![A-Za-z0-9_])(?:u8|[uUL])?R"(?P<raw>[^()\\\s]{0,16})\(.*?\)(?P=raw)"
        |"(?:[^"\\\n]|\\.)*+"
        |'(?:[^'\\\n]|\\.)*+'
        |(?<![A-Za-z0-9_])[0-9](?:'?[A-Za-z0-9_.])*+
        |/\*(?:.*?\*/|.*)
        |(?P<comment>//(?:[^\\\n]|\\.)*+)""",
        re.DOTALL | re.VERBOSE,
    ),
    "python": re.compile(
        r'''"""(?:[^"\\]|\\.|"(?!""))*+"""
        |\'\'\'(?:[^'\\]|\\.|'(?!''))*+\'\'\'
        |"(?:[^"\\\n]|\\.)*+"
        |'(?:[^'\\\n]|\\.)*+'
        |(?P<comment>\#[^\n]*+)''',
        re.DOTALL | re.VERBOSE,
    ),
}
_SPANNING: dict[Language, tuple[str, ...]] = {
    "cuda": ("/*", 'R"', "\\\n"),
    "python": ('"""', "'''", "\\\n"),
}
_TOKENS["notebook"] = _TOKENS["python"]
_SPANNING["notebook"] = _SPANNING["python"]
_MEANT = re.compile(
    r"[/#!<*\s]*(?P<end>(?:end|close|stop)[\s_:-]*)?(?P<word>[a-z]+)(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_SLIPS = 2  # letters that may be missing, added or wrong in a misspelt marker


@dataclass(frozen=True, slots=True)
class Marker:
    """One marker comment.

    Attributes:
        line: One-based line.
        name: The region's name; may be None at an end.
        end: Whether it ends a region.
    """

    line: int
    name: str | None
    end: bool


def find(text: str, path: str, language: Language) -> tuple[list[Marker], list[SourceError]]:
    """Find the markers of a source, and the comments that were meant as one.

    Args:
        text: The source, LF.
        path: Shown in messages.
        language: Decides what a comment is.
    """
    markers: list[Marker] = []
    errors: list[SourceError] = []
    suspects = _suspects(text)
    for start, comment in _comments(text, language, suspects) if suspects else ():
        line = text.count("\n", 0, start) + 1
        code = text[text.rfind("\n", 0, start) + 1 : start]
        try:
            marker = _marker(comment.rstrip(), code, SourceAt(path, line, COMMENT[language]))
        except SourceError as error:
            errors.append(error)
        else:
            markers += [marker] if marker else []
    return markers, errors


@dataclass(frozen=True, slots=True)
class SourceAt:
    """A place in a source, for messages.

    Attributes:
        path: The file.
        line: One-based line.
        prefix: How a comment starts there.
    """

    path: str
    line: int
    prefix: str

    def error(self, message: str, fix: str) -> SourceError:
        """Make the error that belongs here."""
        return SourceError(message, path=self.path, line=self.line, fix=fix)


def _suspects(text: str) -> list[int]:
    """Return the offsets at which something like the word `snippet` stands."""
    lowered = text.lower()
    if len(lowered) != len(text):  # a few letters grow when lowered
        return [match.start() for match in _SUSPECT.finditer(text)]
    return [*_find(lowered, "snip"), *_find(lowered, "ppet")]


def _comments(text: str, language: Language, suspects: list[int]) -> Iterator[tuple[int, str]]:
    """Yield the suspect line comments with their offsets."""
    tokens = _TOKENS[language]
    hits = set(suspects)
    hits.update(hit for needle in _SPANNING[language] for hit in _find(text, needle))
    position = 0
    for hit in sorted(hits):
        if hit < position:
            continue
        position = max(position, text.rfind("\n", 0, hit) + 1)
        end = _line_end(text, hit)
        while position < end:
            match = tokens.search(text, position)
            if match is None or match.start() >= end:
                break
            position = match.end()
            end = max(end, _line_end(text, position))
            if match.lastgroup == "comment" and _SUSPECT.search(match.group()):
                yield match.start(), match.group()
        position = end


def _find(text: str, needle: str) -> Iterator[int]:
    position = text.find(needle)
    while position >= 0:
        yield position
        position = text.find(needle, position + 1)


def _line_end(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end


def _marker(comment: str, code: str, at: SourceAt) -> Marker | None:
    """Read a comment as a marker; None for prose."""
    exact = _EXACT.fullmatch(comment)
    if exact and (exact["end"] or exact["name"]):
        if exact["name"] and not _NAME.fullmatch(exact["name"]):
            raise at.error(
                f"region name `{exact['name']}` is not kebab-case",
                "use lower-case letters, digits and hyphens, starting with a letter",
            )
        if code.strip():
            raise at.error(
                "a region marker shares its line with code", "give the marker a line of its own"
            )
        return Marker(at.line, exact["name"], end=bool(exact["end"]))
    meant = _MEANT.fullmatch(comment)
    if meant and _looks_meant(bool(meant["end"]), meant["word"].lower(), meant["rest"]):
        shape = "end snippet" if meant["end"] else "snippet: name"
        raise at.error(
            f"`{comment}` looks like a region marker and is none",
            f"write `{at.prefix} {shape}`, or reword the comment",
        )
    return None


def _looks_meant(end: bool, word: str, rest: str) -> bool:
    """Tell a misspelt marker from prose that starts with a word like it."""
    if not _close(word, "snippet"):
        return False
    words = len(rest.strip(" \t:=-_.;/*>").split())
    colon = rest.lstrip()[:1] in (":", "=")
    if word == "snippet" and colon:
        return True
    if end or colon:
        return words <= 1
    return word == "snippet" and words == 1


def _close(word: str, wanted: str) -> bool:
    """Whether the edit distance of two words is at most `_SLIPS`."""
    if abs(len(word) - len(wanted)) > _SLIPS:
        return False
    above = list(range(len(wanted) + 1))
    for row, letter in enumerate(word, 1):
        cells = [row]
        for column, other in enumerate(wanted, 1):
            swap = above[column - 1] + (letter != other)
            cells.append(min(swap, above[column] + 1, cells[-1] + 1))
        above = cells
    return above[-1] <= _SLIPS
