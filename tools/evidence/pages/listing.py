"""Source code as HTML: highlighted lines with their real numbers."""

from __future__ import annotations

from functools import cache
from html import escape
from typing import TYPE_CHECKING

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import CudaLexer, PythonLexer

from evidence.pages import ids

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pygments.lexer import Lexer

    from evidence.model import Language, Program
    from evidence.pages.explorer import Link
    from evidence.regions import Region


def region(
    program: Program,
    shown: Region,
    *,
    full: str | None,
    explorer: Link | None,
    named: bool = True,
) -> str:
    """Return the figure of one region.

    Args:
        program: The program it is cut from.
        shown: The region.
        full: Link to the listing of the whole source, up to and without the
            line's number; None if no page has one.
        explorer: Link to Compiler Explorer.
        named: Whether it carries anchors; it does where it is shown first.
    """
    span = f"lines {shown.first_line}\N{EN DASH}{shown.last_line}"
    if shown.first_line == shown.last_line:
        span = f"line {shown.first_line}"
    links = []
    if full is not None:
        links.append(f'<a href="{escape(full)}{shown.first_line}">full source</a>')
    if explorer is not None:
        links.append(_explorer(explorer))
    anchor = ids.region(program, shown.name)
    own = f' id="{escape(anchor)}"' if named else ""
    code = code_lines(shown.lines, program, link=full, named=named and full is None)
    return (
        f'<figure class="ev-code"{own}>'
        f'<figcaption class="ev-bar"><span class="ev-file">{escape(program.path.name)}</span> '
        f'<span class="ev-region">{escape(shown.name)}</span> '
        f'<span class="ev-span">{span}</span>{_tools(links)}</figcaption>'
        f"{code}</figure>"
    )


def whole(program: Program, text: str, *, explorer: Link | None, named: bool = True) -> str:
    """Return the listing of a whole source, one anchor per line."""
    lines = list(enumerate(text.removesuffix("\n").split("\n"), 1))
    count = f"{len(lines)} lines" if len(lines) != 1 else "1 line"
    links = [] if explorer is None else [_explorer(explorer)]
    own = f' id="{escape(ids.source(program))}"' if named else ""
    code = code_lines(lines, program, link=None, named=named)
    return (
        f'<figure class="ev-code ev-whole"{own} data-search-exclude="">'
        f'<figcaption class="ev-bar"><span class="ev-file">{escape(program.path.name)}</span> '
        f'<span class="ev-span">{count}</span>{_tools(links)}</figcaption>'
        f"{code}</figure>"
    )


def code_lines(
    lines: Iterable[tuple[int, str]], program: Program, *, link: str | None, named: bool
) -> str:
    """Return numbered, highlighted lines.

    Args:
        lines: Numbers and texts.
        program: Gives language and anchors.
        link: Where line numbers lead, up to the number; the line's own
            anchor by default.
        named: Whether the lines carry anchors themselves.
    """
    pairs = list(lines)
    coloured = coloured_lines([text for _, text in pairs], program.language)
    rows = []
    for (number, _), html in zip(pairs, coloured, strict=True):
        anchor = escape(ids.source(program, number))
        target = f"#{anchor}" if link is None else f"{escape(link)}{number}"
        own = f' id="{anchor}"' if named else ""
        rows.append(
            f'<span class="ev-row"{own}><a class="ev-no" href="{target}" tabindex="-1">'
            f"{number}</a>{html}\n</span>"
        )
    return (
        f'<div class="highlight"><pre><code class="language-{program.language}">'
        f"{''.join(rows)}</code></pre></div>"
    )


def coloured_lines(lines: list[str], language: Language) -> list[str]:
    """Return lines as HTML, with Pygments' short class names.

    A token that runs over several lines is closed and opened again at each
    line's end.
    """
    text = "\n".join(lines)
    html: str = highlight(text, _lexer(language), _formatter())
    rows = html.removesuffix("\n").split("\n") if lines else []
    # The lexer may drop nothing and add nothing, or numbers would be wrong.
    return rows + [""] * (len(lines) - len(rows))


@cache
def _lexer(language: Language) -> Lexer:
    kind = CudaLexer if language == "cuda" else PythonLexer
    lexer: Lexer = kind(stripnl=False, ensurenl=False)
    return lexer


@cache
def _formatter() -> HtmlFormatter[str]:
    return HtmlFormatter(nowrap=True)


def _explorer(link: Link) -> str:
    return (
        f'<a href="{escape(link.address)}" rel="noopener external" '
        f'title="opens {escape(link.holds)} with the flags it is built with">'
        f"Compiler Explorer</a>"
    )


def _tools(links: list[str]) -> str:
    if not links:
        return ""
    return f' <span class="ev-tools">{" · ".join(links)}</span>'
