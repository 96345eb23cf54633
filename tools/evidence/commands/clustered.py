"""`evidence record --executor slurm`: queue, wait, and take what the jobs recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from evidence import accept, bundle, slurm, slurmconfig
from evidence.commands.accept import told
from evidence.config import FILE
from evidence.errors import EvidenceError
from evidence.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from evidence.project import Project


def run(
    project: Project,
    names: Sequence[str],
    *,
    labels: Sequence[str],
    jobs: int | None,
    everything: bool,
    target: Path | None,
    options: Sequence[str],
    sign: Callable[[], None],
) -> int:
    """Record on a cluster; return the command's exit status.

    Args:
        project: The project.
        names: Programs; none for those whose evidence lacks.
        labels: Devices; none for all that the configuration has.
        jobs: Into how many jobs each device's programs go.
        everything: Whether to take fresh ones too.
        target: The bundle to write; None to accept into the tree.
        options: Further words for each job's `evidence record`.
        sign: Called when the bundle is written.

    Raises:
        EvidenceError: Slurm is not here, or the configuration is wrong.
    """
    targets = slurmconfig.targets(project.config.slurm, labels, project.root / FILE)
    for problem in project.problems:
        click.echo(problem.explain(), err=True)
    queued = slurm.submit(
        project, targets, names, everything=everything, jobs=jobs, options=options, say=click.echo
    )
    if not queued:
        return 1 if project.problems else 0
    collected = slurm.wait(queued, click.echo)
    for finding in slurm.elsewhere(queued):
        click.echo(finding.explain(), err=True)
    for finding in collected.findings:
        click.echo(finding.explain(), err=True)
    status = 1 if collected.findings or project.problems else 0
    if not collected.bundles:
        return 1
    if target is None:
        report = accept.accept(project, collected.bundles)
        return told(project, report) or status or (1 if report.failed else 0)
    wrong = _joined(collected.bundles, target)
    sign()
    return wrong or status


def _joined(paths: Sequence[Path], target: Path) -> int:
    """Write one bundle of several; what cannot be read is said and left out."""
    records, wrong = [], []
    for path in paths:
        try:
            entries = bundle.read(path)
        except EvidenceError as error:
            wrong.append(Finding.of(error, "bad-bundle"))
            continue
        records += [(e.program, e.device, e.data.decode("utf-8")) for e in entries if not e.problem]
        wrong += [
            Finding("bad-bundle", str(path), 1, e.problem, bundle.RECORD_AGAIN)
            for e in entries if e.problem
        ]  # fmt: skip
    bundle.write(target, bundle.pack(records))
    for finding in wrong:
        click.echo(finding.explain(), err=True)
    click.echo(f"wrote {target} ({len(records)} records)")
    return 1 if wrong else 0
