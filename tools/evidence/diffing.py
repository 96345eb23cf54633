"""Comparing two records value by value, with the bands that runs spread over.

An exact value changes or does not. A measured one is said to move only if its
new median lies outside of the band that the old runs spread over.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from evidence import digits, markdown, quantities, units, values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evidence.values import Value

Kind = Literal["changed", "left band", "inside band", "same", "added", "removed"]
Style = Literal["human", "markdown"]

# In the order in which they are shown; the first four say something new.
KINDS: tuple[Kind, ...] = ("changed", "left band", "removed", "added", "inside band", "same")
QUIET: frozenset[Kind] = frozenset({"inside band", "same"})


@dataclass(frozen=True, slots=True)
class Change:
    """One address in two records.

    Attributes:
        address: The address.
        kind: `changed` (an exact value or a unit), `left band`, `inside band`
            (measured), `same` (exact), `added` or `removed`.
        old: The value before; None if it was added.
        new: The value now; None if it was removed.
    """

    address: str
    kind: Kind
    old: Value | None
    new: Value | None

    @property
    def factor(self) -> float | None:
        """Return the new median over the old one, if that says anything."""
        if self.old is None or self.new is None or not self.old.median:
            return None
        factor = self.new.median / self.old.median
        return factor if self.kind != "same" and 0 < factor < float("inf") else None


def compare(
    old: dict[str, Any], new: dict[str, Any], extra: tuple[tuple[str, str], ...] = ()
) -> tuple[Change, ...]:
    """Compare the documents of two records.

    Args:
        old: The record before, or of one device.
        new: The record now, or of another device.
        extra: (name, regular expression) of the program's plan.

    Returns:
        One change for every address of either, in the old one's order.
    """
    before, after = values.of_record(old, extra), values.of_record(new, extra)
    return tuple(
        _change(address, before.get(address), after.get(address)) for address in before | after
    )


def _change(address: str, old: Value | None, new: Value | None) -> Change:
    if old is None or new is None:
        return Change(address, "added" if old is None else "removed", old, new)
    if not units.same(old.unit, new.unit):
        return Change(address, "changed", old, new)
    if old.exact and new.exact:
        same = old.text == new.text
        return Change(address, "same" if same else "changed", old, new)
    inside = old.min <= new.median <= old.max
    return Change(address, "inside band" if inside else "left band", old, new)


def render(
    changes: Sequence[Change],
    labels: tuple[str, str],
    style: Style = "human",
    *,
    full: bool = False,
) -> str:
    """Write changes as text that ends with a line feed.

    Args:
        changes: From `compare`.
        labels: What the old and the new record are called.
        style: `human` or `markdown`, a table either way.
        full: Whether what says nothing new is listed too.
    """
    listed = [c for kind in KINDS for c in changes if c.kind == kind]
    listed = [c for c in listed if full or c.kind not in QUIET]
    rows = [(str(c.kind), c.address, _shown(c.old), _shown(c.new), _factor(c)) for c in listed]
    head = ("", "address", *labels, "new/old")
    table = _markdown(head, rows) if style == "markdown" else _aligned(head, rows)
    return f"{table}{summary(changes)}\n"


def summary(changes: Sequence[Change]) -> str:
    """Return how many changes of each kind there are, as a sentence."""
    counts = [(kind, sum(c.kind == kind for c in changes)) for kind in KINDS]
    listed = ", ".join(f"{count} {kind}" for kind, count in counts if count)
    return f"{len(changes)} values compared: {listed}" if changes else "no values to compare"


def _shown(value: Value | None) -> str:
    if value is None:
        return "-"
    quantity = quantities.of(value)
    band = digits.spread(quantity)
    return f"{digits.show(quantity)} ({band})" if band else digits.show(quantity)


def _factor(change: Change) -> str:
    return "" if change.factor is None else f"{change.factor:.3g}"


def _aligned(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    if not rows:
        return ""
    table = [head, *rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(head))]
    lines = ("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in table)
    return "".join(f"{line.rstrip()}\n" for line in lines) + "\n"


def _markdown(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    text, code = markdown.text, markdown.code
    cells = [
        (kind, code(address), *map(text, (old, new, factor)))
        for kind, address, old, new, factor in rows
    ]
    return markdown.table([text(title) for title in head], cells, right=1)


def change_json(change: Change) -> dict[str, Any]:
    """Return a change for programs to read."""
    return {
        "address": change.address,
        "kind": change.kind,
        "old": value_json(change.old),
        "new": value_json(change.new),
        "factor": change.factor,
    }


def value_json(value: Value | None) -> dict[str, Any] | None:
    """Return a value for programs to read; numbers as their texts say them."""
    if value is None:
        return None
    return {
        "address": value.address,
        "unit": value.unit,
        "exact": value.exact,
        "median": value.text,
        "min": _text(value, value.min),
        "max": _text(value, value.max),
        "texts": list(value.texts),
        "source": value.source,
        "spans": [[s.run, s.line, s.start, s.end] for s in value.spans],
    }


def _text(value: Value, number: float) -> str:
    return value.text if math.isnan(number) else value.texts[value.samples.index(number)]
