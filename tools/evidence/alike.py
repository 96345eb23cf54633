"""Reading a run's output with the help of another run's, which was read already.

Runs of one program print the same lines with other numbers in them. Where that
is so, the numbers are taken from the places where the first run has its own,
which costs a fraction of reading the output afresh and gives the same result.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from evidence.output import Output, cells_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evidence.output import Parsed


def read_alike(first: Output, before: Sequence[str], lines: Sequence[str]) -> Output | None:
    """Read lines that differ from others only in the text of their numbers.

    Args:
        first: What was read from `before`.
        before: The lines of a run that was read already.
        lines: The lines of another run.

    Returns:
        What `output.read(lines)` returns, or None where the lines differ in
        more than numbers and have to be read afresh.
    """
    if len(lines) != len(before) or first.problems or first.refused:
        return None
    differing = [n for n, (a, b) in enumerate(zip(before, lines, strict=True)) if a != b]
    if any(entry.line in set(differing) for entry in first.unread):
        return None
    by_line: defaultdict[int, list[Parsed]] = defaultdict(list)
    for parsed in first.values.values():
        by_line[parsed.line].append(parsed)
    values = dict(first.values)
    for number in differing:
        moved = _line(before[number], lines[number], by_line[number])
        if moved is None:
            return None
        values.update(moved)
    return Output(values, first.unread, (), {})


def _line(before: str, line: str, known: list[Parsed]) -> dict[str, Parsed] | None:
    """Return the numbers of a line in the places of those of another."""
    old, new = cells_of(before), cells_of(line)
    if not old or len(old) != len(new) or not (before[:2] == line[:2] == "  "):
        return None
    by_start = {parsed.start: parsed for parsed in known}
    found = {}
    for was, now in zip(old, new, strict=True):
        parsed = by_start.get(was.start)
        if parsed is None:
            if was.text != now.text:
                return None
            continue
        if was.value is None or now.value is None:
            return None
        if (was.value["sign"], was.value["unit"]) != (now.value["sign"], now.value["unit"]):
            return None
        text = now.value["number"]
        if was.text[len(was.value["number"]) :] != now.text[len(text) :]:
            return None
        found[parsed.address] = replace(
            parsed, text=text, number=float(text), start=now.start, end=now.start + len(text)
        )
    return found
