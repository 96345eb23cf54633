"""Verdicts on claims: comparisons over bands, not over medians alone.

A comparison *holds* if it does for every pair of numbers from the two bands,
*holds within noise* if it does for the medians while the bands overlap, and
*fails* otherwise. What is not a finite number fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from evidence.errors import ExpressionError
from evidence.intervals import Ends, alike, to_quantity

if TYPE_CHECKING:
    from evidence.intervals import Term
    from evidence.quantities import Quantity

Outcome = Literal["holds", "holds within noise", "fails"]
_ORDER: tuple[Outcome, ...] = ("holds", "holds within noise", "fails")


@dataclass(frozen=True, slots=True)
class Comparison:
    """One comparison of a claim, judged.

    Attributes:
        left_text: The left side as written.
        sign: `<`, `<=`, `>`, `>=`, `==` or `!=`.
        right_text: The right side as written.
        left: Its median and band, in the unit they are compared in.
        right: The same of the right side.
        key: Which element of a wildcard this is about; empty for none.
        outcome: The verdict on this comparison.
    """

    left_text: str
    sign: str
    right_text: str
    left: Quantity
    right: Quantity
    key: str
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Verdict:
    """A claim, judged.

    Attributes:
        comparisons: Every comparison that was looked at, at least one.
    """

    comparisons: tuple[Comparison, ...]

    def __post_init__(self) -> None:
        if not self.comparisons:
            raise ExpressionError("the claim looked at nothing", fix="compare a recorded value")

    @property
    def outcome(self) -> Outcome:
        """Return the worst outcome of all comparisons."""
        return max((c.outcome for c in self.comparisons), key=_ORDER.index)

    @property
    def holds(self) -> bool:
        """Whether no comparison fails; the medians all agree with the claim."""
        return self.outcome != "fails"

    @property
    def looked_at(self) -> int:
        """Return how many comparisons were made, elements of vectors one by one."""
        return len(self.comparisons)


def compare(
    sides: tuple[Term, Term], texts: tuple[str, str], sign: str, key: str, margin: float
) -> Comparison:
    """Judge one comparison.

    Args:
        sides: Left and right.
        texts: Both as written.
        sign: The comparison.
        key: Which element of a vector this is.
        margin: Share of the right side by which it has to hold.

    Raises:
        ExpressionError: The units differ, only literals are compared, or a
            margin is asked of an equality.
    """
    if sides[0].literal and sides[1].literal:
        raise ExpressionError("only literals are compared", fix="compare a recorded value")
    left, right = alike(*sides, "compares")
    moved = _moved(right.ends, sign, margin)
    outcome: Outcome = "fails"
    if left.finite and right.finite and _median_holds(sign, left.ends, moved):
        outcome = "holds" if _band_holds(sign, left.ends, moved) else "holds within noise"
    return Comparison(texts[0], sign, texts[1], to_quantity(left), to_quantity(right), key, outcome)


def _moved(right: Ends, sign: str, margin: float) -> Ends:
    """Move the right side by the margin, against the claim."""
    if not 0 <= margin < 1:
        raise ExpressionError(f"a margin of {margin:g} is not between 0 and 1", fix="use 0.05")
    if not margin:
        return right
    if sign in ("==", "!="):
        raise ExpressionError(f"a margin has no meaning for {sign}", fix="use < or >")
    share = Fraction(repr(margin)) * (-1 if sign[0] == "<" else 1)
    # Each end moves by itself: x ± share·|x| rises with x.
    return Ends(*(x + share * abs(x) for x in right))


def _median_holds(sign: str, a: Ends, b: Ends) -> bool:
    return {
        "<": a.median < b.median,
        "<=": a.median <= b.median,
        ">": a.median > b.median,
        ">=": a.median >= b.median,
        "==": a.median == b.median,
        "!=": a.median != b.median,
    }[sign]


def _band_holds(sign: str, a: Ends, b: Ends) -> bool:
    return {
        "<": a.high < b.low,
        "<=": a.high <= b.low,
        ">": a.low > b.high,
        ">=": a.low >= b.high,
        "==": a.low == a.high == b.low == b.high,
        "!=": a.high < b.low or a.low > b.high,
    }[sign]
