"""Source code as HTML: highlighted lines with their real numbers.

A line is its number, a link, and its text; nothing is wrapped around it. A
lesson shows hundreds of lines, and every element costs its reader bytes and
the site's build time, which goes by elements: only what has a colour of its
own gets one.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from evidence.pages import colours, ids

if TYPE_CHECKING:
    from collections.abc import Iterable

    from evidence.model import Language, Program
    from evidence.pages.explorer import Link
    from evidence.regions import Region


def region(
    program: Program,
    shown: Region,
    *,
    text: str,
    full: str | None,
    explorer: Link | None,
    named: bool = True,
    first: bool = True,
) -> str:
    """Return the figure of one region.

    Args:
        program: The program it is cut from.
        shown: The region.
        text: The program's source.
        full: Link to the listing of the whole source, up to and without the
            line's number; None if no page has one.
        explorer: Link to Compiler Explorer.
        named: Whether it carries anchors; it does where it is shown first.
        first: Whether the page has shown no other region of this program.
    """
    span = f"lines {shown.first_line}\N{EN DASH}{shown.last_line}"
    if shown.first_line == shown.last_line:
        span = f"line {shown.first_line}"
    links = []
    if full is not None:
        links.append(f'<a href="{escape(full)}{shown.first_line}">full source</a>')
    if explorer is not None:
        links.append(_explorer(explorer, ids.explorer(program), first=first))
    anchor = ids.region(program, shown.name)
    own = f' id="{escape(anchor)}"' if named else ""
    # Where the whole is listed too, its lines are coloured already.
    coloured = _alone(shown, program.language) if full is None else _cut(shown, text, program)
    anchors = f"{ids.source(program)}~"
    code = _lines(coloured, program, anchors, link=full, named=named and full is None)
    return (
        f'<figure class="ev-code"{own}>'
        f'<figcaption class="ev-bar"><span class="ev-file">{escape(program.path.name)}</span> '
        f'<span class="ev-region">{escape(shown.name)}</span> '
        f'<span class="ev-span">{span}</span>{_tools(links)}</figcaption>'
        f"{code}</figure>"
    )


def whole(
    program: Program,
    text: str,
    *,
    explorer: Link | None,
    anchors: str | None = None,
    named: bool = True,
    download: str = "",
    how: str = "",
) -> str:
    """Return the listing of a whole source, one anchor per line.

    Args:
        program: The program.
        text: Its source.
        explorer: Link to Compiler Explorer.
        anchors: What its lines' anchors begin with.
        named: Whether it carries anchors; only one listing of a page may
            carry those of a program.
        download: A link to the source itself, as HTML.
        how: What stands between its title and its lines, as HTML.
    """
    lines = _coloured(text, program)
    count = f"{len(lines)} lines" if len(lines) != 1 else "1 line"
    links = [download] if download else []
    links += [] if explorer is None else [_explorer(explorer)]
    own = f' id="{escape(ids.source(program))}"' if named else ""
    begin = anchors if anchors is not None else f"{ids.source(program)}~"
    code = _lines(enumerate(lines, 1), program, begin, link=None, named=named)
    return (
        f'<figure class="ev-code ev-whole"{own} data-search-exclude="">'
        f'<figcaption class="ev-bar"><span class="ev-file">{escape(program.path.name)}</span> '
        f'<span class="ev-span">{count}</span>{_tools(links)}</figcaption>'
        f"{how}{code}</figure>"
    )


def _lines(
    lines: Iterable[tuple[int, str]],
    program: Program,
    anchors: str,
    *,
    link: str | None,
    named: bool,
) -> str:
    """Return numbered lines.

    Args:
        lines: Numbers, and lines as HTML.
        program: Gives the language.
        anchors: What the lines' own anchors begin with.
        link: Where line numbers lead, up to the number; the line's own
            anchor by default.
        named: Whether the lines carry anchors themselves.
    """
    begin = escape(anchors)
    target = f"#{begin}" if link is None else escape(link)
    if named:
        rows = [
            f'<a id="{begin}{number}" href="{target}{number}" tabindex="-1">{number}</a>{html}\n'
            for number, html in lines
        ]
    else:
        rows = [
            f'<a href="{target}{number}" tabindex="-1">{number}</a>{html}\n'
            for number, html in lines
        ]
    return (
        f'<div class="highlight"><pre><code class="language-{_name(program)}">'
        f"{''.join(rows)}</code></pre></div>"
    )


def _name(program: Program) -> str:
    return "python" if program.language == "notebook" else program.language


def _alone(shown: Region, language: Language) -> Iterable[tuple[int, str]]:
    """Return a region's lines, coloured without what stands around them."""
    numbers = [number for number, _ in shown.lines]
    text = "\n".join(line for _, line in shown.lines)
    return zip(numbers, colours.lines(text, language), strict=True)


def _coloured(text: str, program: Program) -> tuple[str, ...]:
    return colours.lines(text.removesuffix("\n"), program.language)


def _cut(shown: Region, text: str, program: Program) -> Iterable[tuple[int, str]]:
    """Return a region's lines out of the coloured whole."""
    coloured, plain = _coloured(text, program), text.split("\n")
    for number, line in shown.lines:
        indent = len(plain[number - 1]) - len(line) if line else None
        yield number, _dedented(coloured[number - 1], indent)


def _dedented(html: str, indent: int | None) -> str:
    """Take leading white space off a coloured line; None makes it blank."""
    if indent is None:
        return ""
    # The white space stands in front, or first in an element.
    begin = html.index(">") + 1 if html.startswith("<span ") and indent else 0
    return html[:begin] + html[begin + indent :]


def _explorer(link: Link, anchor: str = "", *, first: bool = True) -> str:
    """Return the link to Compiler Explorer.

    It carries the source, so a page's regions of one program have it once:
    others lead to the first one, and a script makes them lead where it does.
    """
    own = f'id="{escape(anchor)}" ' if anchor else ""
    place = f'{own}href="{escape(link.address)}"' if first else f'href="#{escape(anchor)}"'
    return (
        f'<a {place} rel="noopener external" title="opens {escape(link.holds)} with the flags it '
        f'is built with">Compiler Explorer</a>'
    )


def _tools(links: list[str]) -> str:
    if not links:
        return ""
    return f' <span class="ev-tools">{" · ".join(links)}</span>'
