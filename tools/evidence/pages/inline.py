"""Directives that stand in sentences: `[= expression ]` and `[! number | source ]`."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from evidence.pages.lines import Line

_TOKEN = re.compile(
    r"\\[\s\S]"  # an escaped character
    r"|(?P<ticks>`+)"
    r"|(?P<comment><!--)"
    r"|\[(?P<mark>[=!])(?=\s)"
    r"|(?P<near>\[=(?=[A-Za-z_][^\[\]\n]*\](?![\[(:])))"
)
_SOURCE = "source"


@dataclass(frozen=True, slots=True)
class Inline:
    """A directive in a sentence.

    Attributes:
        kind: `value` for `[= ]`, `sourced` for `[! ]`.
        text: The expression, or the number that is not measured here.
        detail: The format, or the source.
        line: One-based line of the page.
        start: Offset of its `[` in the text that was scanned.
        end: Offset behind its `]`.
        head: The directive as written.
    """

    kind: Literal["value", "sourced"]
    text: str
    detail: str
    line: int
    start: int
    end: int
    head: str


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that looks like a directive and is none."""

    line: int
    message: str
    fix: str


def find(paragraph: list[Line], first_line: int) -> tuple[list[Inline], list[Problem]]:
    """Find the directives of one paragraph, table row or heading.

    Args:
        paragraph: Its lines, at least one.
        first_line: The page's line that the text's line 0 is.
    """
    return _Finder(paragraph, first_line).run()


class _Finder:
    def __init__(self, paragraph: list[Line], first_line: int) -> None:
        self.lines = paragraph
        self.first = first_line
        self.text = "\n".join(line.rest for line in paragraph)
        self.starts = [0]
        for line in paragraph:
            self.starts.append(self.starts[-1] + len(line.rest) + 1)
        self.found: list[Inline] = []
        self.problems: list[Problem] = []

    def run(self) -> tuple[list[Inline], list[Problem]]:
        position = 0
        while match := _TOKEN.search(self.text, position):
            position = match.end()
            if match["ticks"]:
                position = self._code_end(match["ticks"], position)
            elif match["comment"]:
                close = self.text.find("-->", position)
                position = close + 3 if close >= 0 else position
            elif match["mark"]:
                position = self._directive(match.start(), match["mark"])
            elif match["near"]:
                self._problem(
                    match.start(),
                    "`[=` without a space after it is no directive",
                    "write `[= name ]`, or `\\[=` for the characters",
                )
        return self.found, self.problems

    def _code_end(self, ticks: str, position: int) -> int:
        close = re.compile(rf"(?<!`){ticks}(?!`)").search(self.text, position)
        return close.end() if close else position

    def _place(self, position: int) -> tuple[int, int]:
        """Return the page's line and the offset of a place in the paragraph."""
        which = bisect_right(self.starts, position) - 1
        line = self.lines[which]
        return self.first + line.index, line.offset + position - self.starts[which]

    def _problem(self, position: int, message: str, fix: str) -> None:
        self.problems.append(Problem(self._place(position)[0], message, fix))

    def _directive(self, start: int, mark: str) -> int:
        name = f"[{mark} "
        end = closing(self.text, start)
        if end is None:
            self._problem(
                start,
                f"`{name}` is not closed in its paragraph",
                f"close it with ` ]`, or write `\\{name}` for the characters",
            )
            return start + 2
        if self.text[end : end + 1] in ("(", "["):
            self._problem(
                start,
                f"`{name}… ]` is followed by `{self.text[end]}`, which would make it a link",
                f"put a space between, or write `\\{name}` for the characters",
            )
            return end
        self._take(start, end, mark)
        return end

    def _take(self, start: int, end: int, mark: str) -> None:
        written = self.text[start:end]
        # Editors of tables escape the bar.
        inner = " ".join(written[2:-1].replace("\\|", "|").split())
        text, bar, detail = (part.strip() for part in inner.partition("|"))
        if not text:
            what = "expression" if mark == "=" else "number"
            self._problem(start, f"`{written}` has no {what}", f"write the {what} after `[{mark}`")
            return
        if not detail and (bar or mark == "!"):
            what = "format" if mark == "=" else _SOURCE
            self._problem(start, f"`{written}` has no {what}", f"write the {what} after a bar")
            return
        line, offset = self._place(start)
        behind = self._place(end - 1)[1] + 1
        kind: Literal["value", "sourced"] = "value" if mark == "=" else "sourced"
        self.found.append(Inline(kind, text, detail, line, offset, behind, written))


def closing(text: str, start: int) -> int | None:
    """Return the offset behind the bracket that closes the one at `start`."""
    depth = 0
    for position in range(start, len(text)):
        if text[position] == "[":
            depth += 1
        elif text[position] == "]":
            depth -= 1
            if depth == 0:
                return position + 1
    return None
