"""The state of one program's evidence on one device, judged without running anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from evidence import key, mutants, store
from evidence.errors import RecordError, SourceError
from evidence.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evidence.model import Inputs, Program, Record
    from evidence.project import Project

Name = Literal[
    "fresh", "stale", "missing", "failed", "partial", "edited", "drifted", "unpinned", "broken"
]


@dataclass(frozen=True, slots=True)
class State:
    """What is known about a program's evidence on a device.

    Attributes:
        program: The program.
        device: The device's label.
        name: The state; the worst one where several apply.
        record: The record, if it can be believed.
        findings: One finding per thing that is not as it should be.
        inputs: The tree's inputs, if the sources can be read.
    """

    program: Program
    device: str
    name: Name
    record: Record | None = None
    findings: tuple[Finding, ...] = ()
    inputs: Inputs | None = None


def judge(project: Project, program: Program, device: str | None = None) -> State:
    """Judge a program's evidence on a device (the primary one by default)."""
    label = device or project.config.device
    path = program.evidence_path(label)
    shown = project.relative(path)
    record: Record | None = None
    unreadable: Finding | None = None
    if path.is_file():
        try:
            record = store.read(path, shown)
        except RecordError as error:
            unreadable = Finding.of(error, "edited", shown)
    known = record.data["inputs"].get("files") if record is not None else None
    try:
        inputs = key.inputs_of(program, known)
    except SourceError as error:
        return State(program, label, "broken", record, (Finding.of(error, "bad-source"),))
    if unreadable is not None:
        return State(program, label, "edited", None, (unreadable,), inputs)
    if record is None:
        finding = Finding(
            "missing",
            program.relative,
            program.run.line,
            f"{program.name} has no evidence on {label}",
            _record(program),
        )
        return State(program, label, "missing", None, (finding,), inputs)
    return _judge_record(project, program, label, record, inputs)


def _judge_record(
    project: Project, program: Program, device: str, record: Record, inputs: Inputs
) -> State:
    findings = [
        *_wrong_program(program, record, project),
        *_stale(program, record, inputs),
        *_failed(program, record),
        *_otherwise_said(program, record, inputs),
        *_partial(program, record, inputs),
        *_drifted(program, record),
        *_unpinned(project, program, record),
    ]
    order: tuple[Name, ...] = ("edited", "stale", "failed", "partial", "drifted", "unpinned")
    codes = {f.code for f in findings}
    name: Name = next((n for n in order if n in codes), "fresh")
    return State(program, device, name, record, tuple(findings), inputs)


def _record(program: Program) -> str:
    return f"run: evidence record {program.name}"


def _wrong_program(program: Program, record: Record, project: Project) -> Iterator[Finding]:
    if record.program != program.name and record.path is not None:
        yield Finding(
            "edited",
            project.relative(record.path),
            1,
            f"is the record of {record.program}, not of {program.name}",
            _record(program),
        )


def _stale(program: Program, record: Record, inputs: Inputs) -> Iterator[Finding]:
    new = key.key_of(inputs)
    if new == record.key:
        return
    changes = key.changes(record.data["inputs"], inputs)
    where = program.relative
    if not changes:
        version = record.data["key_version"]
        changes = [key.Change("key version", str(version), str(key.KEY_VERSION))]
    for change in changes:
        line = program.run.line if change.what == "Run: line" else 1
        if change.what == "Build: line" and program.build is not None:
            line = program.build.line
        yield Finding(
            "stale",
            where,
            line,
            f"{program.name}: {change.what} changed after its evidence was recorded",
            _record(program),
            change.old,
            change.new,
        )


def _failed(program: Program, record: Record) -> Iterator[Finding]:
    for reason in record.data["outcome"]["reasons"] if not record.passed else ():
        yield Finding(
            "failed",
            program.relative,
            1,
            f"{program.name} failed when recorded: {reason}",
            f"mend the program, then {_record(program)}",
        )


