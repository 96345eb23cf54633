"""`evidence diff`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from evidence import diffing, project, store, summaries
from evidence.errors import EvidenceError, RecordError
from evidence.summaries import Compared

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evidence.model import Program, Record
    from evidence.project import Project

Pair = tuple["Program | None", "Record", "Record", tuple[str, str]]


@click.command("diff")
@click.argument("names", nargs=-1)
@click.option("--against", metavar="REV", help="Compare with a git revision (default: HEAD).")
@click.option("--devices", nargs=2, metavar="A B", help="Compare two devices with each other.")
@click.option("--device", help="The device to compare (default: the project's).")
@click.option(
    "--format",
    "style",
    type=click.Choice(["human", "markdown", "json"]),
    default="human",
    help="How to write it.",
)
@click.option("--full", is_flag=True, help="List what says nothing new, too.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 if anything changed.")
@click.pass_obj
def command(
    start: Path | None,
    names: tuple[str, ...],
    against: str | None,
    devices: tuple[str, str] | None,
    device: str | None,
    style: Literal["human", "markdown", "json"],
    full: bool,
    exit_code: bool,
) -> int:
    """Compare two records value by value.

    NAMES are programs, whose records are compared with a git revision or
    across two devices; or two evidence files, the old one first. As markdown, what
    changed is told as the body of a pull request.
    """
    if devices and (against or device):
        raise EvidenceError("--devices goes with neither --against nor --device", fix="drop one")
    added: list[str] = []
    if any(name.endswith(".json") for name in names):
        pairs = [_files(start, names)]
    else:
        found = project.load(start)
        programs = found.find(names)
        label = device or found.config.device
        if devices:
            pairs = list(_across(found, programs, devices, named=bool(names)))
        else:
            since = _since(found, programs, label, against or "HEAD", added, named=bool(names))
            pairs = list(since)
    if not pairs and not added:
        raise EvidenceError("there are no two records to compare", fix="run: evidence list")
    compared = [
        Compared(old, new, labels, diffing.compare(old.data, new.data, p.plan.values if p else ()))
        for p, old, new, labels in pairs
    ]
    if style == "json":
        click.echo(json.dumps([_json(one) for one in compared], indent=1, ensure_ascii=False))
    elif style == "markdown":
        click.echo(summaries.body(compared, added, full=full), nl=False)
    else:
        for one in compared:
            text = diffing.render(one.changes, one.labels, style, full=full)
            title = f"{one.new.program}\n"
            click.echo(f"{title}{text}\n" if len(compared) > 1 else text, nl=False)
    return 1 if exit_code and (added or any(one.news for one in compared)) else 0


def _json(one: Compared) -> dict[str, object]:
    labels, old, new = one.labels, one.old, one.new
    return {
        "program": new.program,
        "old": {"label": labels[0], "device": old.device, "key": old.key},
        "new": {"label": labels[1], "device": new.device, "key": new.key},
        "recording": [{"what": d.what, "old": d.old, "new": d.new} for d in one.differences],
        "changes": [diffing.change_json(change) for change in one.changes],
    }


def _files(start: Path | None, names: tuple[str, ...]) -> Pair:
    if len(names) != 2:  # noqa: PLR2004
        raise EvidenceError(
            "two evidence files can be compared, the old one first",
            fix="evidence diff OLD.json NEW.json",
        )
    old, new = (store.read(Path(name), name) for name in names)
    if old.program != new.program:
        raise EvidenceError(
            f"these are records of two programs: {old.program} and {new.program}",
            fix="name two records of one program",
        )
    labels = (old.device, new.device) if old.device != new.device else ("old", "new")
    return _program(start, old.program), old, new, labels


def _program(start: Path | None, name: str) -> Program | None:
    # Records can be compared anywhere; a project only adds its plan.
    try:
        return project.load(start).get(name)
    except EvidenceError:
        return None


def _across(
    found: Project, programs: tuple[Program, ...], devices: tuple[str, str], *, named: bool
) -> Iterator[Pair]:
    for program in programs:
        records = [_stored(found, program, device, needed=named) for device in devices]
        if records[0] and records[1]:
            yield program, records[0], records[1], devices


def _since(
    found: Project,
    programs: tuple[Program, ...],
    device: str,
    revision: str,
    added: list[str],
    *,
    named: bool,
) -> Iterator[Pair]:
    _git(found.root, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}", what=revision)
    for program in programs:
        new = _stored(found, program, device, needed=named)
        shown = found.relative(program.evidence_path(device))
        data = _git(found.root, "show", f"{revision}:./{shown}")
        if data is None and named:
            raise RecordError(f"is not in revision {revision}", path=shown, fix="name another one")
        if data is None and new is not None:
            added.append(program.name)
        if data is not None and new is not None:
            old = store.parse(data, f"{revision}:{shown}")
            yield program, old, new, (revision, "now")


def _stored(found: Project, program: Program, device: str, *, needed: bool) -> Record | None:
    path = program.evidence_path(device)
    if path.is_file():
        return store.read(path, found.relative(path))
    if needed:
        raise no_evidence(found, program, device)
    return None


def no_evidence(found: Project, program: Program, device: str) -> RecordError:
    """Make the error for a record that is not there; it names those that are."""
    others = sorted(
        path.name.removeprefix(f"{program.stem}.").removesuffix(".json")
        for path in (program.directory / "evidence").glob(f"{program.stem}.*.json")
    )
    hint = f", only on {', '.join(others)}" if others else ""
    return RecordError(
        f"{program.name} has no evidence on {device}{hint}",
        path=found.relative(program.evidence_path(device)),
        fix=f"run: evidence record {program.name}",
    )


def _git(root: Path, command: str, *arguments: str, what: str | None = None) -> bytes | None:
    """Run git; None if it fails, or an error that names the revision `what`."""
    last = arguments[-1]
    if last.startswith("-"):
        raise EvidenceError(f"{what or last!r} is no git revision", fix="name a commit")
    try:
        done = subprocess.run(
            ["git", "-C", str(root), command, *arguments], capture_output=True, check=False
        )
    except OSError:
        raise EvidenceError("git is not there", fix="install git, or compare two files") from None
    if done.returncode == 0:
        return done.stdout
    if what is not None:
        raise EvidenceError(f"{what!r} is no git revision here", fix="name a commit")
    return None
