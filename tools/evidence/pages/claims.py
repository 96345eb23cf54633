"""Judging the claims of a page, device by device."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evidence import digits, expressions
from evidence.errors import ExpressionError
from evidence.pages.shown import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evidence.expressions import Expression
    from evidence.pages.names import Names
    from evidence.pages.scan import Block
    from evidence.quantities import Bound
    from evidence.verdicts import Comparison

_MARGIN = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(%?)")
_LABEL = re.compile(r"[a-z0-9][a-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class Terms:
    """What the options of a claim say.

    Attributes:
        devices: The devices it is about; all with evidence if none is named.
        fails_on: The devices on which it must fail.
        margin: Share of the right side by which it must hold.
    """

    devices: tuple[str, ...] = ()
    fails_on: tuple[str, ...] = ()
    margin: float = 0.0


def terms(block: Block) -> Terms:
    """Read the options of a claim.

    Raises:
        ExpressionError: One of them says something impossible.
    """
    option = block.option("margin")
    margin = 0.0
    if option is not None:
        match = _MARGIN.fullmatch(option.text)
        if match is None:
            raise ExpressionError(
                f"`margin: {option.text}` is no share", fix="write `margin: 5 %` or `margin: 0.05`"
            )
        margin = float(match[1]) / (100 if match[2] else 1)
    return Terms(_labels(block, "device"), _labels(block, "fails_on"), margin)


def _labels(block: Block, name: str) -> tuple[str, ...]:
    option = block.option(name)
    if option is None:
        return ()
    labels = tuple(part.strip() for part in option.text.split(","))
    for label in labels:
        if not _LABEL.fullmatch(label):
            raise ExpressionError(
                f"`{name}: {option.text}` names no device", fix=f"write labels, `{name}: h200, t4`"
            )
    return labels


def devices(names: Names, expression: Expression, wanted: Terms) -> list[str]:
    """Return the devices to judge a claim on, the primary one first.

    Those that it names; else the primary one and every other that all its
    programs have evidence of.
    """
    if wanted.devices:
        return list(wanted.devices)
    common = [set(names.devices(name)) for name in expression.names]
    others = set.intersection(*common) if common else set()
    also = others | set(wanted.fails_on)
    return [names.primary, *sorted(also - {names.primary})]


def judge(
    expression: Expression, bound: Mapping[str, Bound], device: str, wanted: Terms
) -> Verdict:
    """Judge a claim on one device.

    Args:
        expression: What must hold.
        bound: What its names stand for there.
        device: The device's label.
        wanted: The claim's options.

    Raises:
        ExpressionError: It cannot be evaluated.
    """
    judged = expressions.judge(expression, bound, margin=wanted.margin)
    fails = judged.outcome == "fails"
    return Verdict(device, judged.outcome, fails == (device in wanted.fails_on), judged.comparisons)


def failing(verdict: Verdict) -> str:
    """Return the comparisons that fail, with numbers: `n-256: 0.08 ms < 0.02 ms`."""
    return "; ".join(written(c) for c in verdict.comparisons if c.outcome == "fails")


def written(comparison: Comparison) -> str:
    """Return a comparison with its numbers put in."""
    about = f"{comparison.key}: " if comparison.key else ""
    left, right = digits.show(comparison.left), digits.show(comparison.right)
    return f"{about}{left} {comparison.sign} {right}"