def _otherwise_said(program: Program, record: Record, inputs: Inputs) -> Iterator[Finding]:
    """Name mutants of which `evidence.toml`, which no key covers, now says something else."""
    if not program.plan.mutants or not record.passed or key.key_of(inputs) != record.key:
        return
    for mutant in program.plan.mutants:
        tried = record.data["mutants"].get(mutant.name)
        if tried is None or not mutants.same_edit(mutant, tried):
            continue  # then it is partial
        reason = mutants.objection(mutant.name, mutants.read(tried), survives=mutant.survives)
        if reason:
            yield Finding(
                "failed",
                program.relative,
                1,
                f"{program.name} passed when recorded, but not by its evidence.toml now: {reason}",
                f"correct evidence.toml, or {_record(program)}",
            )


def _partial(program: Program, record: Record, inputs: Inputs) -> Iterator[Finding]:
    """Name what the plan asks for and the record does not hold."""
    if not record.passed or key.key_of(inputs) != record.key:
        return  # a stale or failed record is recorded anew anyway
    plan, data = program.plan, record.data
    lacking: list[str] = []
    if plan.expect.kind != "compile-error":
        if len(data["runs"]) < plan.runs and plan.expect.kind in ("success", "exit"):
            lacking.append(f"{len(data['runs'])} of {plan.runs} runs")
        lacking += _sanitizers(program, record)
    for mutant in plan.mutants:
        tried = data["mutants"].get(mutant.name)
        if tried is None:
            lacking.append(f"mutant {mutant.name} was never tried")
        elif not mutants.same_edit(mutant, tried):
            lacking.append(f"mutant {mutant.name} was tried with another edit")
        elif tried["status"] == "not-available":
            lacking.append(f"mutant {mutant.name} could not be judged ({tried['reason']})")
    lacking += _profile(program, record)
    for text in lacking:
        yield Finding(
            "partial",
            program.relative,
            1,
            f"{program.name}: its evidence is partial: {text}",
            _record(program),
        )


def _sanitizers(program: Program, record: Record) -> list[str]:
    if program.language != "cuda" or program.plan.expect.kind == "timeout":
        return []
    lacking = []
    for tool in program.plan.sanitizers:
        result = record.data["sanitizers"].get(tool)
        if result is None or result["status"] == "not-requested":
            lacking.append(f"{tool} was never run")
        elif result["status"] == "not-available":
            lacking.append(f"{tool} was not available ({result['reason']})")
    return lacking


def _profile(program: Program, record: Record) -> list[str]:
    asked = program.plan.profile
    if asked is None:
        return []
    got = record.data["profile"]
    if got["status"] == "not-available":
        return [f"the profiler was not available ({got['reason']})"]
    if got["status"] != "recorded":
        return ["it was never profiled"]
    have = {m for grids in got["launches"].values() for ms in grids.values() for m in ms}
    return [f"metric {m} was never recorded" for m in asked.metrics if m not in have]


def _drifted(program: Program, record: Record) -> Iterator[Finding]:
    for entry in record.data["drift"]:
        yield Finding(
            "drifted",
            program.relative,
            1,
            f"{program.name}: {entry['address']} changed when it was recorded again",
            f"read the pages that show it, then run: evidence diff {program.name}",
            entry["old"],
            entry["new"],
            "warning",
        )


def _unpinned(project: Project, program: Program, record: Record) -> Iterator[Finding]:
    pin = project.config.nvcc
    used = record.data["toolchain"].get("nvcc", "")
    if program.language != "cuda" or used == pin or used.startswith(f"{pin}."):
        return
    yield Finding(
        "unpinned",
        program.relative,
        1,
        f"{program.name} was recorded with nvcc {used or 'of unknown version'}, the pin is {pin}",
        f"use nvcc {pin}, then {_record(program)}",
        pin,
        used,
        "warning",
    )
