"""`evidence build`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from evidence import build, compiling, ninjafile, project, sandbox, toolchain
from evidence.commands import strangers
from evidence.errors import EvidenceError
from evidence.findings import Finding, ordered
from evidence.progress import reporter

if TYPE_CHECKING:
    from pathlib import Path

    from evidence.ninjafile import Target
    from evidence.project import Project


@click.command("build")
@click.argument("names", nargs=-1)
@click.option(
    "--arch", "architectures", multiple=True, type=int, metavar="NN",
    help="Compute capability, as 90 (default: all in [tool.evidence]); may be repeated.",
)  # fmt: skip
@click.option("--mutants", is_flag=True, help="Also compile the mutants.")
@click.option(
    "--untrusted",
    "stranger",
    is_flag=True,
    help="The sources are a stranger's: compile them in a sandbox.",
)
@click.option("-j", "--jobs", type=click.IntRange(min=1), help="Compilers at a time.")
@click.pass_obj
def command(
    start: Path | None,
    names: tuple[str, ...],
    architectures: tuple[int, ...],
    mutants: bool,
    stranger: bool,
    jobs: int | None,
) -> int:
    """Compile every program for the configured architectures; warnings are errors."""
    found = strangers.load(start) if stranger else project.load(start)
    programs = [p for p in found.find(names) if p.build is not None]
    wanted = [f"sm_{number}" for number in architectures or found.config.architectures]
    problems = [] if names else list(found.problems)
    targets: dict[str, Target] = {}
    for program in programs:
        for architecture in wanted:
            for target in ninjafile.targets(program, architecture, mutants=mutants):
                problem = _prepared(found, target)
                if problem is not None:
                    problems.append(problem)
                else:
                    targets.setdefault(target.output, target)
    nvcc = toolchain.find_nvcc()
    box = sandbox.find([nvcc.path]) if stranger else None
    if not targets and not problems:
        raise EvidenceError("there is no program to compile", fix="see: evidence list")
    tell = reporter()
    tell.begin("compiling", len(targets))
    try:
        good = build.make(
            found, list(targets.values()), nvcc, jobs=jobs, progress=tell.part,
            architectures=wanted, sandbox=box,
        )  # fmt: skip
    finally:
        tell.end()
    if not good:
        done = [build.result(found.root, target, nvcc) for target in targets.values()]
        problems += build.findings(found, done)
    for finding in ordered(problems):
        click.echo(finding.explain())
    names_of = ", ".join(wanted)
    failed = f", {len(problems)} problems" if problems else ""
    click.echo(f"{len(programs)} programs for {names_of} with nvcc {nvcc.version}{failed}")
    return 1 if problems else 0


def _prepared(found: Project, target: Target) -> Finding | None:
    """Write a mutant's source; return why it cannot be."""
    if not target.mutant:
        return None
    try:
        compiling.write_mutant(found, target)
    except EvidenceError as error:
        return Finding.of(error, "mutant-misses", target.program.relative)
    return None
