"""Drawing bars that lie under each other, so that their names have room."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evidence.pages import svg
from evidence.pages.drawing import width_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from evidence.pages.drawing import Dot, Drawing

_BAR = 16  # its height
_ROW = 20  # from one bar to the next
_NAME = 20  # the line with a group's name
_TOP = 26
_GAP = 10
_LEAST = 3  # of a band that can be seen


def height(drawing: Drawing) -> int:
    """Return how high a drawing of bars is."""
    groups = _groups(drawing)
    rows = sum(len(bars) for bars in groups.values())
    roofs = len(drawing.roofs) * _ROW
    return _TOP + len(groups) * (_NAME + _GAP) + rows * _ROW + roofs


def _groups(drawing: Drawing) -> dict[str, list[tuple[int, Dot]]]:
    """Return the bars of each group: the series' number, and the number."""
    groups: dict[str, list[tuple[int, Dot]]] = {}
    for index, curve in enumerate(drawing.curves):
        for dot in curve.dots:
            groups.setdefault(dot.at, []).append((index, dot))
    return groups


def paint(figure: Figure, drawing: Drawing) -> None:
    """Paint bars, on axes whose units are pixels counted from the top."""
    axes = figure.add_axes((0, 0, 1, 1), frameon=False)
    axes.set_axis_off()
    axes.set_xlim(0, drawing.width)
    axes.set_ylim(height(drawing), 0)
    dots = [dot for curve in drawing.curves for dot in curve.dots]
    room = max(width_of(_end(drawing, i, dot)) for i, c in enumerate(drawing.curves)
               for dot in c.dots)  # fmt: skip
    highest = max([dot.high for dot in dots] + [level for _, level in drawing.roofs])
    scale = (drawing.width - room - 2 * _GAP) / (highest or 1)
    axes.text(0, 14, drawing.y, color=svg.SOFT, va="baseline")
    y = _roofs(axes, drawing, scale)
    for name, bars in _groups(drawing).items():
        said = f"{drawing.x} = {name}" if drawing.x and name[:1].isdigit() else name
        axes.text(0, y + _NAME - 6, said, color=svg.INK, va="baseline")
        y += _NAME
        for index, dot in bars:
            _bar(axes, y, dot, index, scale)
            end = max(dot.high, dot.y) * scale + 6
            axes.text(end, y + _BAR - 4, _end(drawing, index, dot), color=svg.COLOURS[index],
                      va="baseline")  # fmt: skip
            y += _ROW
        y += _GAP


def _end(drawing: Drawing, index: int, dot: Dot) -> str:
    """Return what stands at a bar's end."""
    label = drawing.curves[index].label
    # A group of one bar has its name above it already.
    named = len(drawing.curves) == 1 or label == dot.at
    return dot.text if named else f"{label} {dot.text}"


def _bar(axes: Axes, y: float, dot: Dot, index: int, scale: float) -> None:
    colour = svg.COLOURS[index]
    axes.barh(y + _BAR / 2, dot.y * scale, _BAR, color=colour, clip_on=False, linewidth=0)
    if (dot.high - dot.low) * scale > _LEAST:
        middle = y + _BAR / 2
        axes.plot([dot.low * scale, dot.high * scale], [middle] * 2, color=svg.INK, linewidth=1.4,
                  marker="|", markersize=8, markeredgewidth=1.4, clip_on=False)  # fmt: skip


def _roofs(axes: Axes, drawing: Drawing, scale: float) -> float:
    """Paint ceilings as lines from top to bottom; return where bars may begin."""
    y = float(_TOP)
    for label, level in drawing.roofs:
        x = level * scale
        axes.plot([x, x], [y + 4, height(drawing)], color=svg.INK, linewidth=1.2, dashes=(1, 2),
                  clip_on=False)  # fmt: skip
        over = x + width_of(label) > drawing.width
        axes.text(x, y, label, color=svg.INK, ha="right" if over else "left", va="baseline")
        y += _ROW
    return y
