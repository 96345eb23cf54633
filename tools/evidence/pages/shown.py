"""What a directive comes to, once programs, evidence and expressions are looked up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from evidence.pages.ruled import Ledger, Ruling

if TYPE_CHECKING:
    from evidence.findings import Finding
    from evidence.model import Program
    from evidence.pages.pagetext import PageText
    from evidence.pages.reread import Standing
    from evidence.quantities import Quantity
    from evidence.regions import Region
    from evidence.states import State
    from evidence.values import Value
    from evidence.verdicts import Comparison

Outcome = Literal["the same", "within noise", "changed"]
Holds = Literal["holds", "holds within noise", "fails", "not measured"]


@dataclass(frozen=True, slots=True)
class Code:
    """A region of a program, or its whole source (no region)."""

    program: Program
    region: Region | None


@dataclass(frozen=True, slots=True)
class Output:
    """The recorded output of a program.

    Attributes:
        program: The program.
        state: Its evidence on the primary device.
        others: Its evidence on other devices, where there is any.
    """

    program: Program
    state: State
    others: tuple[State, ...] = ()


@dataclass(frozen=True, slots=True)
class Notebook:
    """A whole notebook, with what its cells left.

    Attributes:
        program: The notebook.
        state: Its evidence on the primary device.
    """

    program: Program
    state: State


@dataclass(frozen=True, slots=True)
class Source:
    """One value behind a shown number.

    Attributes:
        name: The page's short name, or the address if it has none.
        program: The program it comes from.
        value: The value.
    """

    name: str
    program: Program
    value: Value


@dataclass(frozen=True, slots=True)
class Number:
    """A number bound to evidence.

    Attributes:
        text: As the page shows it, with its unit.
        expression: What was evaluated.
        sources: The values that it is made of, in order of appearance.
        about: The expression with addresses in place of the page's names.
        quantity: What it comes to.
    """

    text: str
    expression: str
    sources: tuple[Source, ...]
    about: str = ""
    quantity: Quantity | None = None


@dataclass(frozen=True, slots=True)
class Sourced:
    """A number that was not measured here, with its source."""

    text: str
    source: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a claim stands on one device.

    Attributes:
        device: The device's label.
        holds: Whether it holds there.
        expected: Whether the page allows this: it may say that a claim fails
            on a device, and then it must.
        comparisons: Every comparison that was looked at.
    """

    device: str
    holds: Holds
    expected: bool = True
    comparisons: tuple[Comparison, ...] = ()


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence that must hold.

    Attributes:
        expression: What must hold.
        margin: By how much, as the page demands it; empty for none.
        verdicts: One per device it is about, the primary device first.
        sources: The values it stands on, on the primary device.
        about: The expression with addresses in place of the page's names.
    """

    expression: str
    margin: str
    verdicts: tuple[Verdict, ...]
    sources: tuple[Source, ...] = ()
    about: str = ""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """A program, and the addresses in it that hold measured ceilings of a device."""

    program: Program
    address: str


@dataclass(frozen=True, slots=True)
class Overview:
    """A table over all evidence: `status`, `claims` or `devices`."""

    kind: str
    ceilings: tuple[Ceiling, ...] = ()


@dataclass(frozen=True, slots=True)
class Predict:
    """A question whose answer is a bound number.

    Attributes:
        number: The answer.
        unit: What the reader's guess is in, if not in the number's own unit.
    """

    number: Number
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Point:
    """A number of a plot.

    Attributes:
        x: Where it lies on the x axis; of a bar, its rank.
        at: The same as readers see it.
        number: The number.
    """

    x: float
    at: str
    number: Number


@dataclass(frozen=True, slots=True)
class Series:
    """Points of a plot that belong together, from left to right."""

    label: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Roof:
    """A number of a plot that nothing can be above: a line across it."""

    label: str
    number: Number


@dataclass(frozen=True, slots=True)
class Plot:
    """A chart.

    Attributes:
        kind: `line`, `scatter` or `bar`.
        title: What it is called for those who cannot see it; may be empty.
        x: What stands along the x axis.
        y: What stands along the y axis, without its unit.
        unit: The unit of all its numbers.
        log: Axes that are logarithmic, of `x` and `y`.
        series: What is drawn, at least one.
        roofs: Ceilings.
    """

    kind: str
    title: str
    x: str
    y: str
    unit: str
    log: tuple[str, ...]
    series: tuple[Series, ...]
    roofs: tuple[Roof, ...] = ()

    @property
    def parts(self) -> tuple[Number, ...]:
        """Return all its numbers."""
        points = [point.number for series in self.series for point in series.points]
        return (*points, *(roof.number for roof in self.roofs))


@dataclass(frozen=True, slots=True)
class Compared:
    """A value of two programs.

    Attributes:
        label: What readers call it.
        old: Of the one.
        new: Of the other.
        outcome: What became of it; `within noise` if the bands overlap.
        factor: New over old, as shown, if it changed and that says anything.
    """

    label: str
    old: Number
    new: Number
    outcome: Outcome
    factor: str = ""


@dataclass(frozen=True, slots=True)
class Diff:
    """Two regions or programs, and what changed between them."""

    old: Code
    new: Code
    values: tuple[Compared, ...] = ()

    @property
    def parts(self) -> tuple[Code | Number, ...]:
        """Return its code and numbers."""
        return (self.old, self.new, *(n for v in self.values for n in (v.old, v.new)))


@dataclass(frozen=True, slots=True)
class Failed:
    """A directive that cannot be shown, with the reason."""

    message: str


Shown = (
    Code | Output | Notebook | Number | Sourced | Claim | Ruling | Ledger | Overview | Plot | Diff
    | Predict | Failed
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Bound:
    """A page with everything it asks for looked up.

    Attributes:
        page: The page.
        shown: What each directive comes to, in the order of `page.scan.items`.
        findings: Everything that is wrong, by line.
        used: (program, region) of every region it shows.
        sections: The sections that stand on something.
        believed: The states of all evidence that it stands on.
    """

    page: PageText
    shown: tuple[Shown, ...]
    findings: tuple[Finding, ...]
    used: frozenset[tuple[str, str]] = frozenset()
    sections: tuple[Standing, ...] = ()
    believed: tuple[State, ...] = ()
