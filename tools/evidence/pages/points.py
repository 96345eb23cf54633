"""The numbers of a plot's series, and where on the x axis they lie."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from evidence import digits, expressions
from evidence.errors import EvidenceError
from evidence.pages import entries, grounds, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evidence.expressions import Expression
    from evidence.pages.binder import Binder
    from evidence.pages.entries import Entry
    from evidence.quantities import Quantity

_CUT = re.compile(r"[0-9]\*|\*[0-9]")
_DIGITS = re.compile(r"[0-9]+(?:\.[0-9]+)?")


class Places:
    """Where the points of a plot lie.

    Args:
        binder: The page's.
        at: What the option `at:` holds, if the plot has one.
        categories: Whether points stand side by side, each under its name.
    """

    def __init__(self, binder: Binder, at: Entry | None, *, categories: bool) -> None:
        self._binder = binder
        self._categories = categories
        self._at = at is not None
        found = [] if at is None else [n.quantity for n in _numbers(binder, at)]
        self._listed = [quantity for quantity in found if quantity is not None]
        self._by_key = {quantity.key: quantity for quantity in self._listed if quantity.key}

    def points(self, entry: Entry) -> tuple[shown.Point, ...]:
        """Return the points of a series, from left to right.

        Raises:
            Refused: Something cannot be looked up.
            EvidenceError: A point has no place.
        """
        parts = entries.parts(self._binder, entry.what, entry.line)
        found = [numbers(self._binder, part, entry.line) for part in parts]
        if len(found) == 1:
            keys, values = list(found[0]), list(found[0].values())
        else:
            if any("" not in each for each in found):
                raise EvidenceError(
                    "a list holds single values, and one of these is a vector",
                    line=entry.line,
                    fix="give it a line of its own",
                )
            keys, values = self._keys(parts, entry), [each[""] for each in found]
        if self._listed and not self._by_key and len(self._listed) != len(values):
            raise EvidenceError(
                f"{len(values)} values, but {len(self._listed)} places in `at:`",
                line=entry.line,
                fix="give each its place",
            )
        placed = [self._place(key, index, entry) for index, key in enumerate(keys)]
        made = [shown.Point(x, at, n) for (x, at), n in zip(placed, values, strict=True)]
        return tuple(sorted(made, key=lambda point: point.x))

    def _keys(self, parts: Sequence[Expression], entry: Entry) -> list[str]:
        """Return what tells the values of a list apart."""
        if self._categories or self._at:
            return [part.text for part in parts]
        names = self._binder.names
        keys = differing([names.place(p.names[0])[1] if p.names else "" for p in parts])
        if keys is None:
            raise EvidenceError(
                "the addresses of this list do not differ in one number alone",
                line=entry.line,
                fix="say where they lie: `at: 256, 1024`",
            )
        return keys

    def _place(self, key: str, index: int, entry: Entry) -> tuple[float, str]:
        if self._categories:
            return float(index), key or entry.label
        if self._at and (self._by_key or not self._listed):
            if key not in self._by_key:
                raise EvidenceError(
                    f"`at:` has no place for `{key}`", line=entry.line, fix="use the same wildcard"
                )
            return self._by_key[key].median, digits.show(self._by_key[key])
        if self._at:
            return self._listed[index].median, digits.show(self._listed[index])
        found = _DIGITS.findall(key)
        if len(found) != 1 or ", " in key or self._is_cut(entry):
            what = f"its wildcards stand for `{key}`" if key else "it is a single value"
            raise EvidenceError(
                f"`{entry.what}` has no place on the x axis: {what}",
                line=entry.line,
                fix="use a wildcard that stands for one number, or say `at:`",
            )
        return float(found[0]), digits.grouped(found[0])

    def _is_cut(self, entry: Entry) -> bool:
        """Whether a wildcard stands for a part of a number, `n-1*`."""
        names = self._binder.names
        parts = entries.parts(self._binder, entry.what, entry.line)
        return any(_CUT.search(names.place(n)[1]) for part in parts for n in part.names)


def only(binder: Binder, entry: Entry) -> shown.Number:
    """Return the one number that an entry stands for.

    Raises:
        Refused: It cannot be looked up.
        EvidenceError: It stands for several.
    """
    found = _numbers(binder, entry)
    if len(found) != 1:
        raise EvidenceError(
            f"`{entry.what}` is {len(found)} values, and a ceiling is one",
            line=entry.line,
            fix="choose one, `max(…)`",
        )
    return found[0]


def _numbers(binder: Binder, entry: Entry) -> list[shown.Number]:
    return [
        number
        for part in entries.parts(binder, entry.what, entry.line)
        for number in numbers(binder, part, entry.line).values()
    ]


def numbers(binder: Binder, expression: Expression, line: int) -> dict[str, shown.Number]:
    """Return the elements of an expression by what its wildcards stood for.

    Raises:
        Refused: It cannot be evaluated.
    """
    bound = binder.bound(expression, line)
    try:
        found = expressions.elements(expression, bound)
    except EvidenceError as error:
        raise binder.refused("bad-expression", line, error) from None
    return {q.key: _number(binder, expression, q) for q in found.quantities}


def _number(binder: Binder, expression: Expression, quantity: Quantity) -> shown.Number:
    sources: list[shown.Source] = []
    for name in expression.names:
        by_key = binder.names.by_key(name, binder.library.device)
        sources += [by_key[quantity.key]] if quantity.key in by_key else by_key.values()
    about = grounds.about(expression, binder.names.place)
    if len(sources) == 1 and expression.text == sources[0].name:
        about = f"{sources[0].program.name}:{sources[0].value.address}"
    elif quantity.key:
        about = f"{about} at {quantity.key}"
    text = digits.show(quantity)
    return shown.Number(text, expression.text, tuple(sources), about, quantity)


def differing(addresses: Sequence[str]) -> list[str] | None:
    """Return the one number in which addresses differ, for each of them; None if none is."""
    found = [_DIGITS.findall(address) for address in addresses]
    if len({_DIGITS.sub("0", address) for address in addresses}) != 1:
        return None
    differ = [column for column in zip(*found, strict=True) if len(set(column)) > 1]
    return list(differ[0]) if len(differ) == 1 else None
