"""Accepting bundles: every record is verified against the tree before it is stored."""

from __future__ import annotations

import importlib.resources
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evidence import bundle, document, filing, key, scrub, store, terminal
from evidence.errors import EvidenceError, RecordError
from evidence.findings import Finding
from evidence.model import FileHash, Inputs

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from evidence.filing import Filed
    from evidence.model import Program, Record
    from evidence.project import Project

_LABEL = re.compile(r"[a-z0-9][a-z0-9-]*")


@dataclass(frozen=True, slots=True)
class Report:
    """What came of accepting.

    Attributes:
        filed: Records that were taken, in order.
        failed: Names of programs whose (taken) record says that they failed.
        refused: A finding per record or bundle that was not taken.
    """

    filed: tuple[Filed, ...]
    failed: tuple[str, ...]
    refused: tuple[Finding, ...]


def accept(project: Project, paths: Iterable[Path]) -> Report:
    """Take the good records of bundles into the tree.

    Raises:
        RecordError: A file cannot be written; everything stored is whole.
    """
    filed: list[Filed] = []
    failed: list[str] = []
    refused: list[Finding] = []
    programs = {program.name: program for program in project.programs}
    for path in paths:
        try:
            entries = bundle.read(path)
        except EvidenceError as error:
            refused.append(Finding.of(error, "bad-bundle"))
            continue
        if not entries:
            empty = RecordError("holds no record", path=path, fix=bundle.RECORD_AGAIN)
            refused.append(Finding.of(empty, "bad-bundle"))
        for entry in entries:
            shown = f"{path.name}!{entry.program}.{entry.device}"
            try:
                program, record = _verify(project, programs, entry, shown)
            except EvidenceError as error:
                refused.append(_refused(error, entry, shown))
                continue
            data = _with_commit(project, program, record.data)
            filed.append(filing.file(project, program, data))
            if not record.passed:
                failed.append(program.name)
    return Report(tuple(filed), tuple(failed), tuple(refused))


def _with_commit(project: Project, program: Program, data: dict[str, Any]) -> dict[str, Any]:
    """Name the commit where the recording machine could not.

    It had only the files, or they were not committed yet. The record's key has just
    been found to be that of this tree's sources; if these are committed as they stand,
    the commit holds what was recorded.
    """
    if data["recorded"]["commit"] and not data["recorded"]["dirty"]:
        return data
    folder = project.relative(program.directory)
    commit = document.commit_of(project.root, document.inputs_in(folder, data["inputs"]))
    if not commit:
        return data
    return {**data, "recorded": {**data["recorded"], "commit": commit, "dirty": False}}


def _refused(error: EvidenceError, entry: bundle.Entry, shown: str) -> Finding:
    again = f"record it again from this tree: evidence record {entry.program} --bundle FILE"
    return Finding("refused", error.path or shown, error.line or 1, error.message, again)


def _verify(
    project: Project, programs: dict[str, Program], entry: bundle.Entry, shown: str
) -> tuple[Program, Record]:
    """Return an entry's program and its record, if it can be believed.

    Raises:
        EvidenceError: Why it cannot.
    """
    if entry.problem:
        raise RecordError(entry.problem)
    program = programs.get(entry.program)
    if program is None:
        raise _unknown(project, entry.program)
    record = store.parse(entry.data, shown)
    _check_shape(record)
    if (record.program, record.device) != (program.name, entry.device):
        found = f"{record.program} on {record.device}"
        raise RecordError(f"its record is of {found}, not of {program.name} on {entry.device}")
    if not _LABEL.fullmatch(record.device):
        raise RecordError(f"its device label {record.device!r} cannot be part of a file's name")
    _check_key(program, record)
    leak = next(iter(scrub.leaks(store.dump(record.data))), None)
    sign = terminal.control(record.data)
    if sign:
        raise RecordError(f"holds the control character {sign}, which no recorder leaves in it")
    if leak is not None:
        raise RecordError(f"holds {leak.text!r}, which tells about the machine it was recorded on")
    return program, record


def _unknown(project: Project, name: str) -> EvidenceError:
    for problem in project.problems:
        if problem.path.rpartition(".")[0].endswith(name):
            return EvidenceError(problem.message, path=problem.path, line=problem.line)
    return RecordError(f"there is no program {name} in this tree")


def _check_shape(record: Record) -> None:
    """Refuse a record that the rest of the tool could not read."""
    # Only here: what lies in the tree was written by this tool or is `edited`.
    import jsonschema  # noqa: PLC0415

    text = importlib.resources.files("evidence").joinpath("evidence.schema.json").read_text("utf-8")
    error = jsonschema.exceptions.best_match(
        jsonschema.Draft202012Validator(json.loads(text)).iter_errors(record.data)
    )
    if error is not None:
        place = "/".join(str(piece) for piece in error.absolute_path) or "its top"
        raise RecordError(f"does not follow the schema at {place}: {error.message[:200]}")


def _check_key(program: Program, record: Record) -> None:
    """Refuse a record of other sources than the tree's."""
    told = record.data["inputs"]
    same_version = record.data["key_version"] == key.KEY_VERSION
    if same_version and key.key_of(_inputs(told)) != record.key:
        raise RecordError("its key is not that of its inputs")
    # Hashed anew: a hash that came with the bundle proves nothing.
    inputs = key.inputs_of(program)
    if key.key_of(inputs) == record.key:
        return
    version = key.Change("key version", str(record.data["key_version"]), str(key.KEY_VERSION))
    change = (*key.changes(told, inputs), version)[0]
    raise RecordError(
        f"{program.name} was recorded from another source: {change.what} differs, "
        f"{change.old} → {change.new}",
        path=program.relative,
        line=program.run.line,
    )


def _inputs(told: dict[str, Any]) -> Inputs:
    return Inputs(
        files={path: FileHash(**hashes) for path, hashes in told["files"].items()},
        build=tuple(told["build"]),
        run=tuple(told["run"]),
        declared=dict(told["declared"]),
        pins=tuple(told["pins"]),
    )
