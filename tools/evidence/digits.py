"""Digits: a number is shown with those that its spread supports, and no more.

The uncertainty of a measured number is half its band, u = (max - min) / 2, but
never less than its last printed digit. The last digit shown is the one at
10^floor(log10(u)): 0.6602 in a band from 0.655 to 0.671 has u = 0.008 and is
shown as 0.660. At least one significant digit is shown, rounding is half to
even on the decimal value, and a number measured once, or the same in every
run, is shown as printed. Of a result, u is half the band that interval
arithmetic gives it.

An exact number is shown in full, as printed. A result of whole, exact numbers
has as many digits as are asked for; unasked, up to six.

Whole parts of five digits or more are grouped by narrow no-break spaces
(12 345); a unit follows after a no-break space, the sign of a ratio directly.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from fractions import Fraction
from typing import TYPE_CHECKING

from evidence import units
from evidence.errors import ExpressionError

if TYPE_CHECKING:
    from evidence.quantities import Quantity

_FORMAT = re.compile(r"\.(?P<count>[0-9]{1,2})(?P<kind>[fge%])")
_SCALED = re.compile(r"(?P<format>\.[0-9]{1,2}[fge])? *(?P<unit>[^\s.0-9%]\S*)")
_GROUP = "\N{NARROW NO-BREAK SPACE}"
_GAP = "\N{NO-BREAK SPACE}"
_GROUPED_FROM = 5  # digits of the whole part
_UNASKED = 6  # significant digits of an exact result
_SMALLEST, _LARGEST = -5, 15  # decimal exponents written without an e
_ENOUGH = 15  # significant digits that a float has


def show(q: Quantity, fmt: str | None = None) -> str:
    """Return a number with its unit, ready for a page.

    Args:
        q: The number.
        fmt: `.2f` (decimals), `.3g` (significant digits), `.2e` (scientific)
            or `.1%` (a plain number as a percentage). The first three may be
            followed by a unit of another size, `.1f MB`, which may also stand
            alone.

    Raises:
        ExpressionError: The format is none of these, asks for more digits
            than are supported, for a percentage of something with a unit, or
            for a unit that the number's own is not a multiple of.
    """
    scaled = _SCALED.fullmatch(fmt) if fmt else None
    if scaled is not None and units.is_known(scaled["unit"]):
        q, fmt = _in_unit(q, scaled["unit"]), scaled["format"]
    if not math.isfinite(q.median):
        return _with_unit(q.text or str(q.median), q.unit)
    if fmt is None:
        return _with_unit(_unasked(q), q.unit)
    match = _FORMAT.fullmatch(fmt)
    if match is None:
        raise ExpressionError(
            f"`{fmt}` is no format for a number", fix="use one like .2f, .3g, .2e, .1% or .1f MB"
        )
    count, kind = int(match["count"]), match["kind"]
    number, unit, shift = _decimal(q.median), q.unit, 0
    if kind == "%":
        if units.factors(unit):
            raise ExpressionError(
                f"`{fmt}` makes a percentage of a plain number, and this is in `{unit}`",
                fix="use one like .2f",
            )
        number, unit, shift, kind = number.scaleb(2), "%", 2, "f"
    place = _asked(number, count, kind)
    floor = supported(q)
    if floor is not None and place - shift < floor:
        raise ExpressionError(_too_many(q, fmt, floor), fix=f"use {_finest(q, floor, fmt[-1])}")
    return _with_unit(_write(number, place, scientific=kind == "e"), unit)


def _in_unit(q: Quantity, unit: str) -> Quantity:
    """Return a quantity in a unit of another size, the number itself the same."""
    ratio = units.ratio(q.unit, unit)
    if ratio is None:
        raise ExpressionError(
            f"`{unit}` is no unit for a number in `{q.unit or 'no unit'}`",
            fix="use one that differs from it in size alone, as MB from B",
        )
    if ratio == 1:
        return replace(q, unit=unit)
    # As fractions: a float's own digits would be taken for the number's.
    median, low, high = (float(Fraction(repr(n)) * ratio) for n in (q.median, q.low, q.high))
    small = float(Fraction(repr(q.resolution)) * ratio)
    return replace(q, median=median, low=low, high=high, resolution=small, unit=unit, text=None)


def supported(q: Quantity) -> int | None:
    """Return the decimal place of the last digit that a number supports.

    -2 stands for hundredths, 1 for tens; None for a number that has no more
    digits than a float can hold, and ends there.
    """
    if q.exact and q.text is not None:
        return _last_place(q.text)
    if not math.isfinite(q.high - q.low):
        return _last_place(q.text or "0")
    # In decimals: as floats, half of 0.3 - 0.1 is a little less than 0.1.
    half = (_decimal(q.high) - _decimal(q.low)) / 2
    size = max(half, _decimal(q.resolution))
    if not size:
        return _float_place(_decimal(q.median))
    return min(_exponent(size), _exponent(_decimal(q.median)))


def spread(q: Quantity) -> str:
    """Return a band as text, `0.655 to 0.671 ms`; empty for a band of no width.

    Its ends have one digit more than the number itself, and never more than
    were printed.
    """
    if q.low == q.high or not math.isfinite(q.high - q.low):
        return ""
    place = (supported(q) or 0) - 1
    if q.resolution:
        place = max(place, _exponent(_decimal(q.resolution)))
    ends = (_write(_decimal(end), place) for end in (q.low, q.high))
    return _with_unit(" to ".join(ends), q.unit)


def _unasked(q: Quantity) -> str:
    if q.text is not None and (q.exact or q.low == q.high):
        return grouped(q.text)
    number = _decimal(q.median)
    place = supported(q)
    if q.exact and q.resolution == 0:
        # Whole in full, else as far as its decimals go, or six digits.
        whole = number == number.to_integral_value() and _exponent(number) < _LARGEST
        ends = 0 if whole else max(_end(number), _exponent(number) - _UNASKED + 1)
        place = ends if place is None else max(ends, place)
    return _write(number, place or 0)


def _asked(number: Decimal, count: int, kind: str) -> int:
    """Return the place of the last digit that a format asks for."""
    if kind == "f":
        return -count
    wanted = count if kind == "e" else max(count, 1) - 1
    place = _exponent(number) - wanted
    # 9.96 with two digits is 10, whose last digit stands one place higher.
    return _exponent(_rounded(number, place)) - wanted


def _too_many(q: Quantity, fmt: str, place: int) -> str:
    if spread(q):
        why = f"its band, {spread(q)}, supports {_name(place)}"
    elif q.text is not None:
        why = f"it is printed as {q.text}"
    elif q.resolution:
        why = f"the numbers it is made of support {_name(place)}"
    else:
        why = f"a floating-point number has {_ENOUGH} digits"
    return f"`{fmt}` asks for more digits than the number has: {why}"


def _name(place: int) -> str:
    """Name a decimal place, `2 decimals` or `multiples of 10`."""
    if place > 0:
        return f"multiples of 1e{place}" if place >= _LARGEST else f"multiples of {10**place}"
    return f"{-place} decimal{'s' * (place != -1)}"


def _finest(q: Quantity, place: int, kind: str) -> str:
    """Return the format that shows all that is supported."""
    significant = _exponent(_decimal(q.median)) - place + 1
    if kind == "%" and place <= -2:  # noqa: PLR2004
        return f".{-place - 2}%"
    if kind == "e":
        return f".{significant - 1}e"
    if kind == "f" and place <= 0:
        return f".{-place}f"
    return f".{max(significant, 1)}g"


def _decimal(number: float) -> Decimal:
    # repr gives the shortest decimal, which is the one that was printed.
    return Decimal(repr(float(number)))


def _exponent(number: Decimal) -> int:
    return number.adjusted() if number else 0


def _end(number: Decimal) -> int:
    """Return the place of a number's last digit that is not zero."""
    exponent = number.normalize().as_tuple().exponent
    return exponent if isinstance(exponent, int) else 0


