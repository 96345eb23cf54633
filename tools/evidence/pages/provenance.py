"""Where recorded output comes from, as one line that unfolds to the whole record."""

from __future__ import annotations

import shlex
from html import escape
from typing import TYPE_CHECKING, Any

from evidence import digits, quantities
from evidence.output import slug
from evidence.pages import ids

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from evidence.model import Program, Record
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
    program: Program, record: Record, values: Mapping[str, Value], *, named: bool = True
) -> str:
    """Return the provenance line as a summary over the tables of the record."""
    data = record.data
    tables = _Tables(program, values, named=named)
    parts = [
        _facts(data),
        tables.kernels(data["build"]),
        tables.sanitizers(data["sanitizers"]),
        tables.counters(data["profile"]),
        tables.mutants(data["mutants"]),
        tables.runs(data["runs"]),
    ]
    return (
        f'<details class="ev-record" data-search-exclude="">'
        f"<summary>{escape(line(record))}</summary>"
        f"{''.join(parts)}</details>"
    )


def _facts(data: Mapping[str, Any]) -> str:
    device, tools, made = data["device"], data["toolchain"], data["recorded"]
    capability = f", compute capability {device['compute_capability']}"
    facts = [("device", f"{device['name']}{capability if device['compute_capability'] else ''}")]
    if device["sm_count"]:
        facts.append(("", f"{device['sm_count']} SMs, {device['memory_mib']} MiB"))
    facts.append(("driver", device["driver"]))
    facts += [
        (name.replace("_", " "), version)
        for name, version in tools.items()
        if isinstance(version, str) and version
    ]
    facts += [(name, version) for name, version in tools.get("packages", {}).items()]
    if data["build"] is not None:
        facts.append(("built by", shlex.join(data["build"]["command"])))
    facts.append(("run by", shlex.join(data["run_command"])))
    facts.append(("recorded", f"{made['date']} by evidence {made['tool']}"))
    facts.append(("commit", made["commit"] + (" with local changes" if made["dirty"] else "")))
    facts.append(("key", data["key"]))
    rows = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in facts if text
    )
    return f'<dl class="ev-facts">{rows}</dl>'


class _Tables:
    """The record's tables; cells that are values carry their anchors."""

    def __init__(self, program: Program, values: Mapping[str, Value], *, named: bool) -> None:
        self.program = program
        self.values = values
        self.named = named

    def kernels(self, build: Mapping[str, Any] | None) -> str:
        if build is None or not build["kernels"]:
            return ""
        names = ("registers", "stack", "spill-stores", "spill-loads", "shared", "constant")
        titles = ("kernel", "registers", "stack, B", "spill stores, B", "spill loads, B",
                  "shared, B", "constant, B")  # fmt: skip
        rows = []
        for kernel in sorted(build["kernels"]):
            prefix = f"compile/{slug(kernel)}"
            cells = [self._cell(f"{prefix}/{name}") for name in names]
            rows.append([_text(kernel), *cells])
        return _table("Compiled for " + build["architecture"], titles, rows)

    def sanitizers(self, found: Mapping[str, Any]) -> str:
        rows = []
        for tool in sorted(found):
            result = found[tool]
            status = result["status"].replace("-", " ")
            reason = f": {result['reason']}" if result["reason"] else ""
            rows.append(
                [_text(tool), self._cell(f"sanitize/{tool}/errors"), _text(status + reason)]
            )
        return _table("Sanitizers", ("tool", "errors", "result"), rows)

    def counters(self, profile: Mapping[str, Any]) -> str:
        if profile["status"] == "not-requested":
            return ""
        if profile["status"] != "recorded":
            why = f"{profile['status'].replace('-', ' ')}: {profile['reason']}"
            return _table("Counters", ("result",), [[_text(why)]])
        rows = []
        for kernel, grids in sorted(profile["launches"].items()):
            for grid, metrics in sorted(grids.items()):
                for metric in sorted(metrics):
                    address = f"profile/{slug(kernel)}/{slug(grid)}/{metric}"
                    rows.append([_text(kernel), _text(grid), _text(metric), self._cell(address)])
        title = f"Counters, Nsight Compute {profile['tool']}"
        return _table(title, ("kernel", "launch", "metric", "median"), rows)

    def mutants(self, tried: Mapping[str, Any]) -> str:
        rows = []
        for name in sorted(tried):
            mutant = tried[name]
            by = f" by {mutant['by']}" if mutant["by"] and mutant["status"] == "rejected" else ""
            edit = f"{mutant['find'].strip()} → {mutant['replace'].strip() or '(nothing)'}"
            rows.append(
                [
                    self._anchored(f"mutants/{name}/rejected", _text(name)),
                    f"<code>{escape(edit)}</code>",
                    _text(f"{mutant['status'].replace('-', ' ')}{by}"),
                ]
            )
        return _table("Wrong on purpose", ("mutant", "edit", "result"), rows)

    def runs(self, runs: Sequence[Mapping[str, Any]]) -> str:
        rows = [
            [_text(str(number)), _text(str(run["exit_status"])), _text(f"{run['seconds']:.2f}")]
            for number, run in enumerate(runs, 1)
        ]
        return _table("Runs", ("run", "exit status", "seconds"), rows)

    def _cell(self, address: str) -> str:
        value = self.values.get(address)
        if value is None:
            return "\N{EN DASH}"
        text = digits.show(quantities.of(value)) if value.source == "profile" else value.text
        return self._anchored(address, _text(text))

    def _anchored(self, address: str, html: str) -> str:
        if not self.named or address not in self.values:
            return html
        anchor = escape(ids.value(self.program.name, address))
        return f'<span class="ev-cell" id="{anchor}">{html}</span>'


def _text(text: str) -> str:
    return escape(text)


def _table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    if not body:
        return ""
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    return (
        f'<div class="ev-scroll"><table class="ev-table"><caption>{escape(title)}</caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
    )
