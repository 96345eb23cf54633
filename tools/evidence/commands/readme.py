"""`evidence readme`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from evidence import project, readme

if TYPE_CHECKING:
    from pathlib import Path


@click.command("readme")
@click.pass_obj
def command(start: Path | None) -> int:
    """Write the README of each program's folder from its evidence."""
    found = project.load(start)
    written = readme.write_all(found)
    for path in written:
        click.echo(f"wrote {path}")
    if not written:
        click.echo("every folder's README is as it should be")
    return 0
