"""Values: the numbers of one record, by address.

A program's runs are read separately and laid over each other. A number whose
text is the same in every run is *exact*; one that differs is *measured* and
keeps all its samples. Numbers in units of time or rate, ratios of them, and
whatever was ever seen to differ are measured however equal the runs look.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from statistics import median_low
from typing import TYPE_CHECKING, Any

from evidence import alike, output, steps, units

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from evidence.output import Output, Parsed, Unread
    from evidence.steps import Source

Record = dict[str, Any]
Extra = tuple[tuple[str, str], ...]

# Words of a label that say that a number without a unit comes from times.
_TIMED = re.compile(
    r"(?<![A-Za-z0-9])(?:times?|timings?|speed|speed-?ups?|rates?|bandwidths?|throughputs?"
    r"|latency|latencies|elapsed|duration|seconds|faster|slower|slow-?downs?)(?![A-Za-z0-9])",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Span:
    """Where a number stands in what a run printed.

    Attributes:
        run: Zero-based run.
        line: Zero-based line of its standard output.
        start: Column of the number's first character.
        end: Column after its last one.
    """

    run: int
    line: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Value:
    """One number of a record.

    Attributes:
        address: Segments joined by `/`.
        unit: As printed; empty for none.
        samples: The number in every run (of a counter: in every launch).
        texts: The same as printed.
        exact: Whether it is the same in every run, and always was.
        spans: Where it stands in each run; empty if it was not printed.
        source: Which step of the recording it comes from.
    """

    address: str
    unit: str
    samples: tuple[float, ...]
    texts: tuple[str, ...]
    exact: bool
    spans: tuple[Span, ...] = ()
    source: Source = "run"

    @property
    def min(self) -> float:
        """Return the least sample; nan if any is."""
        return math.nan if self._broken else min(self.samples)

    @property
    def max(self) -> float:
        """Return the greatest sample; nan if any is."""
        return math.nan if self._broken else max(self.samples)

    @property
    def median(self) -> float:
        """Return the lower median, a number that some run printed; nan if any is."""
        return math.nan if self._broken else median_low(self.samples)

    @property
    def median_run(self) -> int:
        """Return the first sample that is the median."""
        if self._broken:
            return [math.isnan(sample) for sample in self.samples].index(True)
        return self.samples.index(self.median)

    @property
    def text(self) -> str:
        """Return the median as printed."""
        return self.texts[self.median_run]

    @property
    def _broken(self) -> bool:
        return any(math.isnan(sample) for sample in self.samples)


@dataclass(frozen=True, slots=True)
class Reading:
    """Everything that a record says in numbers.

    Attributes:
        values: By address: as printed, then compiler, sanitizers and so on.
        problems: Sentences about what cannot be believed; a number one of
            them is about is not among the values.
        unread: What the first run printed with digits and without address.
        absent: Addresses, or beginnings of such, that have no value, and why.
    """

    values: dict[str, Value] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    unread: tuple[Unread, ...] = ()
    absent: dict[str, str] = field(default_factory=dict)


def of_record(record: Record, extra: Extra = ()) -> dict[str, Value]:
    """Return the values of a record by address.

    Args:
        record: The document of an evidence file.
        extra: (name, regular expression) of the program's plan.
    """
    return read(record, extra).values


def read(record: Record, extra: Extra = ()) -> Reading:
    """Read a record; see `Reading`."""
    known = frozenset(record.get("measured", ()))
    runs = [_stdout(run) for run in record.get("runs", ())]
    # Most programs print the same in every run: read it once.
    cache: dict[tuple[str, ...], Output] = {}
    for lines in runs:
        if lines in cache:
            continue
        # What a plan's expressions match may lie anywhere: read it afresh.
        again = None if extra or not cache else alike.read_alike(cache[runs[0]], runs[0], lines)
        cache[lines] = output.read(lines, extra) if again is None else again
    read_runs = [cache[lines] for lines in runs]
    values, problems, absent = _printed(read_runs, known)
    for value in _computed(record, known):
        if value.address in values or value.address in absent:
            problems.append(f"{value.address} is printed, and belongs to the recorder")
        values[value.address] = value
    absent |= steps.absent(record)
    unread = read_runs[0].unread if read_runs else ()
    return Reading(values, tuple(problems), unread, absent)


def measured_addresses(record: Record, extra: Extra = ()) -> list[str]:
    """Return the addresses that were ever seen to differ, sorted.

    Those that the record knows already and those that differ between its own
    runs. What is measured for its unit's or label's sake alone is not listed.
    """
    values = of_record(record, extra).values()
    differ = {value.address for value in values if len(set(value.texts)) > 1}
    return sorted(differ | set(record.get("measured", ())))


def _stdout(run: Record) -> tuple[str, ...]:
    return tuple(run.get("stdout", ()))


def _printed(
    runs: Sequence[Output], known: frozenset[str]
) -> tuple[dict[str, Value], list[str], dict[str, str]]:
    problems = list(_problems(runs))
    values: dict[str, Value] = {}
    absent = {address: f"it {why}" for run in runs for address, why in run.refused.items()}
    addresses = dict.fromkeys(address for run in runs for address in run.values)
    for address in (a for a in addresses if a not in absent):
        parsed = [run.values.get(address) for run in runs]
        present = [number for number in parsed if number is not None]
        reason = _misfit(parsed, present)
        if reason:
            problems.append(f"{address} {reason}")
            absent[address] = f"it {reason}"
            continue
        texts = tuple(number.text for number in present)
        unit = present[0].unit
        values[address] = Value(
            address,
            unit,
            tuple(number.number for number in present),
            texts,
            len(set(texts)) == 1 and address not in known and not is_timed(address, unit),
            tuple(Span(i, n.line, n.start, n.end) for i, n in enumerate(present)),
        )
    return values, problems, absent


def is_timed(address: str, unit: str) -> bool:
    """Whether a printed number is one of time or rate by its unit or its name.

    Its section's title does not count: a section `timing` counts repeats too.
    """
    return units.is_timing(unit) or bool(_TIMED.search(address.partition("/")[2]))


def _misfit(parsed: Sequence[Parsed | None], present: Sequence[Parsed]) -> str | None:
    """Return why the numbers of the runs are not samples of one value."""
    if len(present) < len(parsed):
        missing = ", ".join(str(i + 1) for i, number in enumerate(parsed) if number is None)
        plural = "s" if len(parsed) - len(present) > 1 else ""
        return f"is no number in run{plural} {missing} of {len(parsed)}"
    for run, number in enumerate(present):
        if number.unit != present[0].unit:
            return (
                f"is in {present[0].unit or 'no unit'} in run 1 "
                f"and in {number.unit or 'no unit'} in run {run + 1}"
            )
    return None


def _problems(runs: Sequence[Output]) -> Iterator[str]:
    where: dict[str, list[int]] = {}
    for number, run in enumerate(runs, 1):
        for problem in run.problems:
            where.setdefault(problem, []).append(number)
    for problem, numbers in where.items():
        every = len(numbers) == len(runs)
        yield problem if every else f"run {', '.join(map(str, numbers))}: {problem}"


def _computed(record: Record, known: frozenset[str]) -> Iterator[Value]:
    for counted in steps.of_record(record):
        yield Value(
            counted.address,
            counted.unit,
            tuple(float(number) for number in counted.numbers),
            counted.texts,
            counted.source != "profile" and counted.address not in known,
            (),
            counted.source,
        )
