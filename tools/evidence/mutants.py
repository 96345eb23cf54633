"""Mutants: edits that make a program wrong, each of which must be noticed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from evidence import key, ninjafile, notebooks
from evidence.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from evidence.model import Mutant, Plan, Program
    from evidence.runner import RunResult

Status = Literal["rejected", "survived", "broken", "not-available"]

_KEPT_LINES = 12
_NOTICED_BY = {
    "gate": "its gate",
    "output": "the limits on what it prints",
    "signal": "a signal",
    "timeout": "the time limit",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutant.

    Attributes:
        status: `rejected` is the good one.
        by: `gate`, `signal`, `timeout` or a sanitizer's name.
        exit_status: Of its run.
        output: The last lines it printed.
        reason: Why it is broken or could not be judged.
    """

    status: Status
    by: str = ""
    exit_status: int | None = None
    output: tuple[str, ...] = ()
    reason: str = ""

    def document(self, mutant: Mutant) -> dict[str, Any]:
        """Return the verdict as it stands in a record."""
        return {
            "by": self.by,
            "exit_status": self.exit_status,
            "find": mutant.find,
            "output": list(self.output),
            "reason": self.reason,
            "replace": mutant.replace,
            "status": self.status,
        }


def read(document: Mapping[str, Any]) -> Verdict:
    """Return the verdict that stands in a record."""
    return Verdict(
        document["status"], document["by"], document["exit_status"], tuple(document["output"]),
        document["reason"],
    )  # fmt: skip


def surviving(plan: Plan, tried: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the mutants of a record that survived as its plan says, and why they do."""
    return {
        mutant.name: mutant.why
        for mutant in plan.mutants
        if mutant.survives
        and (found := tried.get(mutant.name)) is not None
        and found["status"] == "survived"
        and same_edit(mutant, found)
    }


def same_edit(mutant: Mutant, document: Mapping[str, Any]) -> bool:
    """Whether what stands in a record is this very mutant."""
    return (document["find"], document["replace"]) == (mutant.find, mutant.replace)


def apply(text: str, mutant: Mutant, relative: str) -> str:
    """Return a source with the mutant's edit made.

    Raises:
        SourceError: Its find text does not stand exactly once in the source.
    """
    count = text.count(mutant.find)
    if count != 1:
        raise SourceError(
            f"mutant {mutant.name}: its find text stands {count} times in the source, not once",
            path=relative,
            fix="correct find in evidence.toml",
        )
    return text.replace(mutant.find, mutant.replace)


def mutated(program: Program, mutant: Mutant) -> str:
    """Return the text of a program's file with the mutant's edit made.

    Raises:
        SourceError: Its find text does not stand exactly once in the source.
    """
    data, text = key.read_text(program.path, program.relative)
    changed = apply(text, mutant, program.relative)
    if program.language != "notebook":
        return changed
    return notebooks.edited(data.decode("utf-8"), program.relative, mutant.find, mutant.replace)


def source_path(root: Path, program: Program, mutant: Mutant) -> Path:
    """Return where the mutated copy of a Python program or a notebook lies."""
    folder = f"{ninjafile.BUILD}/python/{program.folder}/{program.stem}.mutants/{mutant.name}"
    return root / folder / program.path.name


def write(path: Path, text: str) -> str:
    """Write a mutated copy unless it is there already; return its hash."""
    ninjafile.write_if_changed(path, text)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def judge_run(run: RunResult, expected_exit: int = 0) -> Verdict:
    """Judge a mutant by its own run: did the program notice?

    Args:
        run: The mutant's run.
        expected_exit: How the program ends without the mutation.
    """
    output = (*run.stdout, *run.stderr)[-_KEPT_LINES:]
    if run.timed_out:
        return Verdict("rejected", "timeout", None, output)
    if run.signal:
        return Verdict("rejected", "signal", None, output, run.signal)
    if run.exit_status != expected_exit:
        by = "gate" if run.exit_status is not None else "output"
        return Verdict("rejected", by, run.exit_status, output, "; ".join(run.problems))
    return Verdict("survived", "", run.exit_status, output)


def objection(name: str, verdict: Verdict, *, survives: bool) -> str:
    """Return why a mutant did not end as it must; nothing if it did.

    Args:
        name: The mutant's.
        verdict: What became of it.
        survives: Whether `evidence.toml` says that it survives.
    """
    if verdict.status == "broken":
        return f"mutant {name} proves nothing: {verdict.reason}"
    if verdict.status == "survived" and not survives:
        return f"mutant {name} survived: nothing noticed it"
    if verdict.status == "rejected" and survives:
        by = _NOTICED_BY.get(verdict.by, verdict.by)
        return (
            f"mutant {name} is noticed by {by}, although it is said to survive: "
            "remove survives from evidence.toml"
        )
    return ""
