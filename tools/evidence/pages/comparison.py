"""A diff as HTML: code side by side, and values with what became of them."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING
from xml.etree.ElementTree import tostring

from evidence.pages import colours, linediff, render

if TYPE_CHECKING:
    from evidence.pages.linediff import Ranges, Row
    from evidence.pages.render import Href
    from evidence.pages.shown import Code, Compared, Diff, Number

_COLUMNS = '<colgroup><col class="ev-at"><col><col class="ev-at"><col></colgroup>'
_PIECE = re.compile(r"<[^>]+>|&[^;]+;|.", re.DOTALL)


class Side:
    """One side of a comparison of code.

    Args:
        code: The region, or the whole program.
        text: The program's source.
        full: Link to the listing of the whole source, up to and without the
            line's number; None if no page has one.
    """

    def __init__(self, code: Code, text: str, full: str | None) -> None:
        if code.region is not None:
            lines = code.region.lines
        else:
            lines = tuple(enumerate(text.removesuffix("\n").split("\n"), 1))
        self.numbers = [number for number, _ in lines]
        self.lines = [line for _, line in lines]
        self.full = full
        file = f'<span class="ev-file">{escape(code.program.path.name)}</span>'
        region = "" if code.region is None else escape(code.region.name)
        self.title = f'{file} <span class="ev-region">{region}</span>' if region else file
        self._coloured = colours.lines("\n".join(self.lines), code.program.language)

    def cells(self, index: int | None, sign: str, words: Ranges, kind: str) -> str:
        """Return the cells of a line: its number, and its text; empty ones for no line.

        Args:
            index: The line's.
            sign: What stands before a line that is not the same.
            words: The columns in which it differs.
            kind: Class of a line that is not the same.
        """
        if index is None:
            return '<td class="ev-none"></td><td class="ev-none"></td>'
        number = str(self.numbers[index])
        if self.full is not None:
            number = f'<a href="{escape(self.full)}{number}" tabindex="-1">{number}</a>'
        html = marked(self._coloured[index], words) if words else self._coloured[index]
        said = f'<b class="ev-what">{sign}</b>' if sign else ""
        own = f' class="{kind}"' if sign else ""
        return f'<td class="ev-at">{number}</td><td{own}>{said}<code>{html}</code></td>'


def figure(diff: Diff, old: Side, new: Side, href: Href) -> str:
    """Return the figure of a diff.

    Args:
        diff: What is compared.
        old: Its old side.
        new: Its new side.
        href: Gives the finished link to a source's place.
    """
    found = linediff.rows(old.lines, new.lines)
    rows = "".join(_row(row, old, new) for row in linediff.folded(found))
    return (
        f'<figure class="ev-diff"><table class="ev-changes highlight">{_COLUMNS}<thead><tr>'
        f'<th colspan="2" scope="col">{old.title}</th><th colspan="2" scope="col">{new.title}</th>'
        f"</tr></thead><tbody>{rows}</tbody></table>{_values(diff, href)}</figure>"
    )


def _row(row: Row | int, old: Side, new: Side) -> str:
    if isinstance(row, int):
        lines = "one line" if row == 1 else f"{row} lines"
        return f'<tr class="ev-left-out"><td colspan="4">{lines} the same</td></tr>'
    same = ' class="ev-same"' if row.kind == "same" else ""
    before = "\N{MINUS SIGN}" if row.kind in ("changed", "removed") else ""
    after = "+" if row.kind in ("changed", "added") else ""
    return (
        f"<tr{same}>{old.cells(row.old, before, row.old_words, 'ev-old')}"
        f"{new.cells(row.new, after, row.new_words, 'ev-new')}</tr>"
    )


def marked(html: str, ranges: Ranges) -> str:
    """Put marks around columns of a coloured line.

    Args:
        html: The line, whose elements are not nested.
        ranges: The columns of its text, in order.
    """
    made: list[str] = []
    column, is_open = 0, False
    for piece in _PIECE.findall(html):
        is_tag = piece.startswith("<")
        inside = not is_tag and any(start <= column < end for start, end in ranges)
        if is_open and not inside:
            made.append("</mark>")
        if inside and not is_open:
            made.append("<mark>")
        is_open = inside
        made.append(piece)
        column += not is_tag
    return "".join(made) + ("</mark>" if is_open else "")


def _values(diff: Diff, href: Href) -> str:
    if not diff.values:
        return ""
    old, new = (code.program.path.name for code in (diff.old, diff.new))
    rows = "".join(_value(value, href) for value in diff.values)
    return (
        '<div class="ev-scroll" tabindex="0"><table class="ev-table"><thead><tr><td></td>'
        f'<th scope="col">{escape(old)}</th><th scope="col">{escape(new)}</th>'
        f'<th scope="col">new against old</th></tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _value(value: Compared, href: Href) -> str:
    said = f"{value.outcome}, {value.factor}" if value.factor else value.outcome
    kind = value.outcome.replace(" ", "-")
    return (
        f'<tr><th scope="row">{escape(value.label)}</th><td>{_number(value.old, href)}</td>'
        f'<td>{_number(value.new, href)}</td><td class="ev-{kind}">{escape(said)}</td></tr>'
    )


def _number(number: Number, href: Href) -> str:
    return tostring(render.number(number, href, href), encoding="unicode", method="html")
