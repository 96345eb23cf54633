"""The glossary: the first sentence of each term's definition, for cards at links to it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from evidence.errors import EvidenceError
from evidence.pages import headings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evidence.pages.library import Library

PAGE = "glossary.md"
"""The page with the terms, relative to the docs: one heading for each of them."""

_SOURCED = re.compile(r"(?<!\\)\[!\s+([^|\]]*?)\s*\|[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*\]")
_BOUND = re.compile(r"(?<!\\)\[=\s")
_LINK = re.compile(r"\[((?:\\.|[^\]\\])*)\](?:\([^)]*\)|\[[^\]]*\])")
_MARKUP = re.compile(r"\\(?=[^\w\s])|[*`]")
_SENTENCE = re.compile(r".*?[.!?](?=\s+[A-Z(]|\s*$)")


def read(library: Library) -> Mapping[str, str]:
    """Return the first sentence of each term by the term's anchor, as plain text."""
    path = library.project.root / library.project.config.docs / PAGE
    if not path.is_file():
        return {}
    try:
        page = library.page(path)
    except EvidenceError:
        return {}  # the page's own findings say so
    lines = page.scan.text.split("\n")
    found = {}
    for section in headings.sections(page.scan.headings, page.first_line):
        sentence = _first(lines[section.line - page.first_line + 1 :])
        if sentence and section.name != headings.TOP:
            found[section.name] = sentence
    return found


def _first(lines: list[str]) -> str:
    """Return the first sentence of the first paragraph; none if it holds a bound number."""
    paragraph: list[str] = []
    for line in lines:
        if line.startswith("#") or (paragraph and not line.strip()):
            break
        if line.strip():
            paragraph.append(line.strip())
    text = " ".join(paragraph)
    if _BOUND.search(text):
        return ""
    plain = _MARKUP.sub("", _LINK.sub(r"\1", _SOURCED.sub(r"\1", text)))
    match = _SENTENCE.match(plain)
    return match[0] if match is not None else plain
