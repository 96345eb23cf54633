"""Drawing a plot as SVG, with matplotlib.

Plain data in, text out, and the same text for the same data: `svg` drops dates and
random names. Text stays text. matplotlib is imported with the first drawing, which
takes a second; `evidence check` never draws.
"""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evidence import digits
from evidence.pages import ceilings, svg
from evidence.quantities import Quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

VERSION = 2
"""Changes whenever the same data would be drawn otherwise."""

_POINTS = 72  # per inch: a figure's unit is then a drawing's pixel
_SIZE = 12  # of text, in pixels
_LETTER = 6.6  # its mean width, in the site's face
_LINE = 15  # from one line of text to the next
_GAP = 6
_MARKERS = ("o", "s", "^", "D", "v", "P")
_DASHES = ((), (6, 2), (2, 2), (8, 2, 2, 2), (4, 1), (1, 1))
_MARK = 6  # width of a dot
_MOST_TICKS = 9
_FEW = 3  # ticks that make an axis


@dataclass(frozen=True, slots=True)
class Dot:
    """One number: its place, its band, and both as readers see them."""

    x: float
    low: float
    y: float
    high: float
    at: str
    text: str


@dataclass(frozen=True, slots=True)
class Curve:
    """Dots that belong together, from left to right."""

    label: str
    dots: tuple[Dot, ...]


@dataclass(frozen=True, slots=True)
class Drawing:
    """Everything that a drawing depends on.

    Attributes:
        kind: `line`, `scatter` or `bar`.
        x: What stands along the x axis.
        y: What stands along the y axis, with its unit.
        log: Axes that are logarithmic, of `x` and `y`.
        curves: What is drawn.
        roofs: Lines across it, with their labels.
        width: In CSS pixels.
    """

    kind: str
    x: str
    y: str
    log: tuple[str, ...]
    curves: tuple[Curve, ...]
    roofs: tuple[tuple[str, float], ...]
    width: int


def draw(drawing: Drawing) -> str:
    """Draw; see `svg.clean` for what the text looks like."""
    import matplotlib as mpl  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    from evidence.pages import bars  # noqa: PLC0415  # which needs this module

    fixed: dict[Any, Any] = {
        "svg.fonttype": "none",
        "font.size": _SIZE,
        "text.parse_math": False,
    }
    with mpl.rc_context(fixed):
        height = bars.height(drawing) if drawing.kind == "bar" else 320
        size = (drawing.width / _POINTS, height / _POINTS)
        figure = Figure(figsize=size, dpi=_POINTS, frameon=False)
        (bars.paint if drawing.kind == "bar" else paint)(figure, drawing)
        stream = io.StringIO()
        figure.savefig(stream, format="svg")
    return svg.clean(stream.getvalue(), drawing.width, height)


def width_of(text: str) -> float:
    """Return about how many pixels a line of text takes."""
    return len(text) * _LETTER


def paint(figure: Figure, drawing: Drawing) -> None:
    """Paint curves over two axes."""
    _, height = figure.get_size_inches() * _POINTS
    labels = [_wrapped(curve.label, drawing.width) for curve in drawing.curves]
    right = 12 + max(width_of(line) for label in labels for line in label)
    axes = figure.add_axes((0, 0, 1, 1), frameon=False)
    axes.set_xscale("log" if "x" in drawing.log else "linear")
    axes.set_yscale("log" if "y" in drawing.log else "linear")
    for index, curve in enumerate(drawing.curves):
        _curve(axes, curve, index, drawing.kind)
    _limits(axes, drawing)
    heights = _y_ticks(axes, drawing)
    left = 10 + max((width_of(number(tick)) for tick in heights), default=0)
    top, bottom = 30, 42
    box = (left, bottom, drawing.width - left - right, height - top - bottom)
    axes.set_position((box[0] / drawing.width, box[1] / height,
                       box[2] / drawing.width, box[3] / height))  # fmt: skip
    _x_ticks(axes, drawing)
    _bands(axes, drawing)
    _frame(axes, heights)
    _write(figure, 0, height - 10, _said(drawing.y, "y" in drawing.log), svg.SOFT)
    said = _said(drawing.x, "x" in drawing.log)
    _write(figure, drawing.width - right + 4, 6, said, svg.SOFT, anchor="right")
    _roofs(figure, axes, drawing, left)
    _labels(figure, axes, drawing, labels)


def number(value: float) -> str:
    """Return a position on an axis as readers see it."""
    return digits.show(Quantity(value, value, value))


def _said(title: str, log: bool) -> str:
    return ", ".join(part for part in (title, "log scale" if log else "") if part)


def _wrapped(label: str, width: int) -> list[str]:
    """Cut a label into lines that leave room for what it is about."""
    lines: list[str] = []
    for word in label.split():
        if lines and width_of(f"{lines[-1]} {word}") <= width / 4:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def _write(
    figure: Figure, x: float, y: float, text: str, colour: str, anchor: str = "left"
) -> None:
    """Write text at a place in pixels, `y` from below to its base line."""
    width, height = figure.get_size_inches() * _POINTS
    figure.text(x / width, y / height, text, color=colour, ha=anchor, va="baseline")


def _curve(axes: Axes, curve: Curve, index: int, kind: str) -> None:
    colour = svg.COLOURS[index]
    xs, ys = [dot.x for dot in curve.dots], [dot.y for dot in curve.dots]
    (line,) = axes.plot(
        xs, ys, color=colour, marker=_MARKERS[index], markersize=_MARK, linewidth=1.8, clip_on=False
    )
    line.set_markeredgewidth(0)
    if kind == "scatter":
        line.set_linestyle("none")
    elif _DASHES[index]:
        line.set_dashes(_DASHES[index])


