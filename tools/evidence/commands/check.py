"""`evidence check`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from evidence import check, project
from evidence.findings import failing

if TYPE_CHECKING:
    from pathlib import Path

    from evidence.findings import Style


@click.command("check")
@click.option(
    "--format",
    "style",
    type=click.Choice(["human", "json", "github"]),
    default="human",
    help="How findings are written: for people, one JSON object a line, or GitHub annotations.",
)
@click.option("--no-pages", is_flag=True, help="Leave the pages' bindings and claims out.")
@click.pass_obj
def command(start: Path | None, style: Style, no_pages: bool) -> int:
    """Judge whether anything is stale or false; writes nothing.

    Exit status 0 if nothing fails, 1 if a finding fails, 2 if the check could
    not be made.
    """
    report = check.run(project.load(start), pages=not no_pages)
    for finding in report.findings:
        click.echo(finding.explain(style))
    errors = len(failing(report.findings))
    counts = ", ".join(f"{n} {_noun(kind, n)}" for kind, n in report.looked_at.items())
    warnings = len(report.findings) - errors
    verdict = "nothing fails" if not errors else f"{errors} {_noun('findings', errors)} to mend"
    more = f", {warnings} {_noun('warnings', warnings)}" if warnings else ""
    # JSON is for programs: the summary goes where it does not disturb them.
    click.echo(f"looked at {counts}: {verdict}{more}", err=style == "json")
    sys.stdout.flush()
    return 1 if errors else 0


def _noun(plural: str, count: int) -> str:
    return plural[:-1] if count == 1 else plural
