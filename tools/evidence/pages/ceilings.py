"""Where the label of a ceiling stands, so that no curve crosses it."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

Point = tuple[float, float]

HIGH = 15
"""Of a line of text, in pixels."""

_ABOVE = 4  # from a ceiling to its label's base line
_STEP = 4  # pixels between the places of a line that are looked at
_MARGIN = 4


def along(corners: list[Point]) -> list[Point]:
    """Return places on a line through some corners, a few pixels apart."""
    found = list(corners)
    for (x, y), (to_x, to_y) in pairwise(corners):
        steps = max(int(max(abs(to_x - x), abs(to_y - y)) / _STEP), 1)
        share = [step / steps for step in range(1, steps)]
        found += [(x + (to_x - x) * s, y + (to_y - y) * s) for s in share]
    return found


def place(level: float, ends: tuple[float, float], wide: float, crossed: Iterable[Point]) -> Point:
    """Return where a ceiling's label begins, and its base line, in pixels from below.

    Above the line and at its left end, unless curves leave more room elsewhere.

    Args:
        level: Where the ceiling is.
        ends: Left and right end of its line.
        wide: Width of the label.
        crossed: Places that curves go through.
    """
    left, right = ends
    last = max(right - wide, left)
    starts = (left, last, (left + last) / 2)
    places = [(x, y) for y in (level + _ABOVE, level - HIGH + _ABOVE) for x in starts]
    spots = list(crossed)
    return min(places, key=lambda at: _covered(spots, at, wide))  # the first of equals


def _covered(spots: list[Point], at: Point, wide: float) -> int:
    x, base = at
    return sum(
        x - _MARGIN <= a <= x + wide + _MARGIN and base - _MARGIN <= b <= base + HIGH - _MARGIN
        for a, b in spots
    )
