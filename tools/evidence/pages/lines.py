"""Telling prose from code in Markdown, line by line.

Follows Python-Markdown with the extensions of this site: containers are
indented by four spaces (lists, admonitions, details, tabs, footnotes) or
quoted by `>`, fences follow pymdownx.superfences, blocks pymdownx.blocks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from evidence.pages.fences import fenced

if TYPE_CHECKING:
    from collections.abc import Iterator

Kind = Literal["text", "blank", "code", "start", "option", "end"]

_INDENT = "    "
_QUOTE = re.compile(r" {0,3}> ?")
_LIST = re.compile(r" {0,3}(?:[*+-]|\d+\.) +")
_OPENER = re.compile(r"!!! ?[\w-]|\?\?\?\+? ?[\w-]|={3}[+!]* +\"")
_NOTE = re.compile(r" {0,3}(?:\[\^[^\]\n]+\]:|: {1,3}(?=\S))")
_START = re.compile(r" {0,3}(/{3,}) *([\w-]+) *(?:\| *(.*?) *)?$")
_END = re.compile(r" {0,3}(/{3,}) *$")
_HEADING = re.compile(r"#{1,6}(?!#)")
_RAW = re.compile(r" {0,3}(?:(<!--)|<(pre|script|style|textarea)\b)", re.IGNORECASE)


@dataclass(slots=True)
class Line:
    """One line of a page.

    Attributes:
        index: Zero-based number.
        offset: Where `rest` begins in the text.
        rest: The line without the prefix of the containers it stands in.
        kind: What the renderer will take it for.
        breaks: It begins a paragraph, whatever stands above.
        header: Slashes, name and argument of a block's first line.
        left: First lines of blocks that end here without an end line.
        closed: First line of the block that this line ends.
        inside: First lines of the open blocks around it, outermost first.
        clash: A block around this one has as many slashes.
    """

    index: int
    offset: int
    rest: str
    kind: Kind = "text"
    breaks: bool = False
    header: tuple[int, str, str] | None = None
    left: tuple[int, ...] = ()
    closed: int | None = None
    inside: tuple[int, ...] = ()
    clash: bool = False


@dataclass(frozen=True, slots=True)
class _Level:
    """A container: indented, quoted, or a block (which adds no prefix)."""

    kind: Literal["indent", "quote", "block"]
    slashes: int = 0
    line: int = 0


def normalise(text: str) -> str:
    """Return text as Python-Markdown sees it, with every line kept."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return text.replace("\x02", "").replace("\x03", "").expandtabs(4)


def classify(text: str) -> Iterator[Line]:
    """Yield every line of a normalised text with its kind and containers."""
    return _Classifier(text.split("\n")).run()


@dataclass(slots=True)
class _Classifier:
    lines: list[str]
    stack: list[_Level] = field(default_factory=list)
    blank: bool = True  # nothing, or a blank line, stands above
    code: bool = False  # in an indented code block
    listing: bool = False  # the paragraph above began as a list item
    heading: bool = False  # in the options of a block
    skip: int = 0  # lines before this one are raw HTML

    def run(self) -> Iterator[Line]:
        fences = fenced(self.lines)
        offset = 0
        for index, text in enumerate(self.lines):
            line = Line(index, offset, text)
            offset += len(text) + 1
            self._one(line, index in fences)
            yield line

    def _one(self, line: Line, is_fenced: bool) -> None:
        if line.rest.strip() and line.index >= self.skip:
            self._enter(line)
        if line.index < self.skip:
            line.kind = "code"
        elif is_fenced:
            line.kind = "code"
            self.blank = self.code = self.heading = False
        elif not line.rest.strip():
            line.kind = "blank"
            self.heading = self.listing = False
            self.blank = True
        else:
            self._read(line)
        line.inside = tuple(level.line for level in self.stack if level.kind == "block")

    def _enter(self, line: Line) -> None:
        """Take off the prefix of the containers that go on in this line."""
        position = kept = 0
        for level in self.stack:
            if level.kind == "quote":
                match = _QUOTE.match(line.rest, position)
                if match is None:
                    break
                position = match.end()
            elif level.kind == "indent":
                if not line.rest.startswith(_INDENT, position):
                    break
                position += len(_INDENT)
            kept += 1
        if kept < len(self.stack) and not self._goes_on(kept, line.rest[position:]):
            line.left = self._drop(kept)
            line.breaks = self.blank or bool(line.left)
            self.code = False
            self.listing = True  # a list may begin where a container ends
        self._advance(line, position)

    def _goes_on(self, depth: int, rest: str) -> bool:
        """Whether a quoted paragraph goes on in a line that is not quoted."""
        quotes = all(level.kind == "quote" for level in self.stack[depth:])
        begins = any(what.match(rest) for what in (_START, _END, _OPENER, _HEADING, _NOTE, _RAW))
        return quotes and not self.blank and not begins

    def _drop(self, depth: int) -> tuple[int, ...]:
        left = tuple(level.line for level in self.stack[depth:] if level.kind == "block")
        del self.stack[depth:]
        return left

    def _advance(self, line: Line, count: int) -> None:
        line.offset += count
        line.rest = line.rest[count:]

    def _read(self, line: Line) -> None:
        if self.heading and line.rest.startswith(_INDENT):
            line.kind = "option"
            return
        self.heading = False
        self._open(line)
        if line.rest.startswith(_INDENT) and (self.blank or self.code):
            line.kind = "code"
            self.code, self.blank = True, False
            return
        self.code = self.blank = False
        if not self._block(line):
            self._prose(line)

    def _open(self, line: Line) -> None:
        """Enter the containers that begin in this line."""
        while not line.rest.startswith(_INDENT):
            if match := _QUOTE.match(line.rest):
                level = _Level("quote")
                self.listing = False
            elif (match := _LIST.match(line.rest)) and (self.blank or self.listing):
                level = _Level("indent")
                self.listing = True
            elif match := _NOTE.match(line.rest):
                level = _Level("indent")
                self.listing = False
            else:
                return
            self.stack.append(level)
            self._advance(line, match.end())
            line.breaks = True
            self.code, self.blank = False, True

    def _block(self, line: Line) -> bool:
        """Read a block's first or last line."""
        if match := _START.match(line.rest):
            slashes = len(match[1])
            line.kind = "start"
            line.header = (slashes, match[2].lower(), match[3] or "")
            line.clash = any(v.slashes == slashes for v in self.stack)
            self.stack.append(_Level("block", slashes, line.index))
            self.heading = self.blank = True
            return True
        if match := _END.match(line.rest):
            # The renderer looks for the outermost block's end first.
            for depth, level in enumerate(self.stack):
                if level.slashes == len(match[1]):
                    line.kind, line.closed, self.blank = "end", level.line, True
                    line.left += self._drop(depth + 1)
                    self.stack.pop()
                    return True
        return False

    def _prose(self, line: Line) -> None:
        if raw := _RAW.match(line.rest):
            self._raw(line, "-->" if raw[1] else f"</{raw[2].lower()}>", raw.end())
        elif _OPENER.match(line.rest):
            self.stack.append(_Level("indent"))
            line.breaks = self.blank = True
        elif _HEADING.match(line.rest):
            line.breaks = self.blank = True
        elif line.rest.lstrip().startswith("|"):
            line.breaks = True

    def _raw(self, line: Line, close: str, position: int) -> None:
        """Skip raw HTML up to the line that closes it, if one does."""
        if close in line.rest[position:].lower():
            line.kind = "code"
            return
        for index in range(line.index + 1, len(self.lines)):
            if close in self.lines[index].lower():
                line.kind, self.skip = "code", index + 1
                return
