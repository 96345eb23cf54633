"""Accepting bundles: every record is verified against the tree before it is stored.

Whether its program passed is judged here, by the record's facts and the tree's plan.
"""

from __future__ import annotations

import importlib.resources
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from evidence import (
    bundle,
    device,
    document,
    filing,
    key,
    rejudge,
    scrub,
    shards,
    states,
    store,
    terminal,
)
from evidence.errors import EvidenceError, RecordError
from evidence.findings import Finding, ordered
from evidence.model import FileHash, Inputs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from evidence.filing import Filed
    from evidence.model import Program, Record
    from evidence.project import Project
    from evidence.shards import Part


@dataclass(frozen=True, slots=True)
class Report:
    """What came of accepting.

    Attributes:
        filed: Records that were taken, in order.
        failed: Names of programs that failed by their (taken) record's facts.
        judged: Sentences about (taken) records whose own outcome was another.
        refused: A finding per record or bundle that was not taken.
    """

    filed: tuple[Filed, ...]
    failed: tuple[str, ...]
    judged: tuple[str, ...]
    refused: tuple[Finding, ...]


def accept(project: Project, paths: Iterable[Path]) -> Report:
    """Take the good records of bundles into the tree.

    The order of the bundles does not matter. Where two hold different records of one
    program and device, neither is taken.

    Raises:
        RecordError: A file cannot be written; everything stored is whole.
    """
    refused: list[Finding] = []
    parts: list[Part] = []
    offered: dict[tuple[str, str], list[_Offer]] = {}
    programs = {program.name: program for program in project.programs}
    for path in paths:
        try:
            entries, part = bundle.read(path), bundle.part_of(path)
        except EvidenceError as error:
            refused.append(Finding.of(error, "bad-bundle"))
            continue
        parts += [] if part is None else [part]
        if not entries and (part is None or part.programs):
            empty = RecordError("holds no record", path=path, fix=bundle.RECORD_AGAIN)
            refused.append(Finding.of(empty, "bad-bundle"))
        for entry in entries:
            shown = f"{path.name}!{entry.program}.{entry.device}"
            try:
                program, record = _verify(project, programs, entry, shown)
                data, otherwise = rejudge.judged(program, record.data)
            except EvidenceError as error:
                refused.append(_refused(error, entry, shown))
                continue
            offer = _Offer(str(path), entry, program, replace(record, data=data), otherwise)
            offered.setdefault((program.name, record.device), []).append(offer)
    filed: list[Filed] = []
    failed: list[str] = []
    judged: list[str] = []
    for _, offers in sorted(offered.items()):
        first = offers[0]
        if len({offer.entry.data for offer in offers}) > 1:
            refused.append(_conflict(offers))
            continue
        data = _with_commit(project, first.program, first.record.data)
        filed.append(filing.file(project, first.program, data))
        if not first.record.passed:
            failed.append(first.program.name)
        if first.otherwise:
            judged.append(f"{first.program.name}: the bundle says {first.otherwise}")
    refused += _missing(project, parts)
    return Report(tuple(filed), tuple(failed), tuple(judged), tuple(ordered(refused)))


@dataclass(frozen=True, slots=True)
class _Offer:
    """A record whose facts can be believed, judged, and the bundle it came in."""

    path: str
    entry: bundle.Entry
    program: Program
    record: Record
    otherwise: str


def _conflict(offers: Iterable[_Offer]) -> Finding:
    paths = sorted({offer.path for offer in offers})
    first = min(offers, key=lambda offer: offer.path)
    return Finding(
        "conflict", first.program.relative, 1,
        f"{first.program.name} has different records on {first.record.device} in "
        f"{' and '.join(paths)}; none of them was taken",
        f"choose one: evidence accept {paths[0]}",
    )  # fmt: skip


def _missing(project: Project, parts: Iterable[Part]) -> Iterator[Finding]:
    """Say which shards of a recording are not among the bundles, if work of theirs is left."""
    programs = {program.name: program for program in project.programs}
    for part, numbers in shards.absent(parts):
        for number in numbers:
            left = [
                name for name in part.plan[number - 1]
                if name in programs and not _recorded(project, programs[name], part.device)
            ]  # fmt: skip
            if not left:
                continue
            more = f" and {len(left) - 3} more" if len(left) > 3 else ""  # noqa: PLR2004
            which = f"{number}/{len(part.plan)}"
            yield Finding(
                "missing-shard", programs[left[0]].relative, 1,
                f"shard {which} is in none of these bundles: {part.device} lacks "
                f"{', '.join(left[:3])}{more}",
                "accept its bundle too, or record what is left: evidence record --bundle FILE",
            )  # fmt: skip


def _recorded(project: Project, program: Program, device: str) -> bool:
    return states.judge(project, program, device).name not in ("missing", "stale", "edited")


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
    if not shards.LABEL.fullmatch(record.device):
        raise RecordError(f"its device label {record.device!r} cannot be part of a file's name")
    named = record.data["device"]["name"]
    due = project.config.labels.get(named) or device.derived_label(named)
    if record.device != due:
        raise RecordError(f"its device label is {record.device}, but {named} is {due} here")
    _check_key(program, record)
    leak = next(iter(scrub.leaks(store.dump(record.data))), None)
    sign = terminal.control(record.data)
    if sign:
        raise RecordError(f"holds the control character {sign}, which no recorder leaves in it")
    if leak is not None:
        raise RecordError(f"holds {leak.text!r}, which tells about the machine it was recorded on")
    wrong = next(rejudge.contradictions(program, record.data), None)
    if wrong is not None:
        raise RecordError(f"contradicts itself: {wrong}")
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
