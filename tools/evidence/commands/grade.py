"""`evidence grade`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from evidence import grading, project
from evidence.device import LocalGpu

_SIGNS = {"good": "ok", "bad": "NOT", "open": "open"}
_ENDS = {
    "good": "passes",
    "bad": "does not pass",
    "open": "nothing is wrong as far as could be judged here; the gate has not spoken",
}
OPEN = 3


@click.command("grade")
@click.argument("day")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option("--show", is_flag=True, help="Also what the program printed.")
@click.pass_obj
def command(start: Path | None, day: str, file: Path, as_json: bool, show: bool) -> int:
    """Judge your answer to a day's exercise.

    FILE is your copy of the day's `starter.cu`. What stands in its region `exercise`
    is put into the starter, compiled and run; the starter's own gate and the
    sanitizers judge. Without a GPU it is compiled and looked at.

    Exit status: 0 it passes, 1 it does not, 3 not everything could be judged here.
    """
    done = grading.grade(project.load(start), day, file, LocalGpu())
    if as_json:
        document = {
            "exercise": done.starter.name,
            "state": done.state,
            "rows": [asdict(row) for row in done.rows],
            "printed": list(done.printed),
        }
        click.echo(json.dumps(document, indent=1, ensure_ascii=False))
    else:
        width = max(len(row.what) for row in done.rows)
        for row in done.rows:
            click.echo(f"{_SIGNS[row.state]:<4}  {row.what:<{width}}  {row.said}".rstrip())
        for line in done.printed if show else ():
            click.echo(f"  | {line}")
        click.echo(f"{file}, judged by {done.starter.relative}: {_ENDS[done.state]}")
    return {"good": 0, "bad": 1, "open": OPEN}[done.state]
