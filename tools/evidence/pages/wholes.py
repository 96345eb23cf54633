"""The listing of a whole program: how to build and run it, and where to get it."""

from __future__ import annotations

import base64
from html import escape
from typing import TYPE_CHECKING

from evidence import sources
from evidence.errors import EvidenceError
from evidence.pages import headings, listing

if TYPE_CHECKING:
    from evidence.model import Program
    from evidence.pages.explorer import Link as Explorer
    from evidence.pages.host import Host
    from evidence.pages.library import Library
    from evidence.pages.overview import Link


def figure(
    library: Library,
    host: Host,
    program: Program,
    *,
    explorer: Explorer | None,
    link: Link,
    page: str,
    named: bool,
) -> str:
    """Return the listing of a whole program.

    Args:
        library: Where its source and its pages are found.
        host: What renders the page.
        program: The program.
        explorer: Link to Compiler Explorer.
        link: Gives the address of an anchor on a page.
        page: The page that it stands on, relative to the docs.
        named: Whether it carries anchors.
    """
    text = library.text(program)
    anchors = library.line_anchor(program) if library.source_home(program) == page else None
    to = address(library, host, program, link)
    download = f'<a href="{escape(to)}" download="{escape(program.path.name)}">download</a>'
    return listing.whole(
        program,
        text,
        explorer=explorer,
        anchors=anchors,
        named=named,
        download=download,
        how=_how(library, program, link, page),
    )


def address(library: Library, host: Host, program: Program, link: Link) -> str:
    """Return the link that downloads a program's file."""
    raw = sources.raw(library.project, program)
    if raw and host.has(raw):
        return link(raw, "")
    if program.language == "notebook":
        return _inline(program.path.read_text(encoding="utf-8"))
    return _inline(library.text(program))


def _inline(text: str) -> str:
    """Return a source as an address of its own, where the site does not serve it as a file."""
    packed = base64.b64encode(text.encode("utf-8")).decode("ascii")
    return f"data:text/plain;charset=utf-8;base64,{packed}"


def _how(library: Library, program: Program, link: Link, page: str) -> str:
    """Return the commands of a program, and the page that shows what it printed."""
    rows = [("build", program.build), ("run", program.run)]
    facts = [(name, f"<code>{escape(c.text)}</code>") for name, c in rows if c is not None]
    home = library.home(program)
    if home is not None and home != page:
        facts.append(("about", f'<a href="{escape(link(home, ""))}">{_title(library, home)}</a>'))
    body = "".join(f"<dt>{name}</dt><dd>{html}</dd>" for name, html in facts)
    return f'<dl class="ev-how">{body}</dl>'


def _title(library: Library, page: str) -> str:
    path = library.project.root / library.project.config.docs / page
    try:
        return escape(headings.title(library.page(path)))
    except EvidenceError:
        return escape(page)
