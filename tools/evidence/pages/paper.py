"""Recorded output as HTML: what the first run printed, and where others differ.

Runs of one program usually print the same words and differ in some times. So
the first run stands there in full, and a piece that differs carries what the
other runs printed in its place; a script puts it there. Runs that do not
match line by line are all printed in full.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

from evidence.pages import ids, provenance
from evidence.pages.places import Places

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from evidence.model import Program, Record
    from evidence.values import Value

_END = "\n"
# A word with the white space before it.
_WORD = re.compile(r"\s*\S+|\s+$")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a line.

    Attributes:
        start: Column of its first character in the first run.
        texts: What each run printed there; one text if all are the same.
    """

    start: int
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Mark:
    """A place to be put around the digits of a value.

    Attributes:
        start: Column of its first character.
        end: Column after its last one.
        attribute: Its id.
        run: The run that printed the median.
    """

    start: int
    end: int
    attribute: str
    run: int


@dataclass(slots=True)
class _Marks:
    """Hands out, run by run and line by line, the marks of the values that need one."""

    places: Places
    values: Mapping[str, Value]
    all_runs: bool
    found: dict[tuple[int, int], list[_Mark]] = field(default_factory=dict)

    def collect(self) -> None:
        for address in list(self.places.left):
            value = self.values.get(address)
            if value is None or not value.spans:
                continue
            run = 0 if value.exact else value.median_run
            span = value.spans[run if self.all_runs else 0]
            taken = self.found.setdefault((span.run, span.line), [])
            if any(mark.start < span.end and span.start < mark.end for mark in taken):
                continue  # two names for one number: the first stands
            taken.append(_Mark(span.start, span.end, self.places.take(address), run))
            taken.sort(key=lambda mark: mark.start)

    def of(self, run: int, line: int) -> list[_Mark]:
        return self.found.get((run, line), [])


def figure(
    program: Program,
    record: Record,
    values: Mapping[str, Value],
    *,
    wanted: Collection[str] = (),
    named: bool = True,
    group: str = "",
) -> str:
    """Return the figure of a program's recorded output.

    Args:
        program: The program.
        record: What was recorded.
        values: Its values by address.
        wanted: Addresses of the values that need an anchor.
        named: Whether it carries anchors; only one figure of a page may carry
            those of a program.
        group: Begins the names of its choices; unique on the page.
    """
    data = record.data
    group = group or ids.output(program.name)
    places = Places(program, wanted if named else ())
    command = escape(" ".join(data["run_command"]) or program.path.name)
    said = f"printed on {escape(data['device']['name'])}"
    if not data["runs"] and program.build is not None:  # what the compiler said is all there is
        command, said = escape(program.build.text), "printed by the compiler"
    own = f' id="{escape(ids.output(program.name))}"' if named else ""
    return (
        f'<figure class="ev-output"{own} data-search-exclude="">'
        f'<figcaption class="ev-bar"><span class="ev-file">{command}</span> '
        f'<span class="ev-on">{said}</span></figcaption>'
        f"{_papers(data, values, places, group)}"
        f"{provenance.details(program, record, values, places)}</figure>"
    )


def _papers(data: dict[str, Any], values: Mapping[str, Value], places: Places, group: str) -> str:
    build, runs = data["build"], data["runs"]
    if not runs:
        lines = build["output"] if build is not None else []
        text = "\n".join(escape(line, quote=False) for line in lines) or "Nothing was run."
        return f'<div class="ev-paper"><pre tabindex="0">{text}</pre></div>'
    alike = len({_shape(run) for run in runs}) == 1
    marks = _Marks(places, values, all_runs=not alike)
    marks.collect()
    if not alike:
        return _apart(runs, marks)
    if all(run["stdout"] == runs[0]["stdout"] for run in runs):
        return f"{_paper(runs[0], [], 0, marks)}{_same(len(runs))}"
    choices = "".join(
        f'<label><input type="radio" name="{escape(group)}~run"{" checked" * (number == 0)}> '
        f"run {number + 1}</label>"
        for number in range(len(runs))
    )
    return (
        f'<div class="ev-runs" role="group" aria-label="Runs">{choices} '
        '<span class="ev-differ">what differs between runs is dotted</span></div>'
        f"{_paper(runs[0], runs, 0, marks)}"
    )


def _shape(run: Mapping[str, Any]) -> tuple[int, tuple[str, ...], int | None]:
    return len(run["stdout"]), tuple(run["stderr"]), run["exit_status"]


def _same(count: int) -> str:
    text = "the one run" if count == 1 else f"the same in all {count} runs"
    return f'<p class="ev-same">{text}</p>'


def _apart(runs: Sequence[Mapping[str, Any]], marks: _Marks) -> str:
    """Return every run in full, the ones after the first folded."""
    parts = [_paper(runs[0], [], 0, marks)]
    for number, run in enumerate(runs[1:], 1):
        paper = _paper(run, [], number, marks)
        parts.append(
            f'<details class="ev-run"><summary>run {number + 1}</summary>{paper}</details>'
        )
    return "".join(parts)


