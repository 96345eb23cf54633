"""Reading what a program printed, in the house format, into addressed numbers.

A line at column 0 opens a section; lines indented by two spaces or more belong
to it; cells are separated by two or more spaces. A line of words directly
followed by a row of numbers heads a table, `section/row/column`; any other
line is a fact, `label   value unit   (note)`, with address `section/label`.

Nothing with a digit is passed over in silence: what fits nothing is listed as
unread, and what could be read in two ways is a problem.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from evidence import units
from evidence.labels import slug, split_known, split_label

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["Output", "Parsed", "Unread", "read", "slug"]

_NUMBER = r"[-+]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|nan|inf)"
_VALUE = re.compile(
    rf"(?P<number>{_NUMBER})(?:(?P<sign>[x%])|\x20(?P<unit>(?:[^\W\d_]|[%°])[\w/%^*-]*))?"
    r"(?:\x20\(.*\))?"
)
_CELL = re.compile(r"\S+(?: \S+)*")
_DIGIT = re.compile(r"[0-9]")
_STARTS_LIKE_NUMBER = re.compile(r"[-+.]?[0-9]")
# A label that ends like this has swallowed a number of the next column.
_SWALLOWED = re.compile(rf".* {_NUMBER}|.*[0-9]\.[0-9]+(?:[eE][-+]?[0-9]+)?")
_NOTHING = frozenset({"-", "--", "—", "n/a", "none", "skipped", "yes", "no"})
_PAIR = 2


@dataclass(frozen=True, slots=True)
class Parsed:
    """One number of a program's output.

    Attributes:
        address: Where it belongs, `section/row/column` or `section/label`.
        text: The number as printed, without its unit.
        number: Its value.
        unit: Its unit as printed; empty for none.
        line: Zero-based line.
        start: Column of the number's first character in that line.
        end: Column after its last one.
    """

    address: str
    text: str
    number: float
    unit: str
    line: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Unread:
    """A line, or a cell of one, that holds digits and has no address."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Output:
    """Everything read from one stream.

    Attributes:
        values: Numbers by address, in printed order.
        unread: What holds digits and fits nothing, by line.
        problems: Sentences about what is ambiguous, `line 7: …`.
        refused: Addresses that have no value because of a problem, and why.
    """

    values: dict[str, Parsed]
    unread: tuple[Unread, ...]
    problems: tuple[str, ...]
    refused: dict[str, str]


@dataclass(frozen=True, slots=True)
class _Cell:
    text: str
    start: int
    value: re.Match[str] | None


def read(lines: Sequence[str], extra: Iterable[tuple[str, str]] = ()) -> Output:
    """Read the lines of a stream.

    Args:
        lines: Lines without their ends.
        extra: (name, regular expression with one group) of numbers that stand
            outside of the house format; their addresses are `text/<name>`.
    """
    reader = _Reader(lines)
    reader.read_lines()
    for name, pattern in extra:
        reader.read_text(name, re.compile(pattern))
    unread = sorted(reader.unread, key=lambda entry: entry.line)
    values = {a: parsed for a, parsed in reader.values.items() if a not in reader.refused}
    return Output(values, tuple(unread), tuple(reader.problems), reader.refused)


