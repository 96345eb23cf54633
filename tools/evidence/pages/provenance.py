"""Where recorded output comes from, as one line that unfolds to the whole record."""

from __future__ import annotations

import shlex
from html import escape
from typing import TYPE_CHECKING, Any

from evidence import digits, mutants, quantities
from evidence.output import slug

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from evidence.model import Program, Record
    from evidence.pages.places import Places
    from evidence.values import Value

_COMMIT = 10  # hexadecimal digits shown of a commit


def line(record: Record) -> str:
    """Return device, driver, compiler, command, date and commit as one line of text."""
    data = record.data
    tools, made = data["toolchain"], data["recorded"]
    compiler = f"nvcc {tools['nvcc']}" if tools.get("nvcc") else f"Python {tools.get('python')}"
    commit = made["commit"][:_COMMIT] + (" with local changes" if made["dirty"] else "")
    parts = (
        data["device"]["name"],
        f"driver {data['device']['driver']}",
        compiler,
        shlex.join(data["run_command"]),
        made["date"],
        commit,
    )
    return " · ".join(part for part in parts if part)


def details(
    program: Program, record: Record, values: Mapping[str, Value], places: Places
) -> str:  # fmt: skip
    """Return the provenance line as a summary over the tables of the record.

    Args:
        program: Whose plan says which mutants survive, and why.
        record: What was recorded.
        values: Its values by address.
        places: Hands out anchors; what is left of them is used up.
    """
    data = record.data
    tables = _Tables(values, places)
    parts = [
        _facts(data, tables),
        tables.kernels(data["build"]),
        tables.sanitizers(data["sanitizers"]),
        tables.counters(data["profile"]),
        tables.mutants(data["mutants"], mutants.surviving(program.plan, data["mutants"])),
        tables.runs(data["runs"]),
        tables.rest(),
    ]
    return (
        f'<details class="ev-record"><summary>{escape(line(record))}</summary>'
        f"{''.join(parts)}</details>"
    )


def _facts(data: Mapping[str, Any], tables: _Tables) -> str:
    device, tools, made = data["device"], data["toolchain"], data["recorded"]
    capability = f", compute capability {device['compute_capability']}"
    shown = f"{device['name']}{capability if device['compute_capability'] else ''}"
    facts = [("device", escape(shown))]
    if device["sm_count"]:
        count, memory = tables.cell("device/sm-count"), tables.cell("device/memory")
        facts.append(("", f"{count} SMs, {memory} MiB"))
    facts.append(("driver", escape(device["driver"])))
    facts += [
        (name.replace("_", " "), escape(version))
        for name, version in tools.items()
        if isinstance(version, str) and version
    ]
    facts += [(name, escape(version)) for name, version in tools.get("packages", {}).items()]
    if data["build"] is not None:
        facts.append(("built by", escape(shlex.join(data["build"]["command"]))))
    facts.append(("run by", escape(shlex.join(data["run_command"]))))
    facts.append(("recorded", escape(f"{made['date']} by evidence {made['tool']}")))
    inside = made["isolation"]  # of a stranger's program, which was kept from the machine
    facts.append(("inside", "" if inside == "none" else escape(inside)))
    commit = made["commit"] + (" with local changes" if made["dirty"] else "")
    facts.append(("commit", escape(commit)))
    facts.append(("key", escape(data["key"])))
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{html}</dd>" for name, html in facts if html)
    return f'<dl class="ev-facts">{rows}</dl>'


