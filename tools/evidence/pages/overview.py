"""Tables over all evidence: the state of every program, and the devices there are."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from evidence import addresses, digits, quantities
from evidence.errors import EvidenceError
from evidence.pages import ids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from evidence.model import Program
    from evidence.pages.library import Library
    from evidence.pages.shown import Ceiling
    from evidence.states import State
    from evidence.values import Value

    Link = Callable[[str, str], str]
    Data = Mapping[str, Any]

_NONE = "\N{EN DASH}"


def status(library: Library, link: Link) -> str:
    """Return the state of every program's evidence, one row for each device.

    Args:
        library: Where evidence is found.
        link: Gives the address of an anchor on a page.
    """
    programs = library.project.programs
    states = [state for program in programs for state in _states(library, program)]
    recorded = sum(state.record is not None for state in states)
    devices = {state.device for state in states if state.record is not None}
    counts = (
        f"{_count(len(programs), 'program')}, {_count(recorded, 'record')} "
        f"from {_count(len(devices), 'device')}"
    )
    head = ("program", "device", "state", "recorded", "runs", "sanitizers", "mutants")
    rows = [_status(library, state, link) for state in states]
    return f'<p class="ev-count">{counts}</p>{table("Evidence status", head, rows)}'


def _states(library: Library, program: Program) -> list[State]:
    labels = dict.fromkeys([library.device, *library.devices(program)])
    return [library.state(program, label) for label in labels]


def _status(library: Library, state: State, link: Link) -> list[str]:
    program = state.program
    name = escape(program.name).replace("/", "/<wbr>")
    home = library.home(program)
    source = library.source_home(program)
    if home is not None:
        name = f'<a href="{escape(link(home, ids.output(program.name)))}">{name}</a>'
    elif source is not None:
        name = f'<a href="{escape(link(source, ids.source(program)))}">{name}</a>'
    expect = program.plan.expect
    if expect.kind != "success":
        detail = {"exit": f" {expect.status}", "sanitizer": f" {expect.tool}"}.get(expect.kind, "")
        name += f" <small>meant to fail: {escape(expect.kind + detail)}</small>"
    cells = [name, escape(state.device), escape(state.name)]
    if state.record is None:
        return [*cells, *[_NONE] * 4]
    data = state.record.data
    date = f'<time datetime="{data["recorded"]["date"]}">{escape(data["recorded"]["date"])}</time>'
    return [*cells, date, str(len(data["runs"])), _sanitizers(data), _mutants(data)]


def _sanitizers(data: Data) -> str:
    tried = {t: r for t, r in data["sanitizers"].items() if r["status"] != "not-requested"}
    clean = sum(result["status"] == "clean" for result in tried.values())
    other = [
        f"{tool}: {_count(result['errors'], 'error')}"
        if result["status"] == "errors"
        else f"{tool}: {result['status'].replace('-', ' ')}"
        for tool, result in sorted(tried.items())
        if result["status"] != "clean"
    ]
    return escape(", ".join([f"{clean} clean"] * bool(clean) + other)) or _NONE


def _mutants(data: Data) -> str:
    tried = data["mutants"].values()
    rejected = sum(mutant["status"] == "rejected" for mutant in tried)
    survived = sum(mutant["status"] == "survived" for mutant in tried)
    more = f", {survived} {'survives' if survived == 1 else 'survive'}" if survived else ""
    return f"{rejected} of {len(tried)} rejected{more}" if tried else _NONE


@dataclass(slots=True)
class _Device:
    """What all records from one device say."""

    label: str
    names: dict[str, None]
    facts: dict[str, None]
    drivers: dict[str, None]
    compilers: dict[str, None]
    dates: list[str]

    def read(self, data: Data) -> None:
        device = data["device"]
        self.names[device["name"]] = None
        parts = (
            ("compute capability {}", device["compute_capability"]),
            ("{} SMs", device["sm_count"]),
            ("{} MiB", device["memory_mib"]),
        )
        self.facts[", ".join(form.format(what) for form, what in parts if what)] = None
        self.drivers[device["driver"]] = None
        self.compilers[data["toolchain"].get("nvcc", "")] = None
        self.dates.append(data["recorded"]["date"])


def devices(library: Library, ceilings: Sequence[Ceiling], link: Link) -> str:
    """Return what was recorded on each device, and the ceilings measured there.

    Args:
        library: Where evidence is found.
        ceilings: Programs and addresses that hold measured ceilings.
        link: Gives the address of an anchor on a page.
    """
    found: dict[str, _Device] = {}
    for program in library.project.programs:
        for label in library.devices(program):
            record = library.state(program, label).record
            if record is not None:
                made = found.setdefault(label, _Device(label, {}, {}, {}, {}, []))
                made.read(record.data)
    ordered = sorted(found.values(), key=lambda d: (d.label != library.device, d.label))
    head = ("device", "GPU", "driver", "nvcc", "programs", "recorded")
    rows = [_device(device, len(library.project.programs)) for device in ordered]
    html = table("Devices", head, rows) if rows else "<p>Nothing was recorded yet.</p>"
    labels = [device.label for device in ordered]
    return html + _ceilings(library, ceilings, labels, link)


def _device(device: _Device, programs: int) -> list[str]:
    name = "<br>".join(escape(text) for text in (*device.names, *device.facts) if text)
    dates = sorted(set(device.dates))
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    return [
        escape(device.label),
        name,
        escape(", ".join(sorted(filter(None, device.drivers)))) or _NONE,
        escape(", ".join(sorted(filter(None, device.compilers)))) or _NONE,
        f"{len(device.dates)} of {programs}",
        escape(when),
    ]


def _ceilings(library: Library, ceilings: Sequence[Ceiling], labels: list[str], link: Link) -> str:
    """Return a table of measured ceilings: a row for each address, a column for each device."""
    rows: list[list[str]] = []
    for ceiling in ceilings:
        found: dict[str, dict[str, Value]] = {
            label: _measured(library, ceiling, label) for label in labels
        }
        for address in dict.fromkeys(a for values in found.values() for a in values):
            captured = addresses.captured(ceiling.address, address) or address.rpartition("/")[2]
            home = library.home(ceiling.program)
            name = escape(captured.replace("-", " "))
            if home is not None:
                place = link(home, ids.output(ceiling.program.name))
                name = f'<a href="{escape(place)}">{name}</a>'
            cells = [_number(found[label].get(address)) for label in labels]
            rows.append([name, *cells])
    return table("Measured ceilings", ("measured ceiling", *labels), rows) if rows else ""


def _measured(library: Library, ceiling: Ceiling, label: str) -> dict[str, Value]:
    reading = library.reading(ceiling.program, label)
    try:
        found = addresses.resolve(ceiling.address, reading.values, reading.absent)
    except EvidenceError:
        return {}  # not measured there
    return {value.address: value for value in found}


def _number(value: Value | None) -> str:
    return _NONE if value is None else escape(digits.show(quantities.of(value)))


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table that scrolls by itself; cells are HTML, title and heads are text.

    A search finds what it lists on the pages that it lists it from.
    """
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return (
        f'<div class="ev-scroll" role="region" aria-label="{escape(title)}" tabindex="0" '
        'data-search-exclude="">'
        '<table class="ev-table ev-overview">'
        f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
