"""`evidence list`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from evidence import check, costs, project, selecting, shards, states
from evidence.commands import strangers
from evidence.errors import EvidenceError
from evidence.selecting import TO_RECORD

if TYPE_CHECKING:
    from pathlib import Path

    from evidence.project import Project
    from evidence.states import State


@click.command("list")
@click.argument("names", nargs=-1)
@click.option(
    "--device", "devices", multiple=True,
    help="Judge on this device only (default: all that have evidence); can be given several times.",
)  # fmt: skip
@click.option("--stale", is_flag=True, help="Only programs that need recording.")
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
@click.option(
    "--matrix", type=click.IntRange(min=1), metavar="SECONDS",
    help="The shards of at most so long that `evidence record NAMES` splits into, for a CI matrix.",
)  # fmt: skip
@click.option(
    "--untrusted", "stranger", is_flag=True,
    help="The tree is a stranger's: nothing is read outside of it.",
)  # fmt: skip
@click.pass_obj
def command(
    start: Path | None,
    names: tuple[str, ...],
    devices: tuple[str, ...],
    stale: bool,
    as_json: bool,
    matrix: int | None,
    stranger: bool,
) -> int:
    """List programs and the state of their evidence.

    With --json, `cost` is the seconds that recording a program is expected to take.
    """
    _check_labels(devices)
    found = strangers.load(start, err=True) if stranger else project.load(start)
    if matrix is not None:
        wanted = devices or (found.config.device,)
        rows_ = [row for label in wanted for row in selecting.matrix(found, names, label, matrix)]
        click.echo(json.dumps({"include": rows_}))
        return 0
    rows = [
        state
        for program in found.find(names)
        for label in (devices or check.devices_of(program, found.config.device))
        if (state := states.judge(found, program, label)).name in TO_RECORD or not stale
    ]
    if as_json:
        listed = [_row(found, state) for state in rows]
        click.echo(json.dumps(listed, indent=1, ensure_ascii=False))
    width = max((len(state.program.name) for state in rows), default=0)
    for state in rows if not as_json else ():
        row = _row(found, state)
        click.echo(
            f"{state.program.name:<{width}}  {state.device:<6}  {state.name:<8}  "
            f"{row['recorded'] or '-':<10}  {row['note']}".rstrip()
        )
    for problem in found.problems:
        click.echo(problem.explain(), err=True)
    return 1 if found.problems else 0


def _check_labels(devices: tuple[str, ...]) -> None:
    for device in devices:
        if not shards.LABEL.fullmatch(device):
            raise EvidenceError(
                f"{device!r} is no device label: lower-case letters, digits and hyphens",
                fix="give one as `evidence list` shows it: --device h200",
            )


def _row(found: Project, state: State) -> dict[str, Any]:
    record = state.record
    note = state.findings[0].message if state.findings else ""
    return {
        "program": state.program.name,
        "source": state.program.relative,
        "device": state.device,
        "state": state.name,
        "recorded": record.data["recorded"]["date"] if record else None,
        "runs": len(record.data["runs"]) if record else 0,
        "seconds": sum(run["seconds"] for run in record.data["runs"]) if record else None,
        "cost": costs.expected(found, state.program, state.device),
        "note": note,
    }
