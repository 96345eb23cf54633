"""`evidence prune`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from evidence import check, project

if TYPE_CHECKING:
    from pathlib import Path


@click.command("prune")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def command(start: Path | None, yes: bool) -> int:
    """Remove evidence of programs that are gone, after asking."""
    found = project.load(start)
    orphans = check.orphans(found)
    if not orphans:
        click.echo("nothing to remove: every evidence file belongs to a program")
        return 0
    for finding in orphans:
        click.echo(f"{finding.path}: {finding.message}")
    if not yes and not click.confirm(f"remove {len(orphans)} files?"):
        click.echo("nothing removed")
        return 1
    for finding in orphans:
        path = found.root / finding.path
        path.unlink(missing_ok=True)
        click.echo(f"removed {finding.path}")
        if not any(path.parent.iterdir()):
            path.parent.rmdir()
    return 0
