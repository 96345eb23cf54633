"""The tables over all evidence and all pages as HTML, each by its block's name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evidence.pages import claimlist, coursemap, overview

if TYPE_CHECKING:
    from evidence.pages import shown
    from evidence.pages.bindings import Pages
    from evidence.pages.overview import Link


def html(found: shown.Overview, pages: Pages, link: Link) -> str:
    """Return a table.

    Args:
        found: Which one.
        pages: All pages.
        link: Gives the address of an anchor on a page.
    """
    library = pages.library
    if found.kind == "status":
        return overview.status(library, link)
    if found.kind == "claims":
        return claimlist.claims(pages, link)
    if found.kind == "map":
        return coursemap.drawing(library.course, link)
    if found.kind == "days":
        return coursemap.titles(library.course, link)
    return overview.devices(library, found.ceilings, link)
