"""Putting a new record where it belongs in the tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evidence import merging, rejudge, store
from evidence.errors import RecordError

if TYPE_CHECKING:
    from evidence.model import Program, Record
    from evidence.project import Project


@dataclass(frozen=True, slots=True)
class Filed:
    """What became of a record.

    Attributes:
        path: Its file, relative to the project's root.
        written: Whether the file was written.
        reasons: Why, or why not.
        drift: Values that changed although no input did, `address: old → new`.
    """

    path: str
    written: bool
    reasons: tuple[str, ...]
    drift: tuple[str, ...] = ()

    def explain(self) -> str:
        """Return what happened, on one line."""
        verb = "wrote" if self.written else "kept"
        return f"{verb} {self.path} ({'; '.join(self.reasons)})"


def file(project: Project, program: Program, data: dict[str, Any]) -> Filed:
    """Store a record, unless the stored one says the same.

    The path is made from the program and the device alone, never from
    anything that came with the record.

    Raises:
        RecordError: It cannot be written; what was stored still is.
    """
    path = program.evidence_path(data["device"]["label"])
    shown = project.relative(path)
    old: Record | None = None
    damaged = ""
    if path.is_file():
        try:
            old = store.read(path, shown)
        except RecordError as error:
            # It could not be believed anyway; now it is replaced.
            damaged = f"the stored one {error.message}"
    merged = merging.merge(old, _with_kept_steps(old, data, program), program.plan.values)
    if merged.text is None:
        return Filed(shown, written=False, reasons=("nothing changed",))
    store.write(path, merged.text)
    reasons = (damaged,) if damaged else merged.reasons
    drift = tuple(f"{d.address}: {d.old} → {d.new}" for d in merged.drift)
    return Filed(shown, written=True, reasons=reasons, drift=drift)


def _with_kept_steps(old: Record | None, new: dict[str, Any], program: Program) -> dict[str, Any]:
    """Keep stored steps that this recording was told to leave out.

    They were made with the same key and compiler, so they still hold.
    """
    if old is None or old.key != new["key"] or not new["outcome"]["passed"]:
        return new
    if old.data["toolchain"].get("nvcc") != new["toolchain"].get("nvcc"):
        return new
    kept = dict(new)
    kept["sanitizers"] = {
        tool: old.data["sanitizers"].get(tool, found)
        if found["status"] == "not-requested"
        else found
        for tool, found in new["sanitizers"].items()
    }
    if program.plan.profile is not None and new["profile"]["status"] == "not-requested":
        kept["profile"] = old.data["profile"]
    if not new["mutants"]:
        edits = {m.name: (m.find, m.replace) for m in program.plan.mutants}
        kept["mutants"] = {
            name: found
            for name, found in old.data["mutants"].items()
            if edits.get(name) == (found["find"], found["replace"])
        }
    # What is kept may be what failed.
    return rejudge.judged(program, kept)[0]