@dataclass(slots=True)
class _Reader:
    """Walks over the lines once; `columns` is the header of the open table."""

    lines: Sequence[str]
    values: dict[str, Parsed] = field(default_factory=dict)
    unread: list[Unread] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    section: str = ""
    columns: list[_Cell] | None = None
    # Cells of a line right above that looks like a header and heads nothing.
    expected: int = 0

    def read_lines(self) -> None:
        rows = [cells_of(line) for line in self.lines]
        for number, line in enumerate(self.lines):
            cells = rows[number]
            if not cells:
                self._leave()
            elif not line[0].isspace():
                self._title(number, line.rstrip(), members=_members(self.lines, number))
            elif not line.startswith("  ") or not self.section:
                self._leave()
                self._unread(number, line.strip())
            else:
                below = rows[number + 1] if number + 1 < len(rows) else []
                self._member(number, cells, below)

    def _leave(self) -> None:
        self.columns, self.expected = None, 0

    def _title(self, number: int, line: str, *, members: bool) -> None:
        self._leave()
        title, colon, rest = line.partition(": ")
        self.section, _ = split_known(title)
        if not members:
            self._unread(number, line)
        elif colon:
            self._unread(number, rest.strip())

    def _member(self, number: int, cells: list[_Cell], below: list[_Cell]) -> None:
        if self.columns and len(cells) == len(self.columns) and not _is_noted(cells):
            if _heads(cells, below) and not _is_placeholder_row(cells):
                self._problem(
                    number,
                    "a row of words inside a table, which may be the header of another: "
                    "leave a blank line before a header",
                )
            self._row(number, cells, self.columns)
            return
        before = len(self.columns) if self.columns else self.expected
        self._leave()
        if len(cells) < before and any(_SWALLOWED.fullmatch(c.text) for c in cells if not c.value):
            self._problem(
                number,
                f"{len(cells)} cells where the line above has {before}, and a number "
                "touches its neighbour: print two spaces between cells, and a blank line "
                "between a table and a fact",
            )
            self._unread(number, _joined(cells))
        elif _heads(cells, below):
            self.columns = cells
        else:
            if len(cells) > _PAIR and not any(c.value for c in cells[1:]):
                self.expected = len(cells)
            self._fact(number, cells)

    def _row(self, number: int, cells: list[_Cell], columns: list[_Cell]) -> None:
        row, row_unit = split_known(cells[0].text)
        for cell, column in zip(cells[1:], columns[1:], strict=True):
            label, unit = split_label(column.text)
            if cell.value and row and label:
                address = f"{self.section}/{row}/{label}"
                self._add(address, cell, unit or row_unit, number)
            elif cell.value or _STARTS_LIKE_NUMBER.match(cell.text):
                self._unread(number, cell.text)

    def _fact(self, number: int, cells: list[_Cell]) -> None:
        label, unit = split_label(cells[0].text)
        if label and (len(cells) == _PAIR or _is_noted(cells)) and cells[1].value:
            self._add(f"{self.section}/{label}", cells[1], unit, number)
        else:
            self._unread(number, _joined(cells))

    def _add(self, address: str, cell: _Cell, unit: str, line: int) -> None:
        match = cell.value
        if match is None:
            self._unread(line, cell.text)
            return
        text, own = match["number"], match["sign"] or match["unit"] or ""
        if own and unit and not units.same(own, unit):
            self._refuse(address, line, f"is in {own}, but its label says {unit}")
        if address in self.values:
            first = self.values[address].line + 1
            self._refuse(address, line, f"is printed twice, first in line {first}")
            return
        end = cell.start + len(text)
        self.values[address] = Parsed(
            address, text, float(text), own or unit, line, cell.start, end
        )

    def read_text(self, name: str, pattern: re.Pattern[str]) -> None:
        """Read the one number that a regular expression of the plan names."""
        address = f"text/{name}"
        found = [(n, m) for n, line in enumerate(self.lines) for m in pattern.finditer(line)]
        if len(found) != 1:
            where = ", ".join(str(n + 1) for n, _ in found[:4])
            what = f"matches {len(found)} times, in lines {where}" if found else "matches nothing"
            self.problems.append(f"{address}: its regular expression {what}; it must match once")
            return
        number, match = found[0]
        group = match.group(1) if pattern.groups == 1 else None
        cell = _cell(group, match.start(1)) if group else None
        if cell is None or not cell.value:
            self._problem(number, f"{address} captures {group!r}, which is no number")
            return
        self._add(address, cell, "", number)
        self.unread = [entry for entry in self.unread if entry.line != number]

    def _refuse(self, address: str, line: int, reason: str) -> None:
        self.refused.setdefault(address, reason)
        self._problem(line, f"{address} {reason}")

    def _unread(self, line: int, text: str) -> None:
        if _DIGIT.search(text):
            self.unread.append(Unread(line, text))

    def _problem(self, line: int, text: str) -> None:
        self.problems.append(f"line {line + 1}: {text}")


def cells_of(line: str) -> list[_Cell]:
    """Return the cells of a line."""
    return [_cell(match.group(), match.start()) for match in _CELL.finditer(line)]


def _cell(text: str, start: int) -> _Cell:
    return _Cell(text, start, _VALUE.fullmatch(text))


def _joined(cells: list[_Cell]) -> str:
    return "  ".join(cell.text for cell in cells)


def _members(lines: Sequence[str], number: int) -> bool:
    """Whether an indented line follows, so that the title's digits have a use."""
    for line in lines[number + 1 :]:
        if line.strip():
            return line[0].isspace()
    return False


def _heads(cells: list[_Cell], below: list[_Cell]) -> bool:
    """Whether a line heads a table whose first row is the line below.

    A header of two cells looks just like a fact whose value is a word (`name
    NVIDIA`), above a fact whose value is a number. It is a header only if its
    second cell has a unit, or the row begins with a number.
    """
    if len(cells) < _PAIR or len(below) != len(cells):
        return False
    if any(cell.value or cell.text.startswith("(") for cell in cells[1:]):
        return False
    if _is_noted(below) or not any(cell.value for cell in below[1:]):
        return False
    return len(cells) > _PAIR or bool(split_label(cells[1].text)[1] or below[0].value)


def _is_noted(cells: list[_Cell]) -> bool:
    return len(cells) > _PAIR and cells[_PAIR].text.startswith("(")


def _is_placeholder_row(cells: list[_Cell]) -> bool:
    return any(cell.text.lower() in _NOTHING for cell in cells[1:])
