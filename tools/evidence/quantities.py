"""Quantities: numbers with a unit and the band that their runs spread over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from evidence import addresses

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evidence.values import Value

_LONGEST_EXPONENT = 5  # digits; a longer one is far outside of any float


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with its unit and band, as pages show it.

    Attributes:
        median: The number itself.
        low: Lower end of its band.
        high: Upper end.
        unit: Empty for none.
        exact: Whether everything that it was made of is exact.
        resolution: Size of the last digit that its makers were printed with;
            0 for whole numbers that are exact.
        samples: Least number of runs behind any of them; 0 for a literal.
        text: As printed, if it is a value and not a result.
        key: What the wildcards of its address stood for.
        literal: Whether it is made of number literals alone.
    """

    median: float
    low: float
    high: float
    unit: str = ""
    exact: bool = True
    resolution: float = 0.0
    samples: int = 0
    text: str | None = None
    key: str = ""
    literal: bool = False


Bound = Quantity | tuple[Quantity, ...]


def of(value: Value, key: str = "") -> Quantity:
    """Return a recorded value as a quantity."""
    return Quantity(
        median=value.median,
        low=value.min,
        high=value.max,
        unit=value.unit,
        exact=value.exact,
        resolution=max(resolution(text, exact=value.exact) for text in value.texts),
        samples=len(value.samples),
        text=value.text,
        key=key,
    )


def bind(
    pattern: str, values: Mapping[str, Value], absent: Mapping[str, str] | None = None
) -> Bound:
    """Return what a name in an expression stands for.

    Args:
        pattern: An address; with a `*` in it the result is a vector.
        values: The values of a record.
        absent: Known reasons for values that are not there.

    Raises:
        AbsentError: There is no such value, and it is known why.
        ExpressionError: Nothing has that address; close ones are listed.
    """
    found = addresses.resolve(pattern, values, absent)
    if "*" not in pattern:
        return of(found[0])
    return tuple(of(value, addresses.captured(pattern, value.address)) for value in found)


def resolution(text: str, *, exact: bool) -> float:
    """Return the size of a printed number's last digit: 0.01 for `1.25`.

    A whole number is taken as counted if it is exact, and as rounded to 1 if
    it is measured.
    """
    mantissa, _, exponent = text.lower().lstrip("+-").partition("e")
    if mantissa in ("nan", "inf") or len(exponent) > _LONGEST_EXPONENT:
        return 0.0
    _, point, decimals = mantissa.partition(".")
    if not point and not exponent:
        return 0.0 if exact else 1.0
    return float(f"1e{int(exponent or 0) - len(decimals)}")
