"""When the evidence of a page was last recorded: one line under its title."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from evidence.pages import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evidence.model import Program
    from evidence.pages.library import Library
    from evidence.pages.shown import Bound

_TITLE_ENDS = "</h1>"


def placed(html: str, bound: Bound, library: Library) -> str:
    """Return a page's HTML with the line under its title.

    Only a page that shows recorded output, and has a title in its text, gets one.

    Args:
        html: The page.
        bound: The page, looked up.
        library: Where its evidence is found.
    """
    before, ends, after = html.partition(_TITLE_ENDS)
    text = line(bound, library) if ends else ""
    return f"{before}{ends}\n{text}{after}" if text else html


def line(bound: Bound, library: Library) -> str:
    """Return the line; empty for a page that shows no recorded output."""
    if not any(isinstance(found, shown.Output) for found in bound.shown):
        return ""
    records = [library.state(p, library.device).record for p in dict.fromkeys(_programs(bound))]
    made = [(r.data["recorded"]["date"], r.data["device"]["name"]) for r in records if r]
    if not made:
        return ""
    date, device = max(made)
    return (
        f'<p class="ev-dated">Evidence last recorded '
        f'<time datetime="{escape(date)}">{escape(date)}</time> on {escape(device)}</p>'
    )


def _programs(bound: Bound) -> Iterator[Program]:
    for found in bound.shown:
        if isinstance(found, shown.Output):
            yield found.program
        for source in getattr(found, "sources", ()):
            yield source.program
