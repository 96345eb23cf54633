"""Units of printed numbers: which are alike, and what a product is in.

A unit is what a program printed, `ms`, `GB/s`, `blocks/SM`. Nothing is
converted from one size to another unless a page asks for it, and never in an
expression: there `ms` and `us` are two units. Spellings of
one unit are known (`bytes`, `byte`, `B`), a ratio (`12x`) has no unit, and
factors that stand above and below a quotient cancel.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

# Spelling → the one that is calculated with. `x` is a ratio: no unit at all.
_ALIKE = {
    "byte": "B", "bytes": "B", "bit": "bits",
    "us": "µs", "μs": "µs", "usecond": "µs", "microseconds": "µs",
    "nsecond": "ns", "nanoseconds": "ns", "msecond": "ms", "milliseconds": "ms",
    "sec": "s", "second": "s", "seconds": "s", "min": "min", "minutes": "min",
    "cycle": "cycles", "clk": "cycles", "clock": "cycles", "clocks": "cycles",
    "FLOPS": "FLOP/s", "x": "",
}  # fmt: skip
_ALIKE |= {f"{p}FLOPS": f"{p}FLOP/s" for p in ("k", "K", "M", "G", "T", "P")}
# Spelling → how a page shows it; the profiler's own words read badly.
_SHOWN = {
    "byte": "B", "us": "µs", "μs": "µs", "usecond": "µs", "nsecond": "ns",
    "msecond": "ms", "second": "s", "cycle": "cycles", "x": "\N{MULTIPLICATION SIGN}",
}  # fmt: skip

TIME = frozenset({"h", "min", "s", "ms", "µs", "ns", "ps", "cycles"})
_RATE = re.compile(r"[kKMGTP]?(?:Hz|W|bps|IPS)|[mµ]W")
_SIZE = re.compile(r"(?:[kKMGTPE]i?)?(?:B|bits|FLOP|FLOPs|OPs|J)|%|m?J")
_FACTOR = re.compile(r"(?P<sign>[/·*]?)(?P<name>[^/·*^]+)(?:\^(?P<power>-?[0-9]+))?")

_PREFIX = {"": 1, "k": 10**3, "K": 10**3} | {
    f"{letter}{binary}": (1024 if binary else 1000) ** power
    for binary in ("", "i")
    for power, letter in enumerate("KMGTPE", 1)
    if letter != "K" or binary
}
_PREFIXED = re.compile(
    r"(?P<prefix>(?:[KMGTPE]i|[kKMGTPE])?)(?P<base>B|bits|bps|FLOPs?|OPs?|Hz|IPS|W|J)"
)
_SECONDS = {
    "h": Fraction(3600), "min": Fraction(60), "s": Fraction(1), "ms": Fraction(1, 10**3),
    "µs": Fraction(1, 10**6), "ns": Fraction(1, 10**9), "ps": Fraction(1, 10**12),
}  # fmt: skip

Factors = tuple[tuple[str, int], ...]


@lru_cache(maxsize=1024)
def factors(unit: str) -> Factors:
    """Cut a unit into its factors and their powers, sorted by name.

    `GB/s` gives `(("GB", 1), ("s", -1))`; two units are the same if and only
    if this is the same.
    """
    powers: dict[str, int] = {}
    _collect(unit.strip(), 1, powers)
    return tuple(sorted((name, power) for name, power in powers.items() if power))


def _collect(unit: str, sign: int, powers: dict[str, int]) -> None:
    for match in _FACTOR.finditer(unit):
        name = match["name"].strip()
        power = int(match["power"] or 1) * (-sign if match["sign"] == "/" else sign)
        alike = _ALIKE.get(name, name)
        if alike != name and "/" in alike:
            _collect(alike, power, powers)
        elif alike not in ("", "1"):
            powers[alike] = powers.get(alike, 0) + power


def same(one: str, other: str) -> bool:
    """Whether two units are the same, however they are spelt."""
    return one == other or factors(one) == factors(other)


def product(one: str, other: str, sign: int = 1) -> str:
    """Return the unit of a product, or with `sign` -1 of a quotient."""
    powers = dict(factors(one))
    for name, power in factors(other):
        powers[name] = powers.get(name, 0) + sign * power
    return compose(tuple(sorted(powers.items())))


def power(unit: str, exponent: int) -> str:
    """Return the unit of a power."""
    return compose(tuple((name, p * exponent) for name, p in factors(unit)))


def compose(parts: Factors) -> str:
    """Write factors as one unit, `GB·s^2/ms`."""
    above = "·".join(_factor(name, p) for name, p in parts if p > 0)
    below = "".join(f"/{_factor(name, -p)}" for name, p in parts if p < 0)
    return f"{above or '1'}{below}" if below else above


def _factor(name: str, exponent: int) -> str:
    return name if exponent == 1 else f"{name}^{exponent}"


def shown(unit: str) -> str:
    """Return a unit as a page shows it."""
    return _SHOWN.get(unit, unit)


def ratio(unit: str, other: str) -> Fraction | None:
    """Return how many of `other` make one `unit`; None if they are not of one kind.

    `ratio("B", "MB")` is 1/1000000. Prefixes are those of the SI, and Ki, Mi, … of
    IEC 80000-13.
    """
    result = Fraction(1)
    bases: dict[str, int] = {}
    for sign, parts in ((1, factors(unit)), (-1, factors(other))):
        for name, power in parts:
            base, size = _sized(name)
            result *= size ** (sign * power)
            bases[base] = bases.get(base, 0) + sign * power
    return None if any(bases.values()) else result


def _sized(name: str) -> tuple[str, Fraction]:
    """Cut a unit into what it counts and how many of these it is."""
    if name in _SECONDS:
        return "s", _SECONDS[name]
    match = _PREFIXED.fullmatch(name)
    if match is None:
        return name, Fraction(1)
    base = {"FLOPs": "FLOP", "OPs": "OP"}.get(match["base"], match["base"])
    return base, Fraction(_PREFIX[match["prefix"]])


@lru_cache(maxsize=1024)
def is_timing(unit: str) -> bool:
    """Whether a unit is one of time or of a rate, or has one in it."""
    return any(name in TIME or _RATE.fullmatch(name) for name, _ in factors(unit))


@lru_cache(maxsize=1024)
def is_known(unit: str) -> bool:
    """Whether a word is surely a unit, and not just any word in parentheses."""
    parts = factors(unit)
    known = (name in TIME or _RATE.fullmatch(name) or _SIZE.fullmatch(name) for name, _ in parts)
    return unit == "x" or (bool(parts) and all(known))
