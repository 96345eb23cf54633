"""Looking up what a plot shows: its series, its ceilings, its axes.

Knows nothing of drawing, so that `evidence check` can judge plots without it.
"""

from __future__ import annotations

import difflib
import math
from typing import TYPE_CHECKING, NoReturn

from evidence import units
from evidence.errors import EvidenceError
from evidence.pages import entries, points, shown
from evidence.pages.entries import Entry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evidence.pages.binder import Binder
    from evidence.pages.directives import Block

CODE = "bad-plot"
KINDS = ("line", "scatter", "bar")
MOST = 6  # series that can be told apart

_AXES = ("x", "y")


def bind(binder: Binder, block: Block) -> shown.Plot:
    """Look up a plot.

    Args:
        binder: The page's.
        block: The block `plot`.

    Raises:
        Refused: Something about it is wrong.
    """
    try:
        return _Plotter(binder, block).run()
    except EvidenceError as error:
        raise binder.refused(CODE, error.line or block.line, error) from None


class _Plotter:
    def __init__(self, binder: Binder, block: Block) -> None:
        self.binder = binder
        self.block = block

    def run(self) -> shown.Plot:
        kind = self._kind()
        log = self._log(kind)
        listed, roofs = entries.read(self.block, "series"), entries.read(self.block, "ceiling")
        if not listed:
            fix = "add `    series:`, and under it, indented deeper, `label: name`"
            _wrong(self.block.line, "a plot has no series", fix)
        if len(listed) > MOST:
            message = f"{len(listed)} series cannot be told apart"
            _wrong(listed[MOST].line, message, f"plot {MOST} at most")
        places = points.Places(self.binder, self._at(kind), categories=kind == "bar")
        series = tuple(shown.Series(entry.label, places.points(entry)) for entry in listed)
        ceilings = tuple(
            shown.Roof(entry.label, points.only(self.binder, entry)) for entry in roofs
        )
        drawn = [(p.number, e) for s, e in zip(series, listed, strict=True) for p in s.points]
        drawn += [(roof.number, e) for roof, e in zip(ceilings, roofs, strict=True)]
        unit = _unit(drawn)
        _check(drawn, log)
        if "x" in log and any(point.x <= 0 for one in series for point in one.points):
            _wrong(self._line("log"), "0 has no place on a log axis", "drop the x axis from `log:`")
        return shown.Plot(
            kind, self._text("title"), self._text("x"), self._text("y"), unit, log, series, ceilings
        )

    def _text(self, name: str) -> str:
        option = self.block.option(name)
        return option.text if option is not None else ""

    def _line(self, name: str) -> int:
        option = self.block.option(name)
        return option.line if option is not None else self.block.line

    def _kind(self) -> str:
        kind = self._text("kind") or KINDS[0]
        if kind not in KINDS:
            close = difflib.get_close_matches(kind, KINDS, n=1)
            fix = f"did you mean `{close[0]}`?" if close else f"use {', '.join(KINDS)}"
            _wrong(self._line("kind"), f"`{kind}` is no kind of plot", fix)
        return kind

    def _log(self, kind: str) -> tuple[str, ...]:
        axes = tuple(part.strip() for part in self._text("log").split(",") if part.strip())
        for axis in axes:
            if axis not in _AXES:
                fix = "write `log: x`, `log: y` or `log: x, y`"
                _wrong(self._line("log"), f"`{axis}` is no axis", fix)
        if axes and kind == "bar":
            fix = "remove `log:`, or use `kind: scatter`"
            _wrong(self._line("log"), "a bar's length means nothing on a log axis", fix)
        return axes

    def _at(self, kind: str) -> Entry | None:
        option = self.block.option("at")
        if option is None:
            return None
        if kind == "bar":
            _wrong(option.line, "bars stand under each other, at no place", "remove `at:`")
        return Entry("at", option.text, option.line)


def _wrong(line: int, message: str, fix: str) -> NoReturn:
    raise EvidenceError(message, line=line, fix=fix)


def _unit(drawn: Sequence[tuple[shown.Number, Entry]]) -> str:
    """Return the unit of everything on the y axis."""
    found = [(n.quantity.unit if n.quantity is not None else "", entry) for n, entry in drawn]
    unit = found[0][0]
    for other, entry in found:
        if not units.same(unit, other):
            message = f"`{entry.label}` is in `{other or 1}`, and the axis in `{unit or 1}`"
            _wrong(entry.line, message, "plot one unit at a time")
    return unit


def _check(drawn: Sequence[tuple[shown.Number, Entry]], log: Sequence[str]) -> None:
    for number, entry in drawn:
        quantity = number.quantity
        if quantity is None or not math.isfinite(quantity.median):
            _wrong(entry.line, f"`{entry.label}` is {number.text}, which is nowhere", "mend it")
        elif "y" in log and quantity.low <= 0:
            message = f"`{entry.label}` is {number.text}, which has no place on a log axis"
            _wrong(entry.line, message, "drop the y axis from `log:`")
