"""`evidence verify`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal

import click

from evidence import document, machine, project, recorder, selecting, shards, sinks, verifying
from evidence.device import LocalGpu
from evidence.errors import EvidenceError
from evidence.findings import failing
from evidence.progress import reporter
from evidence.trial import Request

if TYPE_CHECKING:
    from pathlib import Path

    from evidence.findings import Finding
    from evidence.verifying import Verified

Format = Literal["human", "json", "github", "markdown"]


@click.command("verify")
@click.argument("names", nargs=-1)
@click.option(
    "--format", "style", type=click.Choice(["human", "json", "github", "markdown"]),
    default="human", help="How to write what changed.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("--shard", metavar="I/N", help="Only the I-th of N parts that take about as long.")
@click.option("--runs", type=click.IntRange(min=1), help="Process runs (default: the plan's).")
@click.option("--no-sanitize", is_flag=True, help="Leave the sanitizers out.")
@click.option("--no-profile", is_flag=True, help="Leave the profiler out.")
@click.option("--no-mutants", is_flag=True, help="Leave the mutants out.")
@click.option("--wait", is_flag=True, help="Wait for another recording that holds the GPU.")
@click.pass_obj
def command(
    start: Path | None,
    names: tuple[str, ...],
    style: Format,
    as_json: bool,
    shard: str | None,
    runs: int | None,
    no_sanitize: bool,
    no_profile: bool,
    no_mutants: bool,
    wait: bool,
) -> int:
    """Record programs anew, store nothing, and say what is not as recorded.

    Without NAMES: all that have evidence of this device. Exit status 0 if every
    program did what its record says, on whatever driver and compiler; 1 if one did
    not, failed or could not be verified; 2 if nothing could be done.
    """
    style = "json" if as_json else style
    chosen = None if shard is None else shards.read(shard)
    found = project.load(start)
    here = machine.probe(LocalGpu())
    label = here.device.label(found.config.labels)
    records, findings = verifying.stored(found, found.find(names), label, named=bool(names))
    if not records:
        why = f": {findings[0].message}" if findings else ""
        raise EvidenceError(
            f"there is no evidence on {label} to verify{why}", fix="run: evidence list"
        )
    wanted = [program for program in found.programs if program.name in records]
    programs = selecting.narrow(found, wanted, label, chosen).programs
    sink = sinks.Kept()
    report = recorder.record(
        found, programs, here,
        Request(runs, sanitize=not no_sanitize, profile=not no_profile, mutants=not no_mutants),
        reporter=reporter(err=True), where=document.origin(found.root), sink=sink, wait=wait,
    )  # fmt: skip
    verified = [
        verifying.compare(p, records[p.name], sink.records[p.name])
        for p in programs
        if p.name in sink.records
    ]
    findings += report.findings
    drifted = sum(one.drifted for one in verified)
    summary = (
        f"{len(verified)} {'program' if len(verified) == 1 else 'programs'} verified on "
        f"{label}: {drifted} drifted, {len(verified) - drifted} as recorded"
    )
    failed = bool(drifted or failing(findings))
    _write(style, verified, findings, summary, label, failed=failed)
    return 1 if failed else 0


def _write(
    style: Format,
    verified: list[Verified],
    findings: list[Finding],
    summary: str,
    device: str,
    *,
    failed: bool,
) -> None:
    if style == "json":
        told = {
            "device": device,
            "failed": failed,
            "programs": [one.document() for one in verified],
            "findings": [json.loads(finding.explain("json")) for finding in findings],
        }
        click.echo(json.dumps(told, indent=1, ensure_ascii=False))
    elif style == "markdown":
        click.echo(verifying.as_markdown(verified, findings, summary), nl=False)
    else:
        for finding in (*findings, *(f for one in verified for f in one.findings())):
            click.echo(finding.explain(style))
        click.echo(summary)
