"""The map of the course as HTML: a cell for each day, a line for each prerequisite."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from evidence.pages.course import Course

    Link = Callable[[str, str], str]
    Point = tuple[float, float]

NARROW = 9
"""Cells in a row on a narrow screen."""


def drawing(course: Course, link: Link) -> str:
    """Return the map: modules as rows, days as cells, prerequisites as lines.

    Args:
        course: The course.
        link: Gives the address of an anchor on a page.
    """
    columns = max((len(course.module_of(m.number)) for m in course.modules), default=1)
    wide, narrow = _places(course, columns), _places(course, NARROW, labels=True)
    rows = []
    for module in course.modules:
        cells = "".join(
            _cell(course, number, link, wide, narrow) for number in course.module_of(module.number)
        )
        rows.append(
            f'<li><span class="ev-map-module">{module.number} · {escape(module.title)}</span>'
            f'<ol role="list">{cells}</ol></li>'
        )
    return (
        '<div class="ev-map" data-search-exclude="" '
        f'style="--columns:{columns};--narrow:{NARROW}">{_count(course)}'
        f'<ol class="ev-map-grid" role="list">{"".join(rows)}</ol></div>'
    )


def titles(course: Course, link: Link) -> str:
    """Return the titles of all days, module by module.

    Args:
        course: The course.
        link: Gives the address of an anchor on a page.
    """
    parts = []
    for module in course.modules:
        rows = "".join(
            f'<li id="day-{number}"{"" if number in course.days else _PLANNED}>'
            f'<span class="ev-day-no">{number}</span> <span>{_title(course, number, link)}'
            f"{_needs(course, number, link)}</span></li>"
            for number in course.module_of(module.number)
        )
        parts.append(
            f'<h2 id="module-{module.number}">{module.number} · {escape(module.title)}</h2>'
            f'<ol class="ev-days" role="list">{rows}</ol>'
        )
    return f'<div class="ev-titles">{"".join(parts)}</div>'


_PLANNED = ' class="ev-planned"'


def _count(course: Course) -> str:
    there, planned = len(course.days), len(course.days.keys() | course.planned.keys())
    rest = " The others are planned." if there < planned else ""
    return (
        f'<p class="ev-map-count">{there} of {planned} days are here.{rest}'
        f'<span class="ev-progress"></span></p>'
    )


def _title(course: Course, number: int, link: Link) -> str:
    day, title = course.days.get(number), escape(course.title(number))
    return title if day is None else f'<a href="{escape(link(day.page, ""))}">{title}</a>'


def _needs(course: Course, number: int, link: Link) -> str:
    day = course.days.get(number)
    if day is None or not day.needs:
        return ""
    return f'<span class="ev-needs">builds on {listed(course, day.needs, link)}</span>'


def listed(course: Course, numbers: Iterable[int], link: Link) -> str:
    """Return the numbers of days as HTML, linked where the day is there."""
    return ", ".join(_number(course, number, link) for number in numbers)


def _number(course: Course, number: int, link: Link) -> str:
    day, title = course.days.get(number), escape(course.title(number))
    if day is None:
        about = f"planned: {title}" if title else "planned"
        return f'<span class="ev-planned" title="{about}">{number}</span>'
    return f'<a href="{escape(link(day.page, ""))}" title="{title}">{number}</a>'


def _cell(
    course: Course, number: int, link: Link, wide: dict[int, Point], narrow: dict[int, Point]
) -> str:
    day, title = course.days.get(number), escape(course.title(number))
    if day is None:
        text = f'{number}<span class="ev-map-title">{title} (planned)</span>'
        return f'<li{_PLANNED}><span class="ev-map-cell">{text}</span></li>'
    needs = ", ".join(map(str, day.needs))
    about = f'<span class="ev-map-needs">builds on {needs}</span>' if needs else ""
    near = direct(course, number)
    lines = _lines(number, near, wide, "wide") + _lines(number, near, narrow, "narrow")
    return (
        f'<li><a class="ev-map-cell" href="{escape(link(day.page, ""))}" data-day="{number}">'
        f'{number}<span class="ev-map-title">{title} {about}</span></a>{lines}</li>'
    )


def direct(course: Course, number: int) -> tuple[int, ...]:
    """Return the days that a day builds on and that no other one of them builds on.

    What comes through another day needs no line of its own.
    """
    needs = course.days[number].needs
    through: set[int] = set()
    pending = [need for need in needs if need in course.days]
    seen: set[int] = set()
    while pending:
        day = pending.pop()
        if day not in seen:
            seen.add(day)
            through |= set(course.days[day].needs)
            pending += [need for need in course.days[day].needs if need in course.days]
    return tuple(need for need in needs if need not in through)


def _places(course: Course, columns: int, *, labels: bool = False) -> dict[int, Point]:
    """Return the middle of each day's cell, in cells from the map's upper left corner.

    Args:
        course: The course.
        columns: Cells in a row; a longer module goes on in the next one.
        labels: Whether each module's name takes a row of its own.
    """
    places: dict[int, Point] = {}
    row = 0
    for module in course.modules:
        row += labels
        days = course.module_of(module.number)
        for index, number in enumerate(days):
            places[number] = (index % columns + 0.5, row + index // columns + 0.5)
        row += -(-len(days) // columns)
    places[0] = (columns, row)  # the lower right corner
    return places


def _lines(number: int, needs: Iterable[int], places: dict[int, Point], kind: str) -> str:
    here = places.get(number)
    paths = [_path(places[need], here) for need in needs if here and need in places]
    if not paths:
        return ""
    width, height = places[0]
    return (
        f'<svg class="ev-map-lines ev-map-{kind}" viewBox="0 0 {width:g} {height:g}" '
        f'preserveAspectRatio="none" aria-hidden="true"><path d="{"".join(paths)}"/></svg>'
    )


def _path(a: Point, b: Point) -> str:
    """Return the line from one cell's middle to another's, as SVG has it."""
    (x, y), (to_x, to_y) = a, b
    if y == to_y:
        return f"M{x:g} {y:g}Q{(x + to_x) / 2:g} {y - 0.8:g} {to_x:g} {to_y:g}"
    bend = (to_y - y) / 2
    return f"M{x:g} {y:g}C{x:g} {y + bend:g} {to_x:g} {to_y - bend:g} {to_x:g} {to_y:g}"
