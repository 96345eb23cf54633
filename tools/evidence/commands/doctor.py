"""`evidence doctor`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from evidence import config, doctor
from evidence.device import LocalGpu

if TYPE_CHECKING:
    from pathlib import Path

_SIGNS = {"ok": "ok", "missing": "MISSING", "warning": "note"}


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option("--no-try", is_flag=True, help="Only look; do not compile and run a small program.")
@click.pass_obj
def command(start: Path | None, as_json: bool, no_try: bool) -> int:
    """Say what this machine can do, and what to install."""
    rows = doctor.examine(config.load(start), LocalGpu(), try_tools=not no_try)
    able = doctor.able(rows)
    if as_json:
        document = {"able": able, "rows": [asdict(row) for row in rows]}
        click.echo(json.dumps(document, indent=1, ensure_ascii=False))
        return 0
    width = max(len(row.name) for row in rows)
    for row in rows:
        click.echo(f"{row.name:<{width}}  {_SIGNS[row.state]:<7}  {row.found}")
        if row.fix:
            click.echo(f"{'':<{width}}           {row.fix}")
    for name, can in able.items():
        click.echo(f"evidence {name}: {'works here' if can else 'does not work here'}")
    return 0
