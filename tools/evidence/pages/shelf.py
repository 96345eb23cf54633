"""Keeping listings and outputs from the site's search while it reads a page.

A search plugin parses a page element by element, and most of a lesson's
elements belong to highlighted code and recorded tables. While it looks, a
region stands there as plain text, which is what it keeps of it anyway; whole
listings, outputs and what is folded under claims and plots are left out, so that a
search for a word finds where it is explained.
"""

from __future__ import annotations

import re

_PART = re.compile(
    r'<figure class="(?P<kind>ev-code(?: ev-whole| ev-cell)?|ev-output[ \w-]*)".*?</figure>'
    r'|<details class="ev-(?:why|data)">.*?</details>',
    re.DOTALL,
)
_CODE = re.compile(r"<code[^>]*>(.*)</code>", re.DOTALL)
_NUMBERS_AND_TAGS = re.compile(r"<a [^>]*>[0-9]+</a>|<[^>]+>")
_PLACE = re.compile(r"<!--ev:([0-9]+)-->.*?<!--/ev-->", re.DOTALL)


class Shelf:
    """Holds the parts of one page that search does not need to see."""

    def __init__(self) -> None:
        self._parts: list[str] = []

    def take(self, html: str) -> str:
        """Return a page with its parts put aside."""
        self._parts = []
        return _PART.sub(self._aside, html)

    def put_back(self, html: str) -> str:
        """Return the page with its parts where they were."""
        return _PLACE.sub(lambda match: self._parts[int(match[1])], html)

    def _aside(self, match: re.Match[str]) -> str:
        self._parts.append(match[0])
        text = _plain(match[0]) if match["kind"] in ("ev-code", "ev-code ev-cell") else ""
        return f"<!--ev:{len(self._parts) - 1}-->{text}<!--/ev-->"


def _plain(figure: str) -> str:
    """Return a region as a listing without elements."""
    code = _CODE.search(figure)
    return f"<pre><code>{_NUMBERS_AND_TAGS.sub('', code[1])}</code></pre>" if code else ""
