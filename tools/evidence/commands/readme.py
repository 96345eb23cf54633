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
    """Write the README of each program's folder, and the pages that list whole programs."""
    found = project.load(start)
    written = readme.write_all(found)
    for path in written:
        there = (found.root / path).is_file()
        click.echo(f"{'wrote' if there else 'removed'} {path}")
    if not written:
        click.echo("every README and every page of sources is as it should be")
    return 0
