"""The compile step of a recording: programs and mutants in one ninja run.

A binary is only vouched for if the compiler read the very files that the key
is taken over. Times of files decide what ninja compiles; hashes decide here.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from evidence import build, key, mutants, ninjafile, untrusted
from evidence.errors import EvidenceError, MachineError
from evidence.mutants import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from evidence.build import Compiled
    from evidence.machine import Machine
    from evidence.model import Inputs, Program
    from evidence.ninjafile import Target
    from evidence.progress import Reporter
    from evidence.project import Project
    from evidence.trial import Request

_NO_SPACE = os.strerror(errno.ENOSPC)
_LEAST = 64 * 2**10  # bytes without which no compiler comes to an end
_MAKE_ROOM = "make room or mend the folder's permissions, then run the same command"


@dataclass(frozen=True, slots=True)
class Compilation:
    """What there is to run, by program's name.

    Attributes:
        inputs: What the key is taken over, as it was when it was compiled.
        programs: What the compiler made of a program; nothing for Python.
        mutants: Mutant's name → the file to run instead, or the verdict that
            it cannot be tried.
        changed: Why the binary does not belong to the inputs, if so.
        errors: Why there are no inputs.
    """

    inputs: dict[str, Inputs] = field(default_factory=dict)
    programs: dict[str, Compiled] = field(default_factory=dict)
    mutants: dict[str, dict[str, Path | Verdict]] = field(default_factory=dict)
    changed: dict[str, list[str]] = field(default_factory=dict)
    errors: dict[str, EvidenceError] = field(default_factory=dict)

    def update(self, other: Compilation) -> None:
        """Take over what another attempt came to."""
        for name in (*other.inputs, *other.errors):
            self.changed.pop(name, None)
        self.inputs.update(other.inputs)
        self.programs.update(other.programs)
        self.mutants.update(other.mutants)
        self.changed.update(other.changed)
        self.errors.update(other.errors)


def compile_all(
    project: Project,
    programs: Sequence[Program],
    machine: Machine,
    request: Request,
    reporter: Reporter,
) -> Compilation:
    """Compile programs and their mutants for the machine's device.

    What changed while it was compiled, or what ninja took for up to date
    though it is not, is compiled once more. In a stranger's tree nothing is taken for it.

    Raises:
        ToolchainError: ninja is missing or cannot work.
        MachineError: What it makes cannot be written.
    """
    if machine.sandbox is not None:
        untrusted.clean(project.root)
    try:
        return _compile(project, programs, machine, request, reporter)
    except OSError as error:
        raise MachineError(
            f"cannot be written: {error.strerror}; nothing was recorded",
            path=error.filename or ninjafile.BUILD, fix=_MAKE_ROOM,
        ) from None  # fmt: skip


def _compile(
    project: Project,
    programs: Sequence[Program],
    machine: Machine,
    request: Request,
    reporter: Reporter,
) -> Compilation:
    done = _attempt(project, programs, machine, request, reporter)
    unsteady = [program for program in programs if program.name in done.changed]
    if unsteady:
        architecture = machine.device.architecture
        for program in unsteady:
            build.forget(
                project.root, ninjafile.targets(program, architecture, mutants=request.mutants)
            )
        done.update(_attempt(project, unsteady, machine, request, reporter))
    return done


def _attempt(
    project: Project,
    programs: Sequence[Program],
    machine: Machine,
    request: Request,
    reporter: Reporter,
) -> Compilation:
    found = Compilation()
    hashes: dict[str, str] = {}
    targets: list[Target] = []
    for program in programs:
        try:
            found.inputs[program.name] = key.inputs_of(program)
            wanted = ninjafile.targets(
                program, machine.device.architecture, mutants=request.mutants
            )
            ready = _prepare(project, program, wanted, hashes) if request.mutants else {}
        except EvidenceError as error:
            found.errors[program.name] = error
            continue
        found.mutants[program.name] = ready
        targets += [t for t in wanted if not isinstance(ready.get(t.mutant), Verdict)]
    done = _make(project, targets, machine, reporter)
    for compiled in done:
        name = compiled.target.program.name
        if not compiled.target.mutant:
            found.programs[name] = compiled
        elif not compiled.succeeded:
            verdict = Verdict("broken", reason=_why_not(compiled))
            found.mutants[name][compiled.target.mutant] = verdict
    _compare(found, done, hashes)
    return found


def _prepare(
    project: Project, program: Program, wanted: Iterable[Target], hashes: dict[str, str]
) -> dict[str, Path | Verdict]:
    """Write the mutated copies of a program."""
    if not program.plan.mutants:
        return {}
    made: dict[str, Path | Verdict] = {}
    outputs = {target.mutant: target for target in wanted}
    for mutant in program.plan.mutants:
        target = outputs.get(mutant.name)
        path = mutants.source_path(project.root, program, mutant)
        if target is not None:
            path = project.root / target.source
        try:
            digest = mutants.write(path, mutants.mutated(program, mutant))
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
    mutant = next(m for m in program.plan.mutants if m.name == target.mutant)
    mutants.write(project.root / target.source, mutants.mutated(program, mutant))


def _make(
    project: Project, targets: list[Target], machine: Machine, reporter: Reporter
) -> list[Compiled]:
    nvcc = machine.nvcc
    if nvcc is None or not targets:
        return []
    # What must not compile leaves no list of what it includes: always anew.
    build.forget(project.root, (t for t in targets if t.kind == "must-fail"))
    reporter.begin("compiling", len(targets))
    architectures = [machine.device.architecture]
    build.make(
        project, targets, nvcc, progress=reporter.part, architectures=architectures,
        sandbox=machine.sandbox,
    )  # fmt: skip
    reporter.end()
    results = [build.result(project.root, target, nvcc) for target in targets]
    _require_room(project, results)
    return results


def _require_room(project: Project, done: Iterable[Compiled]) -> None:
    """Refuse to tell of a program that it does not compile where it cannot be written.

    Raises:
        MachineError: A disk is full.
    """
    failed = [compiled for compiled in done if compiled.exit_status != 0]
    if not failed:
        return
    folders = {project.root / ninjafile.BUILD, Path(tempfile.gettempdir())}
    full = [folder for folder in sorted(folders) if shutil.disk_usage(folder).free < _LEAST]
    said = any(_NO_SPACE in line for compiled in failed for line in compiled.output)
    if full or said:
        where = project.relative(full[0]) if full else ninjafile.BUILD
        raise MachineError(
            f"cannot be written: {_NO_SPACE}; {failed[0].target.program.name} could not be "
            "compiled, and nothing was recorded", path=where, fix=_MAKE_ROOM,
        )  # fmt: skip


def _why_not(compiled: Compiled) -> str:
    said = next((text for _, _, text in build.messages(compiled.output)), "")
    return f"it does not compile: {said or build.general_reason(compiled.output)}"


def _compare(found: Compilation, done: Iterable[Compiled], hashes: Mapping[str, str]) -> None:
    """Note every program of which the binary is not of the inputs.

    The inputs were read before the compiler ran and the hashes were taken
    after it, so that an edit in between shows, whichever text it compiled.
    """
    for compiled in done:
        program = compiled.target.program
        mutated = hashes.get(compiled.target.output)
        for sentence in differences(compiled, found.inputs[program.name], mutated):
            sentences = found.changed.setdefault(program.name, [])
            if sentence not in sentences:
                sentences.append(sentence)


def differences(compiled: Compiled, inputs: Inputs, mutated: str | None = None) -> list[str]:
    """Return how the files that were compiled differ from the key's inputs.

    Args:
        compiled: What was compiled; it holds the files' hashes.
        inputs: The key's inputs.
        mutated: Hash of the mutated copy, for a mutant.
    """
    wrong = []
    for number, (path, digest) in enumerate((compiled.files or {}).items()):
        if number == 0 and mutated is not None:
            if digest != mutated:
                wrong.append(f"the copy for {compiled.target.name} is not what was compiled")
        elif path not in inputs.files:
            wrong.append(f"it includes {path}, which its key does not cover")
        elif inputs.files[path].raw != digest:
            wrong.append(f"{path} changed while it was being compiled")
    return wrong
