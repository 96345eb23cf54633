"""Judging a reader's answer to an exercise, as far as a machine can.

The answer is put into the starter, in place of its region, and the result is
compiled and run like every program here: the starter's own gate judges. Without
a GPU it is compiled and looked at; without a compiler only looked at. What was
not judged is said.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from evidence import build, exercises, machine, ninjafile, ptxas, store, toolchain, trial
from evidence.errors import SourceError, ToolchainError
from evidence.ninjafile import Target

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from evidence.build import Compiled
    from evidence.device import Gpu
    from evidence.exercises import Parts
    from evidence.machine import Machine
    from evidence.model import Program
    from evidence.project import Project

State = Literal["good", "bad", "open"]


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that was looked at.

    Attributes:
        what: What.
        state: `open` if it could not be judged here.
        said: What was found.
    """

    what: str
    state: State
    said: str


@dataclass(frozen=True, slots=True)
class Grade:
    """What an answer came to.

    Attributes:
        starter: The program whose gate judged.
        rows: Everything that was looked at, in order.
        printed: What the program printed, if it ran.
    """

    starter: Program
    rows: tuple[Row, ...] = ()
    printed: tuple[str, ...] = field(default=(), repr=False)

    @property
    def state(self) -> State:
        """Return the worst of all rows; bad is worse than open."""
        states = {row.state for row in self.rows}
        return "bad" if "bad" in states else "open" if "open" in states else "good"


def grade(
    project: Project, day: str, path: Path, gpu: Gpu, environ: Mapping[str, str] | None = None
) -> Grade:
    """Judge an answer.

    Args:
        project: The project.
        day: The day's number, or a folder's name.
        path: The reader's file; its region `exercise` is the answer.
        gpu: Where a GPU is looked for.
        environ: The environment in which tools are looked for.

    Raises:
        EvidenceError: The day has no exercise, or the file no such region.
    """
    starter = exercises.starter_of(project, day)
    text = exercises.read(path, str(path))
    answer = exercises.cut(text, str(path), starter.language)
    given = exercises.cut(project.texts[starter.name], starter.relative, starter.language)
    rows = list(_looked_at(starter, answer, given))
    if any(row.state == "bad" for row in rows):
        return Grade(starter, tuple(rows))
    with tempfile.TemporaryDirectory(prefix="evidence-grade-") as name:
        copy = _project(project, starter, Path(name).resolve(), given, answer)
        lines = _Lines(path, starter, given, answer)
        more, printed = _judged(copy, lines, gpu, environ)
    return Grade(starter, (*rows, *more), printed)


def _looked_at(starter: Program, answer: Parts, given: Parts) -> Iterator[Row]:
    language = starter.language
    if exercises.code(answer.answer, language) == exercises.code(given.answer, language):
        yield Row("answer", "bad", f"what stands in `{exercises.REGION}` is the starter's")
        return
    lacks = exercises.lacking(answer.answer, starter.plan.grade, language)
    for name in starter.plan.grade:
        yield Row(name, "bad" if name in lacks else "good", "missing" if name in lacks else "there")
    if exercises.code(answer.outside, language) != exercises.code(given.outside, language):
        yield Row("the rest", "good", "is taken from the starter; yours differs from it there")


def _project(
    project: Project, starter: Program, root: Path, given: Parts, answer: Parts
) -> Project:
    """Write the starter with the answer in it, as the one program of a project of its own."""
    path = root / starter.relative
    store.write(path, f"{given.before}{answer.answer}{given.after}")
    return replace(
        project,
        config=replace(project.config, root=root),
        programs=(replace(starter, path=path, plan=replace(starter.plan, mutants=())),),
        problems=(),
    )


