"""A plot as HTML: drawings for a wide and a narrow place, and a table of its numbers."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING
from xml.etree.ElementTree import tostring

from evidence import units
from evidence.pages import drawings, render
from evidence.pages.drawing import Curve, Dot, Drawing

if TYPE_CHECKING:
    from pathlib import Path

    from evidence.pages.render import Href
    from evidence.pages.shown import Number, Plot, Point, Series

WIDE, NARROW = 640, 304
"""Widths of the two drawings, in CSS pixels: a column's, and a small phone's."""

_NAMES = {"line": "Line chart", "scatter": "Scatter chart", "bar": "Bar chart"}


def drawn(plot: Plot, anchor: str, cache: Path | None) -> str:
    """Return both drawings; a style sheet shows the one that fits.

    Args:
        plot: The plot.
        anchor: Begins the names of titles and descriptions.
        cache: Folder that keeps drawings from build to build; None for none.
    """
    html = []
    for width, kind in ((WIDE, "wide"), (NARROW, "narrow")):
        text = drawings.get(_drawing(plot, width), cache)
        title, about = f"{anchor}~{kind}~title", f"{anchor}~{kind}~about"
        named = f' width="{width}" aria-labelledby="{title} {about}"'
        said = f'<title id="{title}">{escape(_title(plot))}</title>'
        said += f'<desc id="{about}">{escape(_about(plot))}</desc>'
        svg = text.replace("{named}", named, 1).replace("{about}", said, 1)
        html.append(f'<div class="ev-drawing ev-{kind}">{svg}</div>')
    return "".join(html)


def table(plot: Plot, href: Href) -> str:
    """Return the folded table of a plot's numbers, each with its place.

    Args:
        plot: The plot.
        href: Gives the finished link to a source's place.
    """
    places: dict[str, dict[str, Point]] = {}
    for series in plot.series:
        for point in series.points:
            places.setdefault(point.at, {})[series.label] = point
    if plot.kind != "bar":
        order = {at: min(p.x for p in found.values()) for at, found in places.items()}
        places = {at: places[at] for at in sorted(places, key=order.__getitem__)}
    head = "".join(f'<th scope="col">{escape(s.label)}</th>' for s in plot.series)
    rows = [_row(at, found, plot.series, href) for at, found in places.items()]
    rows += [
        f'<tr><th scope="row">{escape(roof.label)}</th>'
        f'<td colspan="{len(plot.series)}">{_cell(roof.number, href)}</td></tr>'
        for roof in plot.roofs
    ]
    corner = f'<th scope="col">{escape(plot.x)}</th>' if plot.x else "<td></td>"
    caption = f"<caption>{escape(_axis(plot))}</caption>"
    return (
        '<details class="ev-data"><summary>The numbers</summary>'
        f'<div class="ev-scroll" tabindex="0"><table class="ev-table">{caption}'
        f"<thead><tr>{corner}{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
        f"</div></details>"
    )


def _row(at: str, found: dict[str, Point], series: tuple[Series, ...], href: Href) -> str:
    cells = (
        _cell(found[s.label].number, href) if s.label in found else "\N{EN DASH}" for s in series
    )
    row = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<tr><th scope="row">{escape(at)}</th>{row}</tr>'


def _cell(number: Number, href: Href) -> str:
    return tostring(render.number(number, href, href), encoding="unicode", method="html")


def _drawing(plot: Plot, width: int) -> Drawing:
    curves = tuple(Curve(s.label, tuple(_dot(p) for p in s.points)) for s in plot.series)
    roofs = tuple((f"{r.label}, {r.number.text}", _height(r.number)) for r in plot.roofs)
    return Drawing(plot.kind, plot.x, _axis(plot), plot.log, curves, roofs, width)


def _dot(point: Point) -> Dot:
    quantity = point.number.quantity
    low, high = (quantity.low, quantity.high) if quantity is not None else (0.0, 0.0)
    return Dot(point.x, low, _height(point.number), high, point.at, point.number.text)


def _height(number: Number) -> float:
    return number.quantity.median if number.quantity is not None else 0.0


def _axis(plot: Plot) -> str:
    """Return what stands along the y axis, with its unit."""
    unit = units.shown(plot.unit)
    if plot.y and unit:
        return f"{plot.y} ({unit})"
    return plot.y or unit


def _title(plot: Plot) -> str:
    if plot.title:
        return plot.title
    names = ", ".join(series.label for series in plot.series)
    over = f" over {plot.x}" if plot.x else ""
    return f"{_axis(plot)}{over}: {names}" if _axis(plot) else names


def _about(plot: Plot) -> str:
    """Say in words what is drawn."""
    log = f" with log scale on {' and '.join(plot.log)}" if plot.log else ""
    said = [f"{_NAMES[plot.kind]}{log}."]
    for series in plot.series:
        first, last = series.points[0], series.points[-1]
        text = f"{series.label}: {first.number.text} at {first.at}"
        if first is not last:
            text += f", {last.number.text} at {last.at}"
        said.append(f"{text}.")
    said += [f"{roof.label}: {roof.number.text}, a line across." for roof in plot.roofs]
    return " ".join(said)
