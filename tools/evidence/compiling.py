"""The compile step of a recording: programs and mutants in one ninja run.

A binary is only vouched for if the compiler read the very files that the key
is taken over. Times of files decide what ninja compiles; hashes decide here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from evidence import build, key, mutants, ninjafile
from evidence.errors import EvidenceError
from evidence.mutants import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from evidence.build import Compiled
    from evidence.machine import Machine
    from evidence.model import Inputs, Program
    from evidence.ninjafile import Target
    from evidence.progress import Reporter
    from evidence.project import Project
    from evidence.trial import Request


@dataclass(frozen=True, slots=True)
class Compilation:
    """What there is to run.

    Attributes:
        programs: Program's name → what the compiler made of it; no Python.
        mutants: Program's name → mutant's name → the file to run instead, or
            the verdict that it cannot be tried.
    """

    programs: Mapping[str, Compiled] = field(default_factory=dict)
    mutants: Mapping[str, Mapping[str, Path | Verdict]] = field(default_factory=dict)


def compile_all(
    project: Project,
    programs: Sequence[Program],
    machine: Machine,
    request: Request,
    reporter: Reporter,
) -> Compilation:
    """Compile programs and their mutants for the machine's device.

    Raises:
        ToolchainError: ninja is missing or cannot work.
    """
    tried: dict[str, dict[str, Path | Verdict]] = {}
    hashes: dict[str, str] = {}
    targets: list[Target] = []
    for program in programs:
        if request.mutants:
            tried[program.name] = _prepare(project, program, machine.device.architecture, hashes)
        if machine.nvcc is None or program.build is None:
            continue
        for target in ninjafile.targets(program, machine.device.architecture, mutants=True):
            ready = tried.get(program.name, {}).get(target.mutant)
            if not target.mutant or (ready is not None and not isinstance(ready, Verdict)):
                targets.append(target)
    if machine.nvcc is None or not targets:
        return Compilation(mutants=tried)
    done = _make(project, targets, machine, hashes, reporter)
    found = {c.target.program.name: c for c in done if not c.target.mutant}
    for compiled in done:
        target = compiled.target
        if target.mutant and not compiled.succeeded:
            reason = next((m[2] for m in build.messages(compiled.output)), "")
            reason = f"it does not compile: {reason or build.general_reason(compiled.output)}"
            tried[target.program.name][target.mutant] = Verdict("broken", reason=reason)
    return Compilation(found, tried)


def _prepare(
    project: Project, program: Program, architecture: str, hashes: dict[str, str]
) -> dict[str, Path | Verdict]:
    """Write the mutated copies of a program."""
    if not program.plan.mutants:
        return {}
    made: dict[str, Path | Verdict] = {}
    _, text = key.read_text(program.path, program.relative)
    outputs = {
        target.mutant: target for target in ninjafile.targets(program, architecture, mutants=True)
    }
    for mutant in program.plan.mutants:
        target = outputs.get(mutant.name)
        path = mutants.source_path(project.root, program, mutant)
        if target is not None:
            path = project.root / target.source
        try:
            digest = mutants.write(path, mutants.apply(text, mutant, program.relative))
        except EvidenceError as error:
            made[mutant.name] = Verdict("broken", reason=error.message.partition(": ")[2])
            continue
        made[mutant.name] = path if target is None else project.root / target.output
        if target is not None:
            hashes[target.output] = digest
    return made


def write_mutant(project: Project, target: Target) -> None:
    """Write the source of a mutant's target.

    Raises:
        SourceError: The edit cannot be made.
    """
    program = target.program
    _, text = key.read_text(program.path, program.relative)
    mutant = next(m for m in program.plan.mutants if m.name == target.mutant)
    changed = mutants.apply(text, mutant, program.relative)
    mutants.write(project.root / target.source, changed)


def _make(
    project: Project,
    targets: list[Target],
    machine: Machine,
    hashes: Mapping[str, str],
    reporter: Reporter,
) -> list[Compiled]:
    nvcc = machine.nvcc
    assert nvcc is not None  # noqa: S101
    # What must not compile leaves no list of what it includes: always anew.
    build.forget(project.root, (t for t in targets if t.kind == "must-fail"))

    def once(wanted: Sequence[Target]) -> list[Compiled]:
        reporter.begin("compiling", len(wanted))
        build.make(
            project, wanted, nvcc, progress=reporter.part,
            architectures=[machine.device.architecture],
        )  # fmt: skip
        reporter.end()
        return [build.result(project.root, target, nvcc) for target in targets]

    done = once(targets)
    stale = list(_differing(done, hashes))
    if stale:
        build.forget(project.root, stale)
        done = once(stale)
    return done


def _differing(done: Iterable[Compiled], hashes: Mapping[str, str]) -> Iterator[Target]:
    """Yield what was compiled from other files than the tree holds now."""
    known: dict[str, Inputs] = {}
    for compiled in done:
        program = compiled.target.program
        try:
            inputs = known.get(program.name) or key.inputs_of(program)
        except EvidenceError:
            continue  # said elsewhere, with its line
        known[program.name] = inputs
        if differences(compiled, inputs, hashes.get(compiled.target.output)):
            yield compiled.target


def differences(compiled: Compiled, inputs: Inputs, mutated: str | None = None) -> list[str]:
    """Return how the files that were compiled differ from the key's inputs.

    Args:
        compiled: What was compiled; it holds the files' hashes.
        inputs: The key's inputs.
        mutated: Hash of the mutated copy, for a mutant.
    """
    if compiled.files is None:
        return []
    wrong = []
    for number, (path, digest) in enumerate(compiled.files.items()):
        if number == 0 and mutated is not None:
            if digest != mutated:
                wrong.append("the mutated copy is not the one that was compiled")
        elif path not in inputs.files:
            wrong.append(f"it includes {path}, which its key does not cover")
        elif inputs.files[path].raw != digest:
            wrong.append(f"{path} changed while it was being compiled")
    return wrong
