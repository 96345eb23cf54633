"""`evidence record`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from evidence import (
    clock,
    document,
    gpus,
    machine,
    project,
    readme,
    recorder,
    selecting,
    shards,
    signing,
    sinks,
    toolchain,
    untrusted,
)
from evidence.commands import clustered, strangers
from evidence.device import LocalGpu
from evidence.errors import EvidenceError
from evidence.progress import reporter
from evidence.trial import Request

if TYPE_CHECKING:
    from evidence.device import Gpu
    from evidence.project import Project


@click.command("record")
@click.argument("names", nargs=-1)
@click.option(
    "--bundle", type=click.Path(dir_okay=False, path_type=Path),
    help="Write one file for `evidence accept` instead of storing into the tree.",
)  # fmt: skip
@click.option(
    "--shard", metavar="I/N",
    help="Only the I-th of N parts that take about as long; with --bundle.",
)  # fmt: skip
@click.option(
    "--runs", type=click.IntRange(min=1), help="Process runs of each program (default: its plan's)."
)
@click.option("--all", "everything", is_flag=True, help="Also programs with fresh evidence.")
@click.option(
    "--force", is_flag=True, help="Like --all, and take over nothing from an interrupted recording."
)
@click.option("--no-sanitize", is_flag=True, help="Leave the sanitizers out.")
@click.option("--no-profile", is_flag=True, help="Leave the profiler out.")
@click.option("--no-mutants", is_flag=True, help="Leave the mutants out.")
@click.option(
    "--untrusted", "stranger", is_flag=True,
    help="The sources are a stranger's: compile and run them in a sandbox. Needs --bundle.",
)  # fmt: skip
@click.option(
    "--sign", "key", type=click.Path(dir_okay=False, path_type=Path), metavar="KEY",
    help="Sign the bundle with this SSH key.",
)  # fmt: skip
@click.option(
    "--gpus", "use", metavar="all|0,1,…",
    help="GPUs to use side by side, one program on each at a time (default: the first).",
)  # fmt: skip
@click.option("--wait", is_flag=True, help="Wait for another recording that holds the GPU.")
@click.option(
    "--executor", type=click.Choice(["here", "slurm"]), default="here", show_default=True,
    help="Record on this machine, or through jobs of a Slurm cluster.",
)  # fmt: skip
@click.option(
    "--device", "labels", metavar="LABEL", multiple=True,
    help="Only this device of [tool.evidence.slurm]; can be given several times.",
)  # fmt: skip
@click.option(
    "--jobs", type=click.IntRange(min=1), help="Slurm jobs for each device (default: its table's)."
)
@click.option("--commit", help="The project's commit, where there is no git repository.")
@click.pass_obj
def command(
    start: Path | None,
    names: tuple[str, ...],
    bundle: Path | None,
    shard: str | None,
    runs: int | None,
    everything: bool,
    force: bool,
    no_sanitize: bool,
    no_profile: bool,
    no_mutants: bool,
    stranger: bool,
    key: Path | None,
    use: str | None,
    wait: bool,
    executor: str,
    labels: tuple[str, ...],
    jobs: int | None,
    commit: str | None,
) -> int:
    """Compile and run programs on this machine's GPU, and store what happened.

    Without NAMES: those whose evidence is stale, missing, failed or partial.
    """
    if executor == "slurm" and stranger:
        # The tree's configuration has shell lines for the jobs, outside of any sandbox.
        raise click.UsageError("--untrusted records on this machine: drop --executor slurm")
    _contradictions(executor, names, everything=everything, shard=shard, cluster=(labels, jobs))
    chosen = None if shard is None else shards.read(shard)
    _check_bundle(bundle, shard, key, stranger=stranger)
    found = strangers.load(start) if stranger else project.load(start)
    if executor == "slurm":
        given = {"no-sanitize": no_sanitize, "no-profile": no_profile, "no-mutants": no_mutants}
        given["force"] = force
        options = [*(["--runs", str(runs)] if runs else []), *(f"--{k}" for k in given if given[k])]
        return clustered.run(
            found, names, labels=labels, jobs=jobs, everything=everything or force,
            target=bundle, options=options, sign=lambda: _sign(bundle, key),
        )  # fmt: skip
    here, *beside = _machines(LocalGpu(), use, stranger=stranger)
    nvcc = here.nvcc.version if here.nvcc else ""
    label = here.device.label(found.config.labels)
    wanted = selecting.select(found, names, label, nvcc, everything=everything or force)
    selection = selecting.narrow(found, wanted, label, chosen)
    programs = selection.programs
    problems = () if names else found.problems
    for problem in problems:
        click.echo(problem.explain(), err=True)
    if chosen is not None:
        click.echo(
            f"shard {chosen[0]}/{chosen[1]}: {len(programs)} of {len(wanted)} programs, "
            f"about {selection.seconds:.0f} s"
        )
    elif not programs:
        click.echo(f"nothing to record: all {len(found.programs)} programs are fresh on {label}")
        # What a recording that was killed at its very end has left to do.
        sinks.Tree(found).staging.clear()
        _write_readmes(found, bundle)
        return 1 if problems else 0
    if nvcc and not toolchain.pin_holds(found.config.nvcc, nvcc):
        click.echo(
            f"warning: this is nvcc {nvcc}, the pin is {found.config.nvcc}: "
            "these records will be unpinned",
            err=True,
        )
    where = document.origin(found.root, commit)
    clock.require(found, programs, label, where.date)
    report = recorder.record(
        found, programs, here,
        Request(runs, sanitize=not no_sanitize, profile=not no_profile, mutants=not no_mutants),
        reporter=reporter(), where=where,
        sink=sinks.Bundle(bundle, selection.part) if bundle else None, beside=beside,
        restart=force, wait=wait,
    )  # fmt: skip
    _write_readmes(found, bundle)
    _sign(bundle if report.written else None, key)
    for finding in report.findings:
        click.echo(finding.explain(), err=True)
    for name, reasons in report.failed:
        click.echo(f"failed: {name}: {reasons}", err=True)
    passed = len(report.recorded) - len(report.failed)
    click.echo(
        f"{passed} passed, {len(report.failed)} failed, {len(report.findings)} not recorded "
        f"on {label}; {len(report.written)} files written"
    )
    return 0 if report.succeeded and not problems else 1


def _write_readmes(found: Project, bundle: Path | None) -> None:
    # A bundle is accepted elsewhere; they are written there.
    for path in readme.write_all(found) if bundle is None else ():
        click.echo(f"wrote {path}")


def _contradictions(
    executor: str,
    names: tuple[str, ...],
    *,
    everything: bool,
    shard: str | None,
    cluster: tuple[tuple[str, ...], int | None],
) -> None:
    if names and everything:
        raise click.UsageError("NAMES and --all contradict each other: drop one of them")
    if executor == "slurm" and shard is not None:
        raise click.UsageError("--executor slurm makes the shards itself: give --jobs N")
    if executor != "slurm" and any(cluster):
        raise click.UsageError("--device and --jobs are for --executor slurm")


def _check_bundle(
    bundle: Path | None, shard: str | None, key: Path | None, *, stranger: bool
) -> None:
    """Refuse what only makes sense of a bundle, where there is none to be."""
    if stranger and bundle is None:
        raise click.UsageError("--untrusted writes nothing into the tree: add --bundle FILE")
    if key is not None and bundle is None:
        raise click.UsageError("--sign signs a bundle: add --bundle FILE")
    if shard is not None and bundle is None:
        raise EvidenceError(
            "--shard needs --bundle: what one shard stores would move the others' programs",
            fix=f"evidence record --shard {shard} --bundle FILE, then: evidence accept FILE…",
        )
    if key is not None:
        signing.signature_of(b"", key)  # before hours of work, not after


def _sign(bundle: Path | None, key: Path | None) -> None:
    if bundle is not None and key is not None:
        click.echo(f"signed {bundle} with {signing.sign(bundle, key)}")


def _machines(gpu: Gpu, use: str | None, *, stranger: bool) -> list[machine.Machine]:
    here = machine.probe(gpu)
    here = untrusted.prepare(here) if stranger else here
    if use is None:
        return [here]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return gpus.machines(here, gpus.choose(gpu.every(), use, visible))
