"""`evidence values`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from evidence import addresses, diffing, digits, project, quantities, store
from evidence import values as values_module
from evidence.commands.diff import no_evidence
from evidence.errors import EvidenceError

if TYPE_CHECKING:
    from pathlib import Path

    from evidence.model import Program
    from evidence.project import Project
    from evidence.values import Reading, Value


@click.command("values")
@click.argument("name")
@click.argument("pattern", required=False)
@click.option("--device", help="The device (default: the project's).")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option("--unread", is_flag=True, help="List printed lines that have no address instead.")
@click.pass_obj
def command(
    start: Path | None,
    name: str,
    pattern: str | None,
    device: str | None,
    as_json: bool,
    unread: bool,
) -> int:
    """List every address of a program's evidence with its value.

    NAME is a program's or a folder's name. PATTERN is an address, the
    beginning of one, or one with `*` for any part of a segment.
    """
    found = project.load(start)
    label = device or found.config.device
    programs = found.find([name])
    readings = {program: _read(found, program, label) for program in programs}
    listed = {p: _matching(readings[p], pattern, alone=len(programs) == 1) for p in programs}
    if pattern and not any(listed.values()):
        raise EvidenceError(
            f"`{pattern}` matches no address of {name}", fix=f"run: evidence values {name}"
        )
    if as_json:
        document = {p.name: _json(readings[p], listed[p], label) for p in programs}
        click.echo(json.dumps(document, indent=1, ensure_ascii=False))
    else:
        for program in programs:
            if len(programs) > 1:
                click.echo(program.name)
            reading = readings[program]
            lines = _unread(reading) if unread else _table(listed[program])
            click.echo("".join(f"{line}\n" for line in lines), nl=len(programs) > 1)
    problems = [(p, text) for p in programs for text in readings[p].problems]
    for program, text in problems:
        click.echo(f"{program.relative}: {text}", err=True)
    return 1 if problems else 0


def _read(found: Project, program: Program, device: str) -> Reading:
    path = program.evidence_path(device)
    if not path.is_file():
        raise no_evidence(found, program, device)
    return values_module.read(store.read(path, found.relative(path)).data, program.plan.values)


def _matching(reading: Reading, pattern: str | None, *, alone: bool) -> list[Value]:
    values = reading.values
    if not pattern:
        return list(values.values())
    inside = [v for address, v in values.items() if address.startswith(f"{pattern.rstrip('/')}/")]
    if inside:
        return inside
    try:
        matching = set(addresses.resolve(pattern, values, reading.absent))
    except EvidenceError:
        if alone:
            raise
        return []
    return [value for value in values.values() if value in matching]  # as printed


def _table(values: list[Value]) -> list[str]:
    rows = [(v.address, digits.show(quantities.of(v)), _kind(v)) for v in values]
    widths = [max((len(row[i]) for row in rows), default=0) for i in (0, 1)]
    return [f"{a:<{widths[0]}}  {shown:>{widths[1]}}  {kind}" for a, shown, kind in rows]


def _kind(value: Value) -> str:
    if value.exact:
        return "exact"
    band = digits.spread(quantities.of(value))
    count = f"{len(value.samples)} samples"
    return f"measured, {band}, {count}" if band else f"measured, {count} alike"


def _unread(reading: Reading) -> list[str]:
    return [f"line {entry.line + 1}: {entry.text}" for entry in reading.unread]


def _json(reading: Reading, values: list[Value], device: str) -> dict[str, object]:
    return {
        "device": device,
        "values": [diffing.value_json(value) for value in values],
        "unread": [{"line": entry.line + 1, "text": entry.text} for entry in reading.unread],
        "problems": list(reading.problems),
        "absent": reading.absent,
    }
