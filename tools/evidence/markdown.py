"""Markdown that other people's programs cannot shape: every text is only text.

What a program prints, a file's name or a branch's name may hold anything. Unless it
is plain, it is written as code of which every sign is an entity: no table, link,
mention, issue number or tag can come out of it, on GitHub or elsewhere.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# Spaces of quantities among them; no sign that means anything in Markdown or HTML.
_PLAIN = re.compile(
    r"[A-Za-z0-9 .,;:()+=/%'\u00a0\u00b2\u00b3\u00b5\u00b7\u00d7\u03bc\u2009\u202f\u2192-]*"
)
_LINKS = re.compile(r"www\.|:/|(?i:\bgh-\d)|:[a-z0-9+-]+:")
_CODE = re.compile(r"[\w./+-]+", re.ASCII)


def text(value: str) -> str:
    """Return a text as it stands if it is plain, else as code."""
    if _PLAIN.fullmatch(value) and not _LINKS.search(value):
        return value
    return code(value)


def code(value: str) -> str:
    """Return a text as code."""
    if _CODE.fullmatch(value):
        return f"`{value}`"
    plain = (
        c if c == " " or (c.isalnum() and c.isascii()) else f"&#{ord(c)};" for c in _line(value)
    )
    return f"<code>{''.join(plain)}</code>"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: int = 0) -> str:
    """Return a table that ends with an empty line; "" without rows.

    Args:
        head: Titles; plain texts of ours.
        rows: Cells from `text` and `code`.
        right: How many of the last columns are numbers.
    """
    if not rows:
        return ""
    rule = ["---"] * (len(head) - right) + ["---:"] * right
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, rule, *rows)) + "\n"


def _line(value: str) -> str:
    shown = (c if c.isprintable() else "\ufffd" for c in " ".join(value.split()))
    return "".join(shown) or " "