class _Tables:
    """The record's tables; cells that are values carry their anchors."""

    def __init__(self, values: Mapping[str, Value], places: Places) -> None:
        self.values = values
        self.places = places

    def kernels(self, build: Mapping[str, Any] | None) -> str:
        if build is None or not build["kernels"]:
            return ""
        names = ("registers", "stack", "spill-stores", "spill-loads", "shared", "constant")
        titles = ("kernel", "registers", "stack, B", "spill stores, B", "spill loads, B",
                  "shared, B", "constant, B")  # fmt: skip
        rows = []
        for kernel in sorted(build["kernels"]):
            prefix = f"compile/{slug(kernel)}"
            cells = [self.cell(f"{prefix}/{name}") for name in names]
            rows.append([escape(kernel), *cells])
        return _table(escape("Compiled for " + build["architecture"]), titles, rows)

    def sanitizers(self, found: Mapping[str, Any]) -> str:
        rows = []
        for tool in sorted(found):
            result = found[tool]
            status = result["status"].replace("-", " ")
            reason = f": {result['reason']}" if result["reason"] else ""
            errors = self.cell(f"sanitize/{tool}/errors")
            rows.append([escape(tool), errors, escape(status + reason)])
        return _table("Sanitizers", ("tool", "errors", "result"), rows)

    def counters(self, profile: Mapping[str, Any]) -> str:
        """Return a table for each kernel: metrics below, launches across."""
        if profile["status"] == "not-requested":
            return ""
        if profile["status"] != "recorded":
            why = f"{profile['status'].replace('-', ' ')}: {profile['reason']}"
            return _table("Counters", ("result",), [[escape(why)]])
        tables = []
        for kernel, grids in sorted(profile["launches"].items()):
            across = sorted(grids, key=_by_number)
            metrics = sorted({metric for grid in grids.values() for metric in grid})
            begins = [f"profile/{slug(kernel)}/{slug(grid)}/" for grid in across]
            rows = [
                [escape(metric), *(self.cell(begin + slug(metric)) for begin in begins)]
                for metric in metrics
            ]
            title = f"Counters of {kernel}, medians, Nsight Compute {profile['tool']}"
            tables.append(_table(escape(title), ("metric", *across), rows))
        return "".join(tables)

    def mutants(self, tried: Mapping[str, Any], said: Mapping[str, str]) -> str:
        rows = []
        for name in sorted(tried):
            mutant = tried[name]
            by = f" by {mutant['by']}" if mutant["by"] and mutant["status"] == "rejected" else ""
            edit = f"{mutant['find'].strip()} → {mutant['replace'].strip() or '(nothing)'}"
            place = self.places.take(f"mutants/{slug(name)}/rejected")
            status = escape(f"{mutant['status'].replace('-', ' ')}{by}")
            if name in said:
                status = escape(f"survives, as said: {said[name]}", quote=False)
            rows.append(
                [
                    escape(name),
                    f"<code>{escape(edit, quote=False)}</code>",
                    f"<b{place}>{status}</b>" if place else status,
                ]
            )
        counts = f"{self.cell('mutants/rejected')} of {self.cell('mutants/total')} rejected"
        survivors = sum(mutant["status"] == "survived" for mutant in tried.values())
        if survivors:
            verb = "survives" if survivors == 1 else "survive"
            counts += f", {self.cell('mutants/surviving')} {verb}"
        return _table(f"Wrong on purpose: {counts}", ("mutant", "edit", "result"), rows)

    def runs(self, runs: Sequence[Mapping[str, Any]]) -> str:
        rows = [
            [str(number), str(run["exit_status"]), f"{run['seconds']:.2f}"]
            for number, run in enumerate(runs, 1)
        ]
        title = f"Runs: {self.cell('runs/count')}"
        return _table(title, ("run", "exit status", "seconds"), rows)

    def rest(self) -> str:
        """Return the values that need a place and stood nowhere else."""
        rows = [
            [escape(address), self.cell(address)]
            for address in list(self.places.left)
            if address in self.values
        ]
        return _table("Also used", ("address", "value"), rows)

    def cell(self, address: str) -> str:
        """Return a value as text, with its place if it needs one."""
        value = self.values.get(address)
        if value is None:
            return "\N{EN DASH}"
        text = digits.show(quantities.of(value)) if value.source == "profile" else value.text
        place = self.places.take(address)
        return f"<b{place}>{escape(text)}</b>" if place else escape(text)


def _by_number(grid: str) -> list[int]:
    """Order launches by size, `64x1x1` before `256x1x1`."""
    return [int(part) if part.isdigit() else 0 for part in grid.split("x")]


def _table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    if not body:
        return ""
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    return (
        f'<div class="ev-scroll" tabindex="0"><table class="ev-table"><caption>{title}</caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
    )
