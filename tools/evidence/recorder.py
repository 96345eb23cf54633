"""Recording: compile everything first, then one program at a time on the GPU."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evidence import (
    bundle,
    compiling,
    document,
    filing,
    key,
    outcome,
    processes,
    runner,
    states,
    store,
    toolchain,
    trial,
)
from evidence import machine as machines
from evidence.errors import EvidenceError, ToolchainError
from evidence.findings import Finding
from evidence.scrub import of_machine
from evidence.staging import Staging, fingerprint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evidence.compiling import Compilation
    from evidence.document import Origin
    from evidence.machine import Machine
    from evidence.model import Inputs, Program
    from evidence.progress import Reporter
    from evidence.project import Project
    from evidence.scrub import Scrubber
    from evidence.trial import Request, Trial

STAGING = ".evidence/staging"
# States about which a recorder can do something.
TO_RECORD = ("stale", "missing", "failed", "partial", "edited")


@dataclass(frozen=True, slots=True)
class Report:
    """What came of a recording.

    Attributes:
        recorded: Programs of which there is a record now, by name.
        failed: Program's name → why it failed.
        findings: What kept programs from being recorded at all.
        written: Files that were written, relative to the project's root, or the bundle.
    """

    recorded: tuple[str, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    findings: tuple[Finding, ...] = ()
    written: tuple[str, ...] = ()

    @property
    def succeeded(self) -> bool:
        """Return whether every program passed."""
        return not self.failed and not self.findings


def select(
    project: Project, names: Sequence[str], device: str, nvcc: str, *, everything: bool
) -> list[Program]:
    """Return the programs to record: the named ones, else those whose evidence lacks.

    Args:
        project: The project.
        names: What `Project.find` takes; none for all that need recording.
        device: The device's label.
        nvcc: Version of the compiler here; "" for none.
        everything: Whether to take those with fresh evidence too.
    """
    programs = project.find(names)
    if names or everything:
        return list(programs)
    wanted = set(TO_RECORD)
    if toolchain.pin_holds(project.config.nvcc, nvcc):
        wanted.add("unpinned")
    return [p for p in programs if states.judge(project, p, device).name in wanted]


def record(
    project: Project,
    programs: Sequence[Program],
    machine: Machine,
    request: Request,
    *,
    reporter: Reporter,
    where: Origin,
    target: Path | None = None,
    restart: bool = False,
) -> Report:
    """Record programs, into the tree or into a bundle.

    Args:
        project: The project.
        programs: What to record.
        machine: This machine.
        request: What to do with each program.
        reporter: Told what is going on.
        where: The project's version.
        target: The bundle to write; None to store into the tree.
        restart: Whether to make records anew that an interrupted recording left.

    Raises:
        EvidenceError: The recording cannot go on; what is done is kept.
    """
    if machine.nvcc is None and any(p.language == "cuda" for p in programs):
        raise ToolchainError(machine.nvcc_missing)
    with machines.reserved(machine.device):
        orphans = processes.kill_orphans(Path(tempfile.gettempdir()), runner.PREFIX)
        if orphans:
            reporter.say(f"ended {orphans} programs that a killed recording had left running")
        session = _Session(project, machine, request, reporter, where, target)
        if restart or machine.sandbox is not None:
            session.staging.clear()
        try:
            return session.run(programs)
        finally:
            reporter.end()


class _Session:
    """One recording."""

    def __init__(
        self,
        project: Project,
        machine: Machine,
        request: Request,
        reporter: Reporter,
        where: Origin,
        target: Path | None,
    ) -> None:
        self.project = project
        self.machine = machine
        self.request = request
        self.reporter = reporter
        self.where = where
        self.target = target
        folder = project.root / STAGING if target is None else partial_of(target)
        self.staging = Staging(folder)
        self.scrubber = _scrubber(project, machine)
        self.bundled: list[tuple[str, str, str]] = []
        self.recorded: list[str] = []
        self.failed: list[tuple[str, str]] = []
        self.findings: list[Finding] = []
        self.written: list[str] = []

    def run(self, programs: Sequence[Program]) -> Report:
        inputs = self._inputs(programs)
        again = [p for p in programs if p.name in inputs and not self._resume(p, inputs[p.name])]
        if len(again) < len(inputs):
            done = len(inputs) - len(again)
            self.reporter.say(f"continuing an interrupted recording: {done} of {len(inputs)} done")
        compilation = compiling.compile_all(
            self.project, again, self.machine, self.request, self.reporter
        )
        self.reporter.begin("recording", len(again))
        for number, program in enumerate(again):
            self._record(program, number, len(again), compilation)
        self.reporter.end()
        if self.target is not None and self.bundled:
            bundle.write(self.target, bundle.pack(self.bundled))
            self.written.append(str(self.target))
            self.reporter.say(f"wrote {self.target} ({len(self.bundled)} records)")
        self.staging.clear()
        return Report(
            tuple(self.recorded), tuple(self.failed), tuple(self.findings), tuple(self.written)
        )

    def _inputs(self, programs: Sequence[Program]) -> dict[str, Inputs]:
        found = {}
        for program in programs:
            try:
                found[program.name] = key.inputs_of(program)
            except EvidenceError as error:
                self.findings.append(Finding.of(error, "bad-source", program.relative))
        return found

    def _fingerprint(self, program: Program, inputs: Inputs) -> str:
        digest = key.key_of(inputs)
        return fingerprint(program, digest, self.machine, self.request, self.project.config.labels)

    def _resume(self, program: Program, inputs: Inputs) -> bool:
        """Take over a record that an interrupted recording left."""
        record = self.staging.get(program, self._fingerprint(program, inputs))
        if record is None:
            return False
        self._keep(program, record.data)
        return True

    def _record(self, program: Program, number: int, total: int, done: Compilation) -> None:
        def say(step: str) -> None:
            self.reporter.part(number, total, f"{program.name}: {step}")

        say("beginning")
        try:
            data, inputs = self._make(program, done, say)
        except EvidenceError as error:
            # Of this program alone; the others go on.
            self.findings.append(Finding.of(error, "not-recorded", program.relative))
            self.reporter.say(f"{program.name}: not recorded: {error}")
            return
        self.staging.add(program, store.dump(data), self._fingerprint(program, inputs))
        self._keep(program, data)

    def _make(
        self, program: Program, done: Compilation, say: trial.Say
    ) -> tuple[dict[str, Any], Inputs]:
        if program.name in done.errors:
            raise done.errors[program.name]
        inputs = done.inputs[program.name]
        compiled = done.programs.get(program.name)
        reasons = [] if compiled is None else outcome.of_build(program, compiled)
        reasons += done.changed.get(program.name, [])
        found: Trial | None = None
        packages, wrong = toolchain.package_versions(program.plan.requires)
        for sentence in wrong:
            self.reporter.say(f"{program.name}: {sentence}")
        if not reasons and program.plan.expect.kind != "compile-error":
            found = self._perform(program, inputs, done, say)
            reasons = outcome.of_trial(program, found)
            _same_inputs(program, inputs)
        data = document.assemble(
            program, self.machine, labels=self.project.config.labels, inputs=inputs,
            compiled=compiled, trial=found, reasons=reasons, packages=packages,
            where=document.narrowed(self.project, self.where, program, inputs),
            scrubber=self.scrubber,
        )  # fmt: skip
        return data, inputs

    def _perform(
        self, program: Program, inputs: Inputs, done: Compilation, say: trial.Say
    ) -> Trial:
        main = program.path
        modules: list[str] = []
        if program.language == "cuda":
            main = self.project.root / done.programs[program.name].target.output
        else:
            modules = [name for name in inputs.files if name != program.path.name]
        it = trial.subject(program, self.machine, main, modules)
        tried = done.mutants.get(program.name, {})
        return trial.perform(it, self.request, tried, say)

    def _keep(self, program: Program, data: dict[str, Any]) -> None:
        """Put a finished record where it is asked for, and say so."""
        self.recorded.append(program.name)
        passed = data["outcome"]["passed"]
        reasons = "; ".join(data["outcome"]["reasons"])
        if not passed:
            self.failed.append((program.name, reasons))
        line = f"{program.name}: {'passed' if passed else f'FAILED: {reasons}'}"
        if self.target is not None:
            self.bundled.append((program.name, data["device"]["label"], store.dump(data)))
            self.reporter.say(line)
            return
        filed = filing.file(self.project, program, data)
        self.reporter.say(f"{line}; {filed.explain()}")
        for change in filed.drift:
            self.reporter.say(f"  drift: {change}")
        if filed.written:
            self.written.append(filed.path)


def partial_of(target: Path) -> Path:
    """Return the folder beside a bundle that holds its records until it is whole."""
    return target.with_name(target.name + ".partial")


def _scrubber(project: Project, machine: Machine) -> Scrubber:
    home = machine.nvcc.home if machine.nvcc else None
    # /usr/local is nobody's toolkit; one of its own has nvvm beside bin.
    return of_machine(project.root, home if home and (home / "nvvm").is_dir() else None)


def _same_inputs(program: Program, before: Inputs) -> None:
    """Refuse a record of which an input changed while the program ran.

    Raises:
        EvidenceError: One did.
    """
    after = key.inputs_of(program)
    changed = [c.what for c in key.changes(key.to_json(before), after)]
    # A binary no longer depends on its sources, whatever happens to them.
    if program.language == "cuda":
        changed = [what for what in changed if what.startswith("data of ")]
    if changed:
        raise EvidenceError(
            f"{changed[0]} changed while it was being recorded", path=program.relative,
            fix=f"run: evidence record {program.name}",
        )  # fmt: skip
