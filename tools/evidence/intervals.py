"""Interval arithmetic over quantities, with units, in exact fractions.

A result's band holds every result of numbers from its operands' bands (R. E.
Moore, *Interval Analysis*, 1966). Fractions make 0.1 + 0.2 equal to 0.3.
Beside the band goes the resolution, the size of the last printed digit, to
first order: no digit can be shown that printing had rounded away.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from evidence import units
from evidence.errors import ExpressionError
from evidence.quantities import Quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_MAX_BITS = 20_000  # of a fraction; nested powers would not end
_PERCENT = Fraction(1, 100)
_TOO_LARGE = "the number is too large"


class Ends(NamedTuple):
    """Median and band of a number."""

    median: Fraction
    low: Fraction
    high: Fraction


@dataclass(frozen=True, slots=True)
class Term:
    """A quantity while it is calculated with.

    Attributes are those of `Quantity`; `finite` is false for nan and inf, and
    then the ends mean nothing.
    """

    ends: Ends
    unit: str = ""
    exact: bool = True
    resolution: Fraction = Fraction(0)
    samples: int = 0
    text: str | None = None
    key: str = ""
    literal: bool = False
    finite: bool = True

    @property
    def plain(self) -> bool:
        """Whether it is a plain number, or a ratio."""
        return not units.factors(self.unit)


def of_quantity(q: Quantity) -> Term:
    """Prepare a quantity for arithmetic."""
    finite = all(math.isfinite(x) for x in (q.median, q.low, q.high, q.resolution))
    numbers = (q.median, q.low, q.high, q.resolution) if finite else (0.0,) * 4
    # repr gives the shortest decimal, which is the one that was printed.
    median, low, high, size = (Fraction(repr(float(x))) for x in numbers)
    ends = Ends(median, low, high)
    return Term(ends, q.unit, q.exact, size, q.samples, q.text, q.key, q.literal, finite)


def of_literal(text: str) -> Term:
    """Return a number literal; its decimal value is kept exactly.

    Raises:
        ExpressionError: It is too large.
    """
    size = float(text)
    if math.isinf(size):
        raise ExpressionError(_TOO_LARGE, fix="use a smaller one")
    number = Fraction(text) if size else Fraction(0)  # Fraction("1e-99999999") would not end
    return Term(Ends(number, number, number), literal=True)


def to_quantity(t: Term) -> Quantity:
    """Return a result of arithmetic as a quantity; nan if it is not finite.

    Raises:
        ExpressionError: It is too large for a floating-point number.
    """
    if not t.finite:
        number = float(t.text) if t.text is not None else math.nan
        numbers = (number, number, number, 0.0)
    else:
        try:
            numbers = (*map(float, t.ends), float(t.resolution))  # type: ignore[assignment]
        except OverflowError:
            raise ExpressionError(_TOO_LARGE, fix="use smaller numbers") from None
    median, low, high, size = numbers
    return Quantity(median, low, high, t.unit, t.exact, size, t.samples, t.text, t.key, t.literal)


def alike(a: Term, b: Term, verb: str) -> tuple[Term, Term]:
    """Bring two terms to one unit, or refuse to.

    A literal takes the other's unit where it is compared, and is a plain
    number where it is added. A `%` that meets a plain number that is no literal
    counts in hundredths; what `1 - share` would mean is not guessed.

    Raises:
        ExpressionError: The units differ.
    """
    if units.same(a.unit, b.unit):
        return a, b
    literals = (a.literal and a.plain, b.literal and b.plain)
    if literals[0] and verb == "compares":
        return replace(a, unit=b.unit), b
    if literals[1] and verb == "compares":
        return a, replace(b, unit=a.unit)
    if "%" in (a.unit, b.unit) and (a.plain or b.plain) and not any(literals):
        return hundredths(a), hundredths(b)
    left, right = (f"`{t.unit}`" if t.unit else "a plain number" for t in (a, b))
    raise ExpressionError(f"{verb} {left} and {right}", fix="bring both to one unit")


def hundredths(a: Term) -> Term:
    """Turn a `%` into the plain number that it stands for."""
    if a.unit != "%":
        return a
    return _made([x * _PERCENT for x in a.ends], "", a.resolution * _PERCENT, [a])


def add(a: Term, b: Term) -> Term:
    """Return a + b."""
    a, b = alike(a, b, "adds")
    ends = [x + y for x, y in zip(a.ends, b.ends, strict=True)]
    return _made(ends, a.unit, a.resolution + b.resolution, [a, b])


def subtract(a: Term, b: Term) -> Term:
    """Return a - b."""
    a, b = alike(a, b, "subtracts")
    x, y = a.ends, b.ends
    ends = [x.median - y.median, x.low - y.high, x.high - y.low]
    return _made(ends, a.unit, a.resolution + b.resolution, [a, b])


def multiply(a: Term, b: Term) -> Term:
    """Return a · b, in the product of the units; a literal changes no unit."""
    if a.literal or b.literal:
        unit = b.unit if a.literal else a.unit
    else:
        a, b = hundredths(a), hundredths(b)
        unit = _product(a, b, 1)
    x, y = a.ends, b.ends
    corners = [u * v for u in x[1:] for v in y[1:]]
    size = abs(x.median) * b.resolution + abs(y.median) * a.resolution
    return _made([x.median * y.median, min(corners), max(corners)], unit, size, [a, b])


def divide(a: Term, b: Term) -> Term:
    """Return a / b, in the quotient of the units; a literal below changes no unit.

    Raises:
        ExpressionError: The divisor's band holds zero.
    """
    if not b.finite:
        b = replace(b, ends=Ends(Fraction(1), Fraction(1), Fraction(1)))
    if b.ends.low <= 0 <= b.ends.high:
        raise ExpressionError(_zero(b.ends), fix="compare products instead")
    if b.literal:
        unit = a.unit
    else:
        a, b = hundredths(a), hundredths(b)
        unit = _product(a, b, -1)
    x, y = a.ends, b.ends
    corners = [u / v for u in x[1:] for v in y[1:]]
    middle = x.median / y.median
    size = (a.resolution + abs(middle) * b.resolution) / abs(y.median)
    return _made([middle, min(corners), max(corners)], unit, size, [a, b])


def power(a: Term, exponent: int) -> Term:
    """Return a whole power, 1 or more."""
    a = hundredths(a)
    median, low, high = (x**exponent for x in a.ends)
    if exponent % 2 == 0:
        low, high = min(low, high), max(low, high)
        if a.ends.low < 0 < a.ends.high:
            low = Fraction(0)
    size = exponent * abs(a.ends.median) ** (exponent - 1) * a.resolution
    return _made([median, low, high], units.power(a.unit, exponent), size, [a])


def negative(a: Term) -> Term:
    """Return -a."""
    return _made([-a.ends.median, -a.ends.high, -a.ends.low], a.unit, a.resolution, [a])


def absolute(a: Term) -> Term:
    """Return |a|."""
    median, low, high = (abs(x) for x in a.ends)
    low, high = min(low, high), max(low, high)
    if a.ends.low < 0 < a.ends.high:
        low = Fraction(0)
    return _made([median, low, high], a.unit, a.resolution, [a])


def extreme(terms: Sequence[Term], pick: Callable[[list[Fraction]], Fraction]) -> Term:
    """Return the least (`pick` is `min`) or the greatest (`max`) of some terms.

    If that is one of them for certain, it keeps its text and its digits.
    """
    level = list(terms)
    for i in range(len(level)):
        for j in range(i):
            level[j], level[i] = alike(level[j], level[i], "compares")
    ends = [pick([t.ends[i] for t in level]) for i in range(3)]
    made = _made(ends, level[0].unit, max(t.resolution for t in level), level)
    for t in level:
        if t.ends == made.ends:
            return replace(made, text=t.text, resolution=t.resolution, key=t.key)
    return made


def _product(a: Term, b: Term, sign: int) -> str:
    if b.plain:
        return "" if a.plain else a.unit
    if a.plain and sign > 0:
        return b.unit
    return units.product(a.unit, b.unit, sign)


def _zero(band: Ends) -> str:
    if band.low == band.high:
        return "divides by zero"
    return f"divides by a number that may be zero, {float(band.low):g} to {float(band.high):g}"


def _made(ends: list[Fraction], unit: str, size: Fraction, parents: Sequence[Term]) -> Term:
    if any(max(x.numerator.bit_length(), x.denominator.bit_length()) > _MAX_BITS for x in ends):
        raise ExpressionError(_TOO_LARGE, fix="use smaller numbers")
    return Term(
        Ends(*ends),
        unit,
        exact=all(t.exact for t in parents),
        resolution=size,
        samples=min((t.samples for t in parents if not t.literal), default=0),
        key=next((t.key for t in parents if t.key), ""),
        literal=all(t.literal for t in parents),
        finite=all(t.finite for t in parents),
    )