def _bands(axes: Axes, drawing: Drawing) -> None:
    """Draw how far the runs of each number spread, where it is more than the mark hides."""
    for index, curve in enumerate(drawing.curves):
        for dot in curve.dots:
            ends = axes.transData.transform([(dot.x, dot.low), (dot.x, dot.high)])
            if ends[1][1] - ends[0][1] > _MARK:
                axes.plot([dot.x] * 2, [dot.low, dot.high], color=svg.COLOURS[index],
                          linewidth=1.4, marker="_", markersize=8, markeredgewidth=1.4,
                          clip_on=False)  # fmt: skip


def _limits(axes: Axes, drawing: Drawing) -> None:
    dots = [dot for curve in drawing.curves for dot in curve.dots]
    ends = [end for dot in dots for end in (dot.low, dot.high)]
    ends += [level for _, level in drawing.roofs]
    axes.set_xlim(*_padded([dot.x for dot in dots], "x" in drawing.log))
    low, high = _padded(ends, "y" in drawing.log)
    from_zero = "y" not in drawing.log and min(ends) >= 0
    axes.set_ylim(0.0 if from_zero else low, high)


def _padded(numbers: list[float], log: bool) -> tuple[float, float]:
    """Return limits with room for marks at both ends."""
    low, high = min(numbers), max(numbers)
    if log:
        room = max((high / low) ** 0.06, 1.1)
        return low / room, high * room
    room = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    return low - room, high + room


def _y_ticks(axes: Axes, drawing: Drawing) -> list[float]:
    from matplotlib.ticker import LogLocator, MaxNLocator  # noqa: PLC0415

    low, high = axes.get_ylim()
    if "y" not in drawing.log:
        found = MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
    else:
        subs = (1.0,) if high / low > 100 else (1.0, 2.0, 5.0)  # noqa: PLR2004
        found = LogLocator(subs=subs, numticks=_MOST_TICKS).tick_values(low, high)
    ticks = [float(tick) for tick in found if low <= tick <= high]
    axes.set_yticks(ticks, [number(tick) for tick in ticks])
    axes.minorticks_off()
    return ticks


def _x_ticks(axes: Axes, drawing: Drawing) -> None:
    """Put ticks where the dots lie, and label those that have room."""
    dots = {dot.x: dot.at for curve in drawing.curves for dot in curve.dots}
    places = sorted(dots)
    doubled = [place for place in places if "x" in drawing.log and math.log2(place).is_integer()]
    if len(places) > _MOST_TICKS and len(doubled) >= _FEW:
        places = doubled
    elif len(places) > _MOST_TICKS:
        low, high = axes.get_xlim()
        places = [float(t) for t in axes.xaxis.get_major_locator()() if low <= t <= high]
    labels, free = [], float("inf")
    for place in reversed(places):
        text = dots.get(place) or number(place)
        at = axes.transData.transform((place, axes.get_ylim()[0]))[0]
        fits = at + width_of(text) / 2 + _GAP <= free
        labels.append(text if fits else "")
        free = at - width_of(text) / 2 if fits else free
    axes.set_xticks(places, labels[::-1])
    axes.minorticks_off()


def _frame(axes: Axes, heights: list[float]) -> None:
    axes.tick_params(color=svg.RULE, labelcolor=svg.SOFT, length=4, width=1, pad=3)
    axes.tick_params(axis="y", length=0)
    for tick in heights:
        axes.axhline(tick, color=svg.RULE, linewidth=1, zorder=0.5, clip_on=False)
    axes.plot([0, 1], [0, 0], transform=axes.transAxes, color=svg.SOFT, linewidth=1,
              clip_on=False, zorder=1)  # fmt: skip


def _roofs(figure: Figure, axes: Axes, drawing: Drawing, left: float) -> None:
    right = float(axes.transAxes.transform((1.0, 0.0))[0])
    crossed = [spot for curve in drawing.curves for spot in ceilings.along(_pixels(axes, curve))]
    for label, level in drawing.roofs:
        axes.axhline(level, color=svg.INK, linewidth=1.2, dashes=(1, 2), clip_on=False, zorder=2)
        y = float(axes.transData.transform((axes.get_xlim()[0], level))[1])
        start, base = ceilings.place(y, (left, right), width_of(label), crossed)
        _write(figure, start, base, label, svg.INK)


def _pixels(axes: Axes, curve: Curve) -> list[tuple[float, float]]:
    spots = (axes.transData.transform((dot.x, dot.y)) for dot in curve.dots)
    return [(float(x), float(y)) for x, y in spots]


def _labels(figure: Figure, axes: Axes, drawing: Drawing, labels: list[list[str]]) -> None:
    """Write each curve's label behind its last dot, none over another."""
    ends = [curve.dots[-1] for curve in drawing.curves]
    places = [axes.transData.transform((dot.x, dot.y)) for dot in ends]
    free = 0.0
    for index in sorted(range(len(ends)), key=lambda i: (places[i][1], i)):
        x, y = places[index]
        lines = labels[index]
        middle = max(y, free + len(lines) * _LINE / 2)
        free = middle + len(lines) * _LINE / 2
        for row, text in enumerate(lines):
            base = middle + (len(lines) / 2 - row) * _LINE - _LINE + 4
            _write(figure, x + 10, base, text, svg.COLOURS[index])
