"""Numbers with a unit that are typed into a page, and not bound or sourced.

Looks at everything that a reader sees as text: paragraphs, headings, tables,
captions, titles, image descriptions, and the text of drawings. It does not look
at code, addresses of links, comments, attributes that are not read out, and
front matter. What is a number with a unit is said in `numbers`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from html import unescape
from typing import TYPE_CHECKING

from evidence.findings import Finding
from evidence.pages import inline, numbers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from evidence.pages.directives import Prose
    from evidence.pages.lines import Line
    from evidence.pages.pagetext import PageText

TYPED, SAID = "unbound-number", "unclaimed"

_WALL = "\N{CURRENCY SIGN}"  # stands for what was taken out; no number goes on across it
_SKIPPED = re.compile(
    r"\\(?P<escaped>[\s\S])"
    r"|(?P<ticks>`+)"
    r"|<!--[\s\S]*?(?:-->|\Z)"
    r"|(?P<directive>\[[=!](?=\s))"
    r"|<(?P<verbatim>code|kbd|samp|pre|script|style)\b[\s\S]*?</(?P=verbatim)\s*>"
    r"|<(?:https?:|mailto:)[^>\s]*>"
    r"|</?(?P<tag>[A-Za-z][\w-]*)(?P<attributes>(?:\"[^\"]*\"|'[^']*'|[^<>\"'])*)>"
    r"|\]\((?:<[^<>\n]*>|[^()\s]*(?:\([^()\s]*\)[^()\s]*)*)"
    r"(?:\s+[\"'(](?P<title>[^\"]*?)[\"')])?\s*\)"
    r"|\]\[[^\[\]]*\]|\[\^?[^\[\]\n]+\]:\s*\S+|\[\^[^\[\]]+\]"
    r"|https?://\S+"
    r"|\{:?\s?[#.][^{}\n]*\}"
    r"|(?<!\w)_+(?=\S)|(?<=\S)_+(?!\w)"
)
_CANDIDATE = re.compile(r"[\\`<\[\]{_]|https?://")
_READ_OUT = re.compile(r"\b(?:alt|title|aria-label)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
# Tags that may stand inside of a number: `<b>3</b> ms`.
_FLOWING = ("a", "b", "em", "i", "mark", "small", "span", "strong", "sub", "sup", "u", "var")
_RULE = re.compile(r"\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$")
_CELL = re.compile(r"((?>\\.|`[^`]*`|\[[=!]\s[^\]]*\]|[^|])*+)(?:\||$)")

_DRAWING = re.compile(r"[(\"'\s]([^()\"'\s<>]+\.svg)(?=[)\"'#?\s])")
_SVG_TEXT = re.compile(
    r"<(text|title|desc)\b[^>]*>(.*?)</\1\s*>|\baria-label=\"([^\"]*)\"", re.DOTALL
)
_TAG = re.compile(r"<[^>]*>")


def findings(page: PageText, file: Path | None = None, root: Path | None = None) -> list[Finding]:
    """Return what is typed on a page and should be bound or sourced.

    Args:
        page: The page.
        file: Where it lies, to look into the drawings that it shows.
        root: The project's folder; drawings outside of it are left alone.
    """
    if page.front.generated:
        return []
    found: list[Finding] = []
    for prose in page.scan.prose:
        found += _in_prose(prose, page)
    found += _in_tables(page)
    if file is not None and root is not None:
        found += _in_drawings(page, file, root)
    return found


def _typed(path: str, line: int, what: str) -> Finding:
    return Finding(
        TYPED, path, line, f"`{what}` is typed, not bound to what was measured",
        f"bind it, `[= name ]`, or say where it is from, `[! {what} | source ]`",
    )  # fmt: skip


def _in_prose(prose: Prose, page: PageText) -> Iterator[Finding]:
    cleaned = _Cleaned(prose.lines)
    for place, what in numbers.find(cleaned.text):
        yield _typed(page.path, page.first_line + cleaned.line(place), what)
    if prose.claimed:
        return
    for place, what in numbers.phrases(cleaned.text):
        yield Finding(
            SAID, page.path, page.first_line + cleaned.line(place),
            f"`{what}` is said outside of a claim",
            "put the sentence into a block `/// claim`, with the expression that must hold",
            severity="warning",
        )  # fmt: skip


class _Cleaned:
    """The text of a paragraph without what is not read, and where it stood.

    Args:
        lines: The paragraph's lines.
    """

    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = lines
        self._starts = [0]
        for line in lines:
            self._starts.append(self._starts[-1] + len(line.rest) + 1)
        self._raw = "\n".join(line.rest for line in lines)
        self._pieces: list[str] = []
        self._length = 0
        self._from: list[int] = []  # where each piece begins in the cleaned text,
        self._to: list[int] = []  # and in the raw one
        self._clean()
        self.text = "".join(self._pieces)

    def line(self, place: int) -> int:
        """Return the zero-based line of the page on which a place of the text stands."""
        piece = max(bisect_right(self._from, place) - 1, 0)
        raw = self._to[piece] + place - self._from[piece]
        which = min(bisect_right(self._starts, raw) - 1, len(self._lines) - 1)
        return self._lines[which].index

    def _add(self, text: str, raw: int) -> None:
        self._pieces.append(text)
        self._from.append(self._length)
        self._to.append(raw)
        self._length += len(text)

    def _clean(self) -> None:
        position = 0
        search = 0
        while candidate := _CANDIDATE.search(self._raw, search):
            match = _SKIPPED.match(self._raw, candidate.start())
            search = candidate.end()
            if match is not None:
                self._add(self._raw[position : match.start()], position)
                position = search = self._skip(match)
        self._add(self._raw[position:], position)

    def _skip(self, match: re.Match[str]) -> int:
        """Put in what stands for a match; return where to go on."""
        if match["ticks"]:
            close = re.compile(rf"(?<!`){match['ticks']}(?!`)").search(self._raw, match.end())
            if close is None:
                return match.end()
            self._add(_WALL, match.start())
            return close.end()
        if match["directive"]:
            end = inline.closing(self._raw, match.start())
            self._add(_WALL, match.start())
            return end or match.end()
        if match["escaped"]:
            self._add(match["escaped"], match.start() + 1)
        elif match["tag"]:
            self._tag(match)
        elif match["title"]:
            self._add(f"{_WALL}{match['title']}{_WALL}", match.start("title") - 1)
        elif not match[0].startswith(("]", "_")):
            self._add(_WALL, match.start())
        return match.end()

    def _tag(self, match: re.Match[str]) -> None:
        if match["tag"].lower() not in _FLOWING:
            self._add(_WALL, match.start())
        for attribute in _READ_OUT.finditer(match["attributes"]):
            text = attribute[1] or attribute[2] or ""
            start = match.start("attributes") + attribute.end() - 1 - len(text)
            self._add(f"{_WALL}{text}{_WALL}", start - 1)


def _in_tables(page: PageText) -> Iterator[Finding]:
    """Look for numbers whose unit stands in their column's or row's header."""
    rows = [line for prose in page.scan.prose for line in prose.lines if "|" in line.rest]
    units: list[str | None] = []
    for above, line in zip([None, *rows], rows, strict=False):
        if above is not None and line.index == above.index + 1 and _RULE.match(line.rest):
            units = [numbers.unit_of(cell) for cell in _cells(above)]
            continue
        if above is None or line.index != above.index + 1:
            units = []
        if units:
            yield from _in_row(page, line, units)


def _in_row(page: PageText, line: Line, units: list[str | None]) -> Iterator[Finding]:
    cells = _cells(line)
    whole = numbers.unit_of(cells[0]) if cells else None
    for column, cell in enumerate(cells):
        unit = (units[column] if column < len(units) else None) or (whole if column else None)
        number = numbers.bare(cell) if unit else None
        if number:
            yield _typed(page.path, page.first_line + line.index, f"{number} {unit}")


def _cells(line: Line) -> list[str]:
    text = line.rest.strip().removeprefix("|").removesuffix("|")
    return [match[1] for match in _CELL.finditer(text)]


def _in_drawings(page: PageText, file: Path, root: Path) -> Iterator[Finding]:
    shown = {
        target: None
        for prose in page.scan.prose
        for line in prose.lines
        if ".svg" in line.rest
        for target in _DRAWING.findall(f" {line.rest} ")
    }
    for target in shown:
        drawing = (file.parent / target).resolve()
        if drawing.is_file() and drawing.is_relative_to(root):
            path = drawing.relative_to(root).as_posix()
            yield from in_drawing(drawing.read_text(encoding="utf-8", errors="replace"), path)


def in_drawing(text: str, path: str) -> Iterator[Finding]:
    """Return what is typed into an SVG drawing, where no number can be bound.

    Args:
        text: The drawing's source.
        path: Shown in messages.
    """
    for match in _SVG_TEXT.finditer(text):
        words = unescape(_TAG.sub(" ", match[2] or match[3] or ""))
        for _, what in numbers.find(words):
            yield Finding(
                TYPED, path, text.count("\n", 0, match.start()) + 1,
                f"`{what}` is drawn, not bound to what was measured",
                "take it out of the drawing: into the text around it, bound, or a `/// plot`",
            )  # fmt: skip