def _float_place(number: Decimal) -> int | None:
    """Return the last digit that a float can be trusted with, if it uses it."""
    digits = _exponent(number) - _end(number) + 1
    return _exponent(number) - _ENOUGH + 1 if digits > _ENOUGH else None


def _last_place(text: str) -> int:
    exponent = Decimal(text).as_tuple().exponent
    return exponent if isinstance(exponent, int) else 0


def _rounded(number: Decimal, place: int) -> Decimal:
    with localcontext() as context:
        context.prec = 800  # more digits than lie between the ends of the floats
        return number.quantize(Decimal(1).scaleb(place), rounding=ROUND_HALF_EVEN)


def _write(number: Decimal, place: int, *, scientific: bool = False) -> str:
    """Write a number up to the digit at `place`."""
    rounded = _rounded(number, place)
    if not rounded:
        rounded = abs(rounded)  # never -0.00
    exponent = _exponent(rounded)
    if not scientific and _SMALLEST < exponent < _LARGEST:
        return grouped(f"{rounded if place <= 0 else rounded.to_integral_value():f}")
    mantissa = _rounded(rounded.scaleb(-exponent), place - exponent)
    return f"{mantissa:f}e{exponent:+03d}"


def grouped(text: str) -> str:
    """Return a number with its thousands apart, if it has five digits or more."""
    match = re.fullmatch(rf"([-+]?)([0-9]{{{_GROUPED_FROM},}})(\.[0-9]*)?", text)
    if match is None:
        return text
    sign, whole, rest = match.groups(default="")
    return sign + re.sub(r"(?<=[0-9])(?=(?:[0-9]{3})+$)", _GROUP, whole) + rest


def _with_unit(text: str, unit: str) -> str:
    if not unit:
        return text
    if unit.startswith("1/"):
        return text + unit.removeprefix("1")
    gap = "" if unit == "x" else _GAP
    return f"{text}{gap}{units.shown(unit)}"
