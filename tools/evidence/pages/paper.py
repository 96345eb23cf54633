"""Recorded output as HTML: what each run printed, every line with its anchor."""

from __future__ import annotations

from collections import defaultdict
from html import escape
from typing import TYPE_CHECKING, Any

from evidence.pages import ids, provenance

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from evidence.model import Program, Record
    from evidence.values import Value

    Cells = Mapping[tuple[int, int], list[Value]]


def figure(
    program: Program, record: Record, values: Mapping[str, Value], *, named: bool = True
) -> str:
    """Return the figure of a program's recorded output.

    Args:
        program: The program.
        record: What was recorded.
        values: Its values by address.
        named: Whether lines and values carry anchors; only one figure of a
            page may carry those of a program.
    """
    data = record.data
    command = escape(" ".join(data["run_command"]) or program.path.name)
    own = f' id="{escape(ids.output(program.name))}"' if named else ""
    return (
        f'<figure class="ev-output"{own}>'
        f'<figcaption class="ev-bar"><span class="ev-file">{command}</span> '
        f'<span class="ev-on">printed on {escape(data["device"]["name"])}</span></figcaption>'
        f"{_papers(program, data, values, named=named)}"
        f"{provenance.details(program, record, values, named=named)}</figure>"
    )


def _papers(
    program: Program, data: dict[str, Any], values: Mapping[str, Value], *, named: bool
) -> str:
    build, runs = data["build"], data["runs"]
    if not runs:
        lines = build["output"] if build is not None else []
        text = "\n".join(escape(line) for line in lines) or "Nothing was run."
        return f'<div class="ev-paper"><pre>{text}</pre></div>'
    cells = _cells(values.values()) if named else {}
    shown = [_paper(program, run, number, cells, named=named) for number, run in enumerate(runs)]
    if len({_key(run) for run in runs}) == 1:
        return f'<div class="ev-paper">{shown[0]}</div>{_same(len(runs))}'
    name = escape(ids.output(program.name))
    panels = []
    for number, html in enumerate(shown):
        choice = f"{name}~run{number + 1}" + ("" if named else "~again")
        checked = " checked" if number == 0 else ""
        panels.append(
            f'<input type="radio" name="{name}~runs{"" if named else "~again"}" id="{choice}"'
            f'{checked}><label for="{choice}">run {number + 1}</label>'
            f'<div class="ev-paper">{html}</div>'
        )
    return f'<div class="ev-runs" role="group" aria-label="Runs">{"".join(panels)}</div>'


def _key(run: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...], int | None]:
    return tuple(run["stdout"]), tuple(run["stderr"]), run["exit_status"]


def _same(count: int) -> str:
    text = "the one run" if count == 1 else f"the same in all {count} runs"
    return f'<p class="ev-same">{text}</p>'


def _cells(values: Iterable[Value]) -> Cells:
    """Return the values to anchor by run and line, one place each.

    An exact value stands in the first run, a measured one in the run that
    printed its median: that is where a reader is led.
    """
    cells: defaultdict[tuple[int, int], list[Value]] = defaultdict(list)
    for value in values:
        if value.spans:
            span = value.spans[0 if value.exact else value.median_run]
            cells[span.run, span.line].append(value)
    return cells


def _paper(
    program: Program, run: Mapping[str, Any], number: int, cells: Cells, *, named: bool
) -> str:
    rows = []
    for index, text in enumerate(run["stdout"]):
        html = _line(program, text, number, cells.get((number, index), []))
        if named and number == 0:  # the other runs would only repeat the anchors
            anchor = escape(ids.line(program.name, index))
            html = f'<span id="{anchor}">{html}</span>'
        rows.append(f"{html}\n")
    if run["stderr"]:
        text = "\n".join(escape(line) for line in run["stderr"])
        rows.append(f'<span class="ev-stderr">{text}\n</span>')
    if run["exit_status"] != 0:
        rows.append(f'<span class="ev-exit">{_ended(run)}\n</span>')
    return f"<pre>{''.join(rows)}</pre>"


def _ended(run: Mapping[str, Any]) -> str:
    if run["timed_out"]:
        return "(stopped: it ran past its time limit)"
    if run["signal"]:
        return f"(ended by signal {escape(str(run['signal']))})"
    return f"(exit status {run['exit_status']})"


def _line(program: Program, text: str, run: int, values: list[Value]) -> str:
    """Return one line with an anchor around each value's digits."""
    html, position = [], 0
    placed = [(value.spans[0 if value.exact else value.median_run], value) for value in values]
    for span, value in sorted(placed, key=lambda pair: pair[0].start):
        if span.start < position or span.run != run:
            continue  # two names for one number: the first stands
        anchor = escape(ids.value(program.name, value.address))
        html.append(escape(text[position : span.start]))
        digits = escape(text[span.start : span.end])
        html.append(f'<span class="ev-cell" id="{anchor}">{digits}</span>')
        position = span.end
    html.append(escape(text[position:]))
    return "".join(html)