def _judged(
    copy: Project, lines: _Lines, gpu: Gpu, environ: Mapping[str, str] | None
) -> tuple[list[Row], tuple[str, ...]]:
    program = copy.programs[0]
    here: Machine | None = None
    try:
        here = machine.probe(gpu, environ)
        nvcc = here.nvcc
        missing = here.nvcc_missing
        no_gpu = ""
    except ToolchainError as error:
        no_gpu = error.message
        try:
            nvcc, missing = toolchain.find_nvcc(environ), ""
        except ToolchainError as absent:
            nvcc, missing = None, str(absent)
    if nvcc is None:
        return [Row("compiles", "open", f"not tried: {missing}")], ()
    architecture = here.device.architecture if here else f"sm_{_usual(copy)}"
    target = (
        Target(program, ninjafile.own_architecture(program.build.words) or architecture)
        if program.build
        else None
    )
    if target is None:
        raise SourceError("an exercise is a CUDA program", path=program.relative, fix="write a .cu")
    good = build.make(copy, [target], nvcc, architectures=[architecture])
    compiled = build.result(copy.root, target, nvcc)
    rows = list(_compiled(compiled, lines, nvcc.version))
    if not good:
        return rows, ()
    if here is None:
        return [*rows, Row("gate", "open", f"not run: {no_gpu}")], ()
    more, printed = _ran(copy, program, here, target)
    return [*rows, *more], printed


def _usual(project: Project) -> int:
    # Of the configured ones, the course's own device is compute capability 9.0.
    known = project.config.architectures
    return 90 if 90 in known else max(known)  # noqa: PLR2004


def _compiled(compiled: Compiled, lines: _Lines, version: str) -> Iterator[Row]:
    report, other = ptxas.split(compiled.output)
    architecture = compiled.target.architecture
    if not compiled.succeeded:
        said = [
            f"{lines.place(line)}: {text}"
            for path, line, text in build.messages(other)
            if path.endswith(compiled.target.program.path.name)
        ]
        for text in said or [build.general_reason(other)]:
            yield Row("compiles", "bad", text)
        return
    yield Row("compiles", "good", f"for {architecture} with nvcc {version}, no warning")
    for name, found in sorted(ptxas.kernels(report, architecture).items()):
        yield Row(
            f"kernel {name}", "good",
            f"{found['registers']} registers, {found['stack']} bytes of stack frame, "
            f"{found['shared']} bytes of shared memory",
        )  # fmt: skip


def _ran(
    copy: Project, program: Program, here: Machine, target: Target
) -> tuple[list[Row], tuple[str, ...]]:
    subject = trial.subject(program, here, copy.root / target.output)
    run = subject.run(subject.words(), program.plan.timeout)
    printed = (*run.stdout, *run.stderr)
    if run.exit_status != 0 or run.problems:
        return [Row("gate", "bad", trial.ended(run))], printed
    rows = [Row("gate", "good", f"passed on {here.device.name}")]
    for tool in program.plan.sanitizers:
        found = trial.sanitized(subject, tool, expected_exit=0)
        if found.status == "clean":
            rows.append(Row(tool, "good", "no error"))
        elif found.status == "errors":
            rows.append(Row(tool, "bad", f"{found.errors} errors; {_first(found.output)}"))
        elif found.status == "not-available":
            rows.append(Row(tool, "open", f"not tried: {found.reason}"))
        else:
            rows.append(Row(tool, "bad", found.reason))
    return rows, printed


def _first(output: tuple[str, ...]) -> str:
    said = (line.lstrip("= ").strip() for line in output)
    return next((line for line in said if line and "COMPUTE-SANITIZER" not in line), "")


@dataclass(frozen=True, slots=True)
class _Lines:
    """Where a line of the judged program stands for its reader."""

    path: Path
    starter: Program
    given: Parts
    answer: Parts

    def place(self, line: int) -> str:
        """Return a line of the judged program as `file:line` of the file it came from."""
        length = self.answer.answer.count("\n")
        inside = line - self.given.line
        if inside < 0:
            return f"{self.starter.relative}:{line}"
        if inside < length:
            return f"{self.path}:{self.answer.line + inside}"
        return f"{self.starter.relative}:{line - length + self.given.answer.count(chr(10))}"
