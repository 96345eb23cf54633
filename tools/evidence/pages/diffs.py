"""Looking up what a diff compares: two regions or programs, and values of both."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from evidence import addresses, digits, expressions, quantities, units
from evidence.errors import EvidenceError, ExpressionError
from evidence.pages import entries, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evidence.model import Program
    from evidence.pages.binder import Binder
    from evidence.pages.directives import Block, Option
    from evidence.pages.entries import Entry
    from evidence.pages.library import Library
    from evidence.pages.shown import Outcome
    from evidence.quantities import Quantity

CODE = "bad-diff"
ARROW = " -> "
"""Stands between the two addresses of a value that has another name in each program."""

_QUOTIENT = expressions.parse("new / old")


def bind(binder: Binder, block: Block) -> shown.Diff:
    """Look up a diff.

    Args:
        binder: The page's.
        block: The block `diff`.

    Raises:
        Refused: Something about it is wrong.
    """
    try:
        return _bind(binder, block)
    except EvidenceError as error:
        raise binder.refused(CODE, error.line or block.line, error) from None


def _bind(binder: Binder, block: Block) -> shown.Diff:
    old, new = (_code(binder, block, side) for side in ("old", "new"))
    if old == new:
        line = _option(block, "new").line
        raise EvidenceError("both sides are the same code", line=line, fix="name two")
    listed = entries.read(block, "values")
    if listed and old.program is new.program:
        fix = "remove `values:`, or compare two programs"
        raise EvidenceError("one program has no values to compare", line=listed[0].line, fix=fix)
    programs = (old.program, new.program)
    values = [row for entry in listed for row in _values(binder, entry, programs)]
    return shown.Diff(old, new, tuple(values))


def spelled(library: Library, block: Block, near: tuple[str, ...]) -> Iterator[tuple[Program, str]]:
    """Yield the addresses that a diff shows, with their programs.

    Raises:
        EvidenceError: Something about it is wrong, which its look-up says.
    """
    names = [_option(block, side).text.partition(":")[0].strip() for side in ("old", "new")]
    programs = [library.program(name, near) for name in names]
    for entry in entries.read(block, "values"):
        yield from zip(programs, _sides(entry), strict=True)


def _option(block: Block, name: str) -> Option:
    option = block.option(name)
    if option is None or not option.text:
        raise EvidenceError(
            f"a diff has no `{name}:`", line=block.line, fix=f"add `    {name}: file.cu:region`"
        )
    return option


def _code(binder: Binder, block: Block, side: str) -> shown.Code:
    option = _option(block, side)
    return binder.code(option.text, option.line)


def _sides(entry: Entry) -> tuple[str, str]:
    old, arrow, new = (part.strip() for part in entry.what.partition(ARROW))
    return old, new if arrow else old


def _values(
    binder: Binder, entry: Entry, programs: tuple[Program, Program]
) -> Iterator[shown.Compared]:
    found = [
        _found(binder, program, address, entry)
        for program, address in zip(programs, _sides(entry), strict=True)
    ]
    keys = [key for key in found[0] if key in found[1]]
    if not keys:
        raise EvidenceError(
            f"`{entry.what}` stands for nothing that both programs have: "
            f"{', '.join(found[0])} and {', '.join(found[1])}",
            line=entry.line,
            fix="use a wildcard that matches the same in both",
        )
    for key in keys:
        old, new = found[0][key], found[1][key]
        label = f"{entry.label}, {key}" if key else entry.label
        outcome, factor = _compare(old, new, entry)
        yield shown.Compared(label, old, new, outcome, factor)


def _found(binder: Binder, program: Program, address: str, entry: Entry) -> dict[str, shown.Number]:
    """Return the values of an address in a program by what its wildcards stood for."""
    library, device = binder.library, binder.library.device
    binder.believe(program, device, entry.line)
    state = library.state(program, device)
    if state.record is None:
        raise EvidenceError(state.findings[0].message, line=entry.line, fix=state.findings[0].fix)
    reading = library.reading(program, device)
    try:
        values = addresses.resolve(address, reading.values, reading.absent)
    except ExpressionError as error:
        message = f"`{entry.label}`: of {program.name}, {error.message}"
        raise EvidenceError(message, line=entry.line, fix=error.fix) from None
    found = {}
    for value in values:
        quantity = quantities.of(value)
        about = f"{program.name}:{value.address}"
        source = shown.Source(value.address, program, value)
        number = shown.Number(digits.show(quantity), value.address, (source,), about, quantity)
        found[addresses.captured(address, value.address)] = number
    return found


def _compare(old: shown.Number, new: shown.Number, entry: Entry) -> tuple[Outcome, str]:
    """Say how two values compare, and by what factor they differ if they do."""
    a, b = old.quantity, new.quantity
    if a is None or b is None:
        raise AssertionError(entry)
    if not units.same(a.unit, b.unit):
        raise EvidenceError(
            f"`{entry.label}` is in `{a.unit or 1}` before and in `{b.unit or 1}` after",
            line=entry.line,
            fix="compare one unit at a time",
        )
    if a.exact and b.exact and a.text == b.text:
        return "the same", ""
    if not (a.exact and b.exact) and a.low <= b.high and b.low <= a.high:
        return "within noise", ""
    return "changed", _factor(a, b)


def _factor(old: Quantity, new: Quantity) -> str:
    if not new.median:
        return ""
    try:
        quotient = expressions.evaluate(_QUOTIENT, {"old": old, "new": new})
    except ExpressionError:
        return ""  # of nothing, or of what may be nothing
    return digits.show(replace(quotient, unit="x"))
