"""`evidence accept`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from evidence import accept, project, readme

if TYPE_CHECKING:
    from evidence.accept import Report
    from evidence.project import Project


@click.command("accept")
@click.argument("bundles", nargs=-1, required=True, type=click.Path(dir_okay=False, path_type=Path))
@click.pass_obj
def command(start: Path | None, bundles: tuple[Path, ...]) -> int:
    """Verify bundles recorded elsewhere and store their records.

    A record is taken only if it was made from the sources of this tree. Bundles of
    several shards and devices can be given in any order.
    """
    found = project.load(start)
    return told(found, accept.accept(found, bundles))


def told(found: Project, report: Report) -> int:
    """Say what came of accepting, and return the exit status."""
    for filed in report.filed:
        click.echo(filed.explain())
        for change in filed.drift:
            click.echo(f"  drift: {change}")
    for path in readme.write_all(found) if report.filed else ():
        click.echo(f"wrote {path}")
    for name in report.failed:
        click.echo(f"warning: {name} failed when it was recorded", err=True)
    for finding in report.refused:
        click.echo(finding.explain(), err=True)
    missing = sum(finding.code == "missing-shard" for finding in report.refused)
    more = f", {missing} {'shard' if missing == 1 else 'shards'} missing" if missing else ""
    click.echo(f"{len(report.filed)} taken, {len(report.refused) - missing} refused{more}")
    return 1 if report.refused else 0
