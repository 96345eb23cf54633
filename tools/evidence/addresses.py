"""Finding values by address: exactly, with wildcards, or with a good guess."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

from evidence.errors import ExpressionError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evidence.values import Value


class AbsentError(ExpressionError):
    """A value that has an address and was not measured, with the reason."""


def resolve(
    pattern: str, values: Mapping[str, Value], absent: Mapping[str, str] | None = None
) -> tuple[Value, ...]:
    """Return the values that an address stands for.

    Args:
        pattern: An address; `*` stands for any part of one segment.
        values: What there is.
        absent: Known reasons for what there is not (see `Reading`).

    Returns:
        At least one value; several ones sorted by address, numbers in it
        by size.

    Raises:
        AbsentError: There is no such value, and it is known why.
        ExpressionError: Nothing has that address; close ones are listed.
    """
    if pattern in values:
        return (values[pattern],)
    if "*" in pattern:
        matches = _wildcard(pattern).fullmatch
        found = [address for address in values if matches(address)]
        if found:
            return tuple(values[address] for address in sorted(found, key=_natural))
    for prefix, reason in (absent or {}).items():
        if pattern == prefix or pattern.startswith(f"{prefix}/"):
            raise AbsentError(f"`{pattern}` has no value: {reason}", fix="run: evidence record")
    close = difflib.get_close_matches(pattern, values, n=3, cutoff=0.6)
    hint = f"; close: {', '.join(close)}" if close else ""
    what = "matches no address" if "*" in pattern else "is no address"
    raise ExpressionError(f"`{pattern}` {what}{hint}", fix="list them with: evidence values")


def captured(pattern: str, address: str) -> str:
    """Return what the wildcards of a pattern stand for in an address."""
    match = _wildcard(pattern).fullmatch(address)
    return ", ".join(match.groups()) if match else ""


def _wildcard(pattern: str) -> re.Pattern[str]:
    return re.compile("([^/]*)".join(re.escape(part) for part in pattern.split("*")))


def _natural(address: str) -> list[tuple[int, str]]:
    # `case-256` before `case-1024`; digits at odd places, by their number.
    parts = re.split(r"([0-9]+)", address)
    return [(int(part) if i % 2 else 0, part) for i, part in enumerate(parts)]
