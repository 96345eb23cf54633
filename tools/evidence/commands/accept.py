"""`evidence accept`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from evidence import accept, project, readme, signing
from evidence.commands import strangers
from evidence.findings import ordered

if TYPE_CHECKING:
    from collections.abc import Iterable

    from evidence.accept import Report
    from evidence.findings import Finding
    from evidence.project import Project


@click.command("accept")
@click.argument("bundles", nargs=-1, required=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--require-signed", "required", is_flag=True,
    help="Take nothing that is not signed by somebody who may.",
)  # fmt: skip
@click.option(
    "--allowed-signers", "allowed", type=click.Path(dir_okay=False, path_type=Path),
    help="Who may sign, in OpenSSH's format (default: allowed_signers in [tool.evidence]).",
)  # fmt: skip
@click.option(
    "--untrusted", "stranger", is_flag=True,
    help="The tree is a stranger's: nothing is read or written outside of it.",
)  # fmt: skip
@click.pass_obj
def command(
    start: Path | None,
    bundles: tuple[Path, ...],
    required: bool,
    allowed: Path | None,
    stranger: bool,
) -> int:
    """Verify bundles recorded elsewhere and store their records.

    A record is taken only if it was made from the sources of this tree. Whether its
    program passed is judged here, by what the record holds. Bundles of several shards
    and devices can be given in any order.
    """
    found = strangers.load(start) if stranger else project.load(start)
    if allowed is None and found.config.allowed_signers and not stranger:
        allowed = found.root / found.config.allowed_signers
    if required and allowed is None:
        raise click.UsageError(
            "--require-signed needs to know who may sign: --allowed-signers FILE"
        )
    sound, signers, unsigned = signing.judge(bundles, allowed, required=required)
    for line in signers:
        click.echo(line)
    return told(found, accept.accept(found, sound), unsigned)


def told(found: Project, report: Report, unsigned: Iterable[Finding] = ()) -> int:
    """Say what came of accepting, and return the exit status."""
    for filed in report.filed:
        click.echo(filed.explain())
        for change in filed.drift:
            click.echo(f"  drift: {change}")
    for path in readme.write_all(found) if report.filed else ():
        click.echo(f"wrote {path}")
    for line in report.judged:
        click.echo(f"warning: {line}", err=True)
    for name in report.failed:
        click.echo(f"warning: {name} failed when it was recorded", err=True)
    refused = ordered((*unsigned, *report.refused))
    for finding in refused:
        click.echo(finding.explain(), err=True)
    missing = sum(finding.code == "missing-shard" for finding in refused)
    more = f", {missing} {'shard' if missing == 1 else 'shards'} missing" if missing else ""
    click.echo(f"{len(report.filed)} taken, {len(refused) - missing} refused{more}")
    return 1 if refused else 0
