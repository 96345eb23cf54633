"""Headings of a page and the names that links know them by.

A section is what stands under one heading, up to the next one of any level. Its
name is the heading's anchor, as Python-Markdown's `toc` makes it, but without
the numbers that are bound in the heading: a name must outlive a recording.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from html import unescape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from evidence.pages.lines import Line
    from evidence.pages.pagetext import PageText

TOP = "_top"
"""The name of what stands above the first heading."""

_LONGEST = 100  # of a name, which is a file's name too
_HASHES = re.compile(r"#{1,6}(?P<text>(?:\\.|[^\\])*?)#* *$")
_RULE = re.compile(r"(?:=+|-+) *$")
_ATTRIBUTES = re.compile(r" +\{:? *(?P<list>[^}\n ][^}\n]*) *\} *$")
_ID = re.compile(r"(?:^| )#([\w-]+)|(?:^| )id=\"?([\w-]+)")
_DIRECTIVE = re.compile(r"(?<!\\)\[[=!]\s[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*\]")
_LINK = re.compile(r"!?\[((?:\\.|[^\]\\])*)\](?:\([^)]*\)|\[[^\]]*\])")
_TAG = re.compile(r"<[^>\n]*>")
_COUNTED = re.compile(r"(.*)_([0-9]+)")


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading outside of all containers.

    Attributes:
        line: One-based line of the page.
        text: As written, without the characters that make it a heading.
    """

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Section:
    """What stands under one heading.

    Attributes:
        name: Unique on its page; what follows `#` in `page.md#the-code`.
        line: One-based line of its heading.
    """

    name: str
    line: int


def heading_of(line: Line, text: str, paragraph: list[Line], first: int) -> Heading | None:
    """Return the heading that a line of a page makes, if it does.

    Args:
        line: A classified line of prose.
        text: The page's text, to tell whether the line stands in a container.
        paragraph: The lines above it in the same paragraph.
        first: The page's line that the text's line 0 is.
    """
    if line.inside or (line.offset and text[line.offset - 1] != "\n"):
        return None
    match = _HASHES.fullmatch(line.rest)
    if match is not None:
        return Heading(first + line.index, match["text"].strip())
    if _RULE.fullmatch(line.rest) and _begins(paragraph):
        return Heading(first + paragraph[-1].index, paragraph[-1].rest.strip())
    return None


def _begins(paragraph: list[Line]) -> bool:
    """Whether the last line of a paragraph is its first, or follows a heading."""
    if not paragraph or _HASHES.fullmatch(paragraph[-1].rest):
        return False
    return len(paragraph) == 1 or _HASHES.fullmatch(paragraph[-2].rest) is not None


def sections(headings: Iterable[Heading], first_line: int) -> tuple[Section, ...]:
    """Return the sections of a page in order, the one above all headings first.

    Args:
        headings: The page's headings, by line.
        first_line: The line on which the page's text begins.
    """
    found = [Section(TOP, first_line)]
    taken = {TOP}
    for heading in headings:
        name = _unique(_name(heading.text), taken)
        taken.add(name)
        found.append(Section(name, heading.line))
    return tuple(found)


def title(page: PageText) -> str:
    """Return a page's first heading without its markup; its path if it has none."""
    if not page.scan.headings:
        return page.path
    text = _ATTRIBUTES.sub("", page.scan.headings[0].text)
    return _plain(text).replace("*", "").replace("`", "").strip() or page.path


def _plain(text: str) -> str:
    return unescape(_TAG.sub("", _LINK.sub(lambda m: m[1], _DIRECTIVE.sub("", text))))


def _name(text: str) -> str:
    attributes = _ATTRIBUTES.search(text)
    if attributes is not None:
        given = _ID.search(attributes["list"])
        if given is not None:
            return given[1] or given[2]
        text = text[: attributes.start()]
    plain = _plain(text)
    folded = unicodedata.normalize("NFKD", plain).encode("ascii", "ignore").decode("ascii")
    words = re.sub(r"[^\w\s-]", "", folded).strip().lower()
    return re.sub(r"[-\s]+", "-", words)[:_LONGEST]


def _unique(name: str, taken: set[str]) -> str:
    while name in taken or not name:
        match = _COUNTED.fullmatch(name)
        name = f"{match[1]}_{int(match[2]) + 1}" if match else f"{name}_1"
    return name