class Printed:
    """What a notebook's runs printed, to be shown cell by cell.

    Args:
        program: The notebook.
        data: Its record.
        values: The record's values by address.
        wanted: Addresses of the values that need an anchor.

    Attributes:
        places: Hands out anchors; what is left of them is for the record's tables.
    """

    def __init__(
        self,
        program: Program,
        data: Mapping[str, Any],
        values: Mapping[str, Value],
        wanted: Collection[str],
    ) -> None:
        runs = data["runs"]
        alike = len({_shape(run) for run in runs}) == 1
        self.places = Places(program, wanted)
        self._marks = _Marks(self.places, values, all_runs=not alike)
        self._marks.collect()
        self._run, self._runs = runs[0], runs if alike and len(runs) > 1 else []

    def rows(self, first: int, count: int) -> str:
        """Return some lines of the first run, with what other runs printed in their place."""
        lines = range(first, first + count)
        rows = (_row(self._run, self._runs, 0, index, self._marks) for index in lines)
        return sheet("".join(f"{row}{_END}" for row in rows))


def sheet(html: str) -> str:
    """Return printed lines as the paper that they are on."""
    return f'<div class="ev-paper"><pre tabindex="0">{html}</pre></div>'


def _paper(
    run: Mapping[str, Any], runs: Sequence[Mapping[str, Any]], number: int, marks: _Marks
) -> str:
    """Return what one run printed, with what other runs printed in its place."""
    rows = [_row(run, runs, number, index, marks) for index in range(len(run["stdout"]))]
    if run["stderr"]:
        text = "\n".join(escape(line, quote=False) for line in run["stderr"])
        rows.append(f'<span class="ev-stderr">{text}</span>')
    if run["exit_status"] != 0:
        rows.append(f'<span class="ev-exit">{_ended(run)}</span>')
    return sheet("".join(f"{row}{_END}" for row in rows))


def _row(
    run: Mapping[str, Any],
    runs: Sequence[Mapping[str, Any]],
    number: int,
    index: int,
    marks: _Marks,
) -> str:
    """Return one line that a run printed, with what other runs printed in its place."""
    wanted = marks.of(number, index)
    texts = [other["stdout"][index] for other in runs]
    if len(set(texts)) > 1:
        return "".join(_piece(piece, wanted) for piece in aligned(texts))
    text = run["stdout"][index]
    return _marked(text, 0, wanted) if wanted else escape(text, quote=False)


def aligned(texts: Sequence[str]) -> list[Piece]:
    """Lay one line of several runs side by side.

    Joined run by run, the pieces give each run's line again. Where words
    cannot be matched one by one, the whole line is one piece.
    """
    rows = [_WORD.findall(text) for text in texts]
    if len({len(row) for row in rows}) > 1:
        return [Piece(0, tuple(texts))]
    pieces: list[Piece] = []
    plain, begin, position = "", 0, 0
    for column in zip(*rows, strict=True):
        first = column[0]
        if all(word == first for word in column):
            plain += first
        else:
            gap = min(len(word) - len(word.lstrip()) for word in column)
            pieces.append(Piece(begin, (plain + first[:gap],)))
            pieces.append(Piece(position + gap, tuple(word[gap:] for word in column)))
            plain, begin = "", position + len(first)
        position += len(first)
    return [piece for piece in (*pieces, Piece(begin, (plain,))) if piece.texts != ("",)]


def _piece(piece: Piece, marks: Iterable[_Mark]) -> str:
    text = piece.texts[0]
    end = piece.start + len(text)
    inside = [mark for mark in marks if piece.start <= mark.start and mark.end <= end]
    if len(piece.texts) == 1:
        return _marked(text, piece.start, inside)
    runs = escape("\n".join(piece.texts))
    if len(inside) == 1:
        [mark] = inside
        return (
            f'<i data-runs="{runs}" data-median="{mark.run}"{mark.attribute}>'
            f"{escape(text, quote=False)}</i>"
        )
    # Several values in one piece: their places stand before it.
    before = "".join(f'<b data-median="{mark.run}"{mark.attribute}></b>' for mark in inside)
    return f'{before}<i data-runs="{runs}">{escape(text, quote=False)}</i>'


def _marked(text: str, start: int, marks: Iterable[_Mark]) -> str:
    """Return a text with a place around each value's digits."""
    html, position = [], 0
    for mark in marks:
        begin, end = mark.start - start, mark.end - start
        html.append(escape(text[position:begin], quote=False))
        html.append(f"<b{mark.attribute}>{escape(text[begin:end], quote=False)}</b>")
        position = end
    html.append(escape(text[position:], quote=False))
    return "".join(html)


def _ended(run: Mapping[str, Any]) -> str:
    if run["timed_out"]:
        return "(stopped: it ran past its time limit)"
    if run["signal"]:
        return f"(ended by signal {escape(str(run['signal']))})"
    return f"(exit status {run['exit_status']})"
