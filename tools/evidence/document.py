"""One program's record, put together from its inputs, build and trial."""

from __future__ import annotations

import datetime as dt
import posixpath
import re
import subprocess
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from evidence import __version__, key, store
from evidence.errors import EvidenceError
from evidence.toolchain import python_version
from evidence.trial import Trial

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from evidence.build import Compiled
    from evidence.machine import Machine
    from evidence.model import Inputs, Program
    from evidence.project import Project
    from evidence.scrub import Scrubber

# What a program or a tool wrote; only there may something of the machine stand.
_WRITTEN = ("build", "mutants", "outcome", "profile", "run_command", "runs", "sanitizers")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class Origin:
    """Which version of the project is recorded, and when.

    Attributes:
        commit: 40 hexadecimal digits; "" outside of git.
        dirty: Whether that commit may lack what is recorded.
        date: `2026-12-01`, UTC.
    """

    commit: str
    dirty: bool
    date: str


def origin(root: Path, commit: str | None = None) -> Origin:
    """Ask git for the project's version.

    Args:
        root: The project's folder.
        commit: What to say instead, on a machine that only has the files.

    Raises:
        EvidenceError: `commit` is none.
    """
    date = dt.datetime.now(dt.UTC).date().isoformat()
    if commit is not None:
        if not _COMMIT.fullmatch(commit):
            raise EvidenceError(
                f"--commit {commit!r} is not a whole commit",
                fix="give the 40 digits of: git rev-parse HEAD",
            )
        return Origin(commit, dirty=False, date=date)
    found = _git(root, "rev-parse", "HEAD").strip()
    if not _COMMIT.fullmatch(found):
        return Origin("", dirty=False, date=date)
    # Whether it holds a program is asked program by program; see `narrowed`.
    return Origin(found, dirty=True, date=date)


def inputs_in(folder: str, data: Mapping[str, Any]) -> list[str]:
    """Return the files that a record's key is taken over, relative to the project's root.

    Args:
        folder: The program's folder.
        data: The record's `inputs`.
    """
    names = (*data["files"], *data["declared"])
    return [posixpath.normpath(f"{folder}/{name}") for name in names]


def narrowed(project: Project, where: Origin, program: Program, inputs: Inputs) -> Origin:
    """Return where a program's own files are from, whatever else in the tree was changed."""
    files = inputs_in(project.relative(program.directory), key.to_json(inputs))
    clean = where.dirty and commit_of(project.root, files) == where.commit
    return replace(where, dirty=where.dirty and not clean)


def commit_of(root: Path, files: Sequence[str]) -> str:
    """Return the checked-out commit if it holds these files as they are now.

    Args:
        root: The project's folder.
        files: Paths relative to it.

    Returns:
        40 digits; empty where there is no repository, or a file is not
        committed as it stands.
    """
    found = _git(root, "rev-parse", "HEAD").strip()
    known = _git(root, "ls-files", "-z", "--", *files)
    if not _COMMIT.fullmatch(found) or known.count("\0") != len(set(files)):
        return ""
    changed = _git(root, "status", "--porcelain", "--", *files)
    return "" if changed.strip() else found


def _git(root: Path, *words: str) -> str:
    try:
        done = subprocess.run(
            ["git", *words], cwd=root, capture_output=True, check=False, encoding="utf-8",
            errors="replace", stdin=subprocess.DEVNULL, timeout=60,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def assemble(
    program: Program,
    machine: Machine,
    *,
    labels: Mapping[str, str],
    inputs: Inputs,
    compiled: Compiled | None,
    trial: Trial | None,
    reasons: Sequence[str],
    packages: Mapping[str, str],
    where: Origin,
    scrubber: Scrubber,
) -> dict[str, Any]:
    """Return the record as `store.dump` takes it.

    Args:
        program: The program.
        machine: Where it was recorded.
        labels: Configured device labels.
        inputs: What its key is taken over.
        compiled: What the compiler did; None for Python and notebooks.
        trial: What happened on the GPU; None if it never got there.
        reasons: Why it failed; empty if it passed.
        packages: Versions of the packages it names.
        where: The project's version.
        scrubber: Removes what tells about the machine.
    """
    done = trial or Trial()
    plan = program.plan
    nvcc = machine.nvcc
    data: dict[str, Any] = {
        "build": None if compiled is None else compiled.document(),
        "device": machine.device.document(labels),
        "drift": [],
        "inputs": key.to_json(inputs),
        "key": key.key_of(inputs),
        "key_version": key.KEY_VERSION,
        "measured": [],
        "mutants": {
            mutant.name: done.mutants[mutant.name].document(mutant)
            for mutant in plan.mutants
            if mutant.name in done.mutants
        },
        "outcome": {"passed": not reasons, "reasons": list(reasons)},
        "profile": done.profile.document(plan.profile, done.profiled_words, machine.ncu_version),
        "program": program.name,
        "recorded": {
            "commit": where.commit,
            "date": where.date,
            "dirty": where.dirty,
            "isolation": machine.isolation,
            "tool": __version__,
        },
        "run_command": list(program.run.words),
        # What the cells of a notebook left is kept once; it is there to be shown.
        "runs": [run.document(cells=n == 0) for n, run in enumerate(done.runs)],
        "sanitizers": {tool: found.document() for tool, found in done.sanitizers.items()},
        "schema": store.SCHEMA,
        "toolchain": {
            "host_compiler": nvcc.host if nvcc and compiled else "",
            "nvcc": nvcc.version if nvcc and compiled else "",
            "packages": dict(packages),
            "python": python_version(),
        },
    }  # fmt: skip
    for name in _WRITTEN:
        kept = {n: (m["find"], m["replace"]) for n, m in data["mutants"].items()}
        data[name] = scrubber.data(data[name])
        if name == "mutants":
            # The plan's own text is compared word for word; it stays as it is.
            for mutant, (find, replace) in kept.items():
                data[name][mutant].update(find=find, replace=replace)
    return data
