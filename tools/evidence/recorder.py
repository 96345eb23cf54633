"""Recording: compile everything first, then one program at a time on the GPU."""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evidence import (
    compiling,
    costs,
    document,
    health,
    key,
    lanes,
    locking,
    notebookrun,
    outcome,
    processes,
    runner,
    store,
    toolchain,
    trial,
)
from evidence.errors import EvidenceError, MachineError, ToolchainError
from evidence.findings import Finding
from evidence.scrub import of_machine
from evidence.sinks import Tree
from evidence.staging import fingerprint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evidence.compiling import Compilation
    from evidence.document import Origin
    from evidence.machine import Machine
    from evidence.model import Inputs, Program
    from evidence.progress import Reporter
    from evidence.project import Project
    from evidence.scrub import Scrubber
    from evidence.sinks import Sink
    from evidence.trial import Request, Trial


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


def record(
    project: Project,
    programs: Sequence[Program],
    machine: Machine,
    request: Request,
    *,
    reporter: Reporter,
    where: Origin,
    sink: Sink | None = None,
    beside: Sequence[Machine] = (),
    restart: bool = False,
    wait: bool = False,
) -> Report:
    """Record programs.

    Args:
        project: The project.
        programs: What to record.
        machine: This machine.
        request: What to do with each program.
        reporter: Told what is going on.
        where: The project's version.
        sink: Where the records go; into the tree by default.
        beside: The same machine with further GPUs, to be used at the same time.
        restart: Whether to make records anew that an interrupted recording left.
        wait: Whether to wait for another recording that holds the GPU.

    Raises:
        EvidenceError: The recording cannot go on; what is done is kept.
    """
    if machine.nvcc is None and any(p.language == "cuda" for p in programs):
        raise ToolchainError(machine.nvcc_missing)
    machines = [machine, *beside]
    with locking.reserved([it.device for it in machines], wait=wait, say=reporter.say):
        orphans = processes.kill_orphans(Path(tempfile.gettempdir()), runner.PREFIX)
        if orphans:
            reporter.say(f"ended {orphans} programs that a killed recording had left running")
        session = _Session(project, machines, request, reporter, where, sink or Tree(project))
        if restart or machine.sandbox is not None:
            session.sink.staging.clear()
        try:
            return session.run(programs)
        finally:
            reporter.end()


class _Session:
    """One recording."""

    def __init__(
        self,
        project: Project,
        machines: Sequence[Machine],
        request: Request,
        reporter: Reporter,
        where: Origin,
        sink: Sink,
    ) -> None:
        self.project = project
        self.machines = machines
        self.request = request
        self.reporter = reporter
        self.where = where
        self.sink = sink
        self.scrubber = _scrubber(project, machines[0])
        self.recorded: list[str] = []
        self.failed: list[tuple[str, str]] = []
        self.findings: list[Finding] = []

    def run(self, programs: Sequence[Program]) -> Report:
        inputs = self._inputs(programs)
        again = [p for p in programs if p.name in inputs and not self._resume(p, inputs[p.name])]
        if len(again) < len(inputs):
            done = len(inputs) - len(again)
            self.reporter.say(f"continuing an interrupted recording: {done} of {len(inputs)} done")
        compilation = compiling.compile_all(
            self.project, again, self.machines[0], self.request, self.reporter
        )
        self.reporter.begin("recording", len(again))
        self._record(again, compilation)
        self.reporter.end()
        for line in self.sink.close():
            self.reporter.say(line)
        self.sink.staging.clear()
        return Report(
            tuple(self.recorded), tuple(self.failed), tuple(self.findings), tuple(self.sink.written)
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
        return fingerprint(
            program, digest, self.machines[0], self.request, self.project.config.labels
        )

    def _resume(self, program: Program, inputs: Inputs) -> bool:
        """Take over a record that an interrupted recording left."""
        record = self.sink.staging.get(program, self._fingerprint(program, inputs))
        if record is None:
            return False
        self._keep(program, record.data)
        return True

    def _record(self, programs: Sequence[Program], done: Compilation) -> None:
        ended = 0

        def make(program: Program, machine: Machine) -> tuple[dict[str, Any], Inputs]:
            def say(step: str) -> None:
                self.reporter.part(ended, len(programs), f"{program.name}: {step}")

            say("beginning")
            return self._make(program, machine, done, say)

        if len(self.machines) > 1:
            # What takes longest first, so that no GPU has to wait for another at the end.
            label = self.machines[0].device.label(self.project.config.labels)
            cost = {p.name: costs.expected(self.project, p, label) for p in programs}
            programs = sorted(programs, key=lambda program: -cost[program.name])
        with contextlib.closing(lanes.each(programs, self.machines, make)) as all_made:
            for program, made in all_made:
                ended += 1
                if isinstance(made, EvidenceError):
                    # Of this program alone; the others go on.
                    self.findings.append(Finding.of(made, "not-recorded", program.relative))
                    self.reporter.say(f"{program.name}: not recorded: {made}")
                    continue
                data, inputs = made
                text, mark = store.dump(data), self._fingerprint(program, inputs)
                self.sink.staging.add(program, text, mark)
                self._keep(program, data)

    def _make(
        self, program: Program, machine: Machine, done: Compilation, say: trial.Say
    ) -> tuple[dict[str, Any], Inputs]:
        if program.name in done.errors:
            raise done.errors[program.name]
        inputs = done.inputs[program.name]
        compiled = done.programs.get(program.name)
        reasons = [] if compiled is None else outcome.of_build(program, compiled)
        reasons += done.changed.get(program.name, [])
        found: Trial | None = None
        packages, wrong = toolchain.package_versions(notebookrun.requires(program))
        for sentence in wrong:
            self.reporter.say(f"{program.name}: {sentence}")
        if not reasons and program.plan.expect.kind != "compile-error":
            try:
                found = self._perform(program, machine, inputs, done, say)
            except OSError as error:
                raise MachineError(
                    f"cannot be written: {error.strerror}; nothing was recorded of {program.name}",
                    path=error.filename, fix="make room, then run the same command",
                ) from None  # fmt: skip
            reasons = outcome.of_trial(program, found)
            if health.doubtful(found, reasons):
                health.require(machine, program)
            _same_inputs(program, inputs)
        data = document.assemble(
            program, machine, labels=self.project.config.labels, inputs=inputs,
            compiled=compiled, trial=found, reasons=reasons, packages=packages,
            where=document.narrowed(self.project, self.where, program, inputs),
            scrubber=self.scrubber,
        )  # fmt: skip
        return data, inputs

    def _perform(
        self, program: Program, machine: Machine, inputs: Inputs, done: Compilation, say: trial.Say
    ) -> Trial:
        main = program.path
        modules: list[str] = []
        notebookrun.need(program)
        if program.language == "cuda":
            main = self.project.root / done.programs[program.name].target.output
        else:
            modules = [name for name in inputs.files if name != program.path.name]
        it = trial.subject(program, machine, main, modules)
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
        first, *more = self.sink.keep(program, data) or [""]
        self.reporter.say(f"{line}; {first}" if first else line)
        for text in more:
            self.reporter.say(text)


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
