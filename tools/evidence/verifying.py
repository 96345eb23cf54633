"""Whether programs still do what their records say: recorded anew, stored nowhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from evidence import context, markdown, merging, states, values
from evidence.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from evidence.findings import Severity
    from evidence.model import Program, Record
    from evidence.project import Project

# What a change is one of; the last three are of what it was recorded with.
Kind = Literal["outcome", "exact", "band", "compile", "step", "tool", "toolchain", "driver"]
_QUIET = ("tool", "toolchain", "driver")
_NOT_DONE = ("-", "not requested")
_OF_DEVICE = ("device", "driver", "compute capability", "memory mib", "sm count")


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that is not as the stored record says.

    Attributes:
        kind: What it is one of.
        what: An address, or the name of a step, a tool or a property.
        old: What the record says; of a measured value the band of its runs.
        new: What it is now.
    """

    kind: Kind
    what: str
    old: str
    new: str

    @property
    def severity(self) -> Severity:
        """Return `error` for what the program did, `warning` for what it was done with."""
        return "warning" if self.kind in _QUIET else "error"


@dataclass(frozen=True, slots=True)
class Verified:
    """One program that was recorded anew."""

    program: Program
    device: str
    changes: tuple[Change, ...]

    @property
    def drifted(self) -> bool:
        """Whether it did something else than before."""
        return any(change.severity == "error" for change in self.changes)

    def findings(self) -> list[Finding]:
        """Return a finding for every change."""
        name = self.program.name
        return [
            Finding(
                f"drift-{change.kind}", self.program.relative, 1,
                f"{name} on {self.device}: {_SAYS[change.kind].format(change.what)}",
                f"if that is meant to be, record it: evidence record {name}",
                change.old, change.new, change.severity,
            )
            for change in self.changes
        ]  # fmt: skip

    def document(self) -> dict[str, Any]:
        """Return what came of it for programs to read."""
        changes = [
            {"kind": c.kind, "what": c.what, "old": c.old, "new": c.new, "severity": c.severity}
            for c in self.changes
        ]
        return {"program": self.program.name, "drifted": self.drifted, "changes": changes}


_SAYS: dict[Kind, str] = {
    "outcome": "its outcome changed",
    "exact": "{0} changed",
    "band": "{0} left its band",
    "compile": "the compile report changed at {0}",
    "step": "{0} came to something else",
    "tool": "{0} cannot be compared",
    "toolchain": "verified with another {0}",
    "driver": "verified with another {0}",
}


def stored(
    project: Project, programs: Sequence[Program], device: str, *, named: bool
) -> tuple[dict[str, Record], list[Finding]]:
    """Return the records that can be verified, and why others cannot.

    Args:
        project: The project.
        programs: Which.
        device: The device's label.
        named: Whether each was asked for; else one without a record is left out.
    """
    records: dict[str, Record] = {}
    findings: list[Finding] = []
    for program in programs:
        state = states.judge(project, program, device)
        if state.record is not None and state.name not in ("stale", "edited", "broken"):
            records[program.name] = state.record
        elif named or state.name != "missing":
            found = state.findings[0]
            findings.append(
                Finding(
                    "not-verified", found.path, found.line,
                    f"{program.name} cannot be verified, its evidence on {device} is "
                    f"{state.name}: {found.message}",
                    found.fix, found.old, found.new, "error" if named else "warning",
                )
            )  # fmt: skip
    return records, findings


def compare(program: Program, old: Record, new: dict[str, Any]) -> Verified:
    """Compare what a program did with its stored record.

    Args:
        program: The program.
        old: The stored record.
        new: The new one's document.
    """
    changes = [
        Change(_kind(difference), difference.what, difference.old, difference.new)
        for difference in context.compare(old.data, new)
        # What this call left out on purpose is no news.
        if difference.ours or difference.new not in _NOT_DONE
    ]
    if new["outcome"]["passed"]:
        changes += _values(program, old, new)
    order = ("outcome", "exact", "band", "compile", "step", *_QUIET)
    changes.sort(key=lambda change: order.index(change.kind))
    return Verified(program, old.device, tuple(changes))


def _kind(difference: context.Difference) -> Kind:
    if difference.ours:
        return "outcome" if difference.what == "outcome" else "step"
    if difference.what in _OF_DEVICE:
        return "driver"
    absent = "not available" in (difference.old, difference.new)
    return "tool" if absent or difference.old in _NOT_DONE else "toolchain"


def _values(program: Program, old: Record, new: dict[str, Any]) -> Iterator[Change]:
    known = values.of_record(old.data, program.plan.values)
    profiled = new["profile"]["status"] == "recorded"
    for drift in merging.drifted(old.data, new, program.plan.values):
        kind: Kind = "exact"
        if drift.address.startswith("profile/") and not profiled:
            continue
        if drift.address.startswith("compile/"):
            kind = "compile"
        elif drift.address in known and not known[drift.address].exact:
            kind = "band"
        yield Change(kind, drift.address, drift.old, drift.new)


def as_markdown(verified: Sequence[Verified], findings: Sequence[Finding], summary: str) -> str:
    """Return what came of it as the body of an issue.

    Args:
        verified: What was recorded anew.
        findings: Besides.
        summary: One sentence.
    """
    parts = [f"{markdown.text(summary)}\n\n"]
    for one in verified:
        rows = [
            (change.kind, markdown.code(change.what), *map(markdown.text, (change.old, change.new)))
            for change in one.changes
        ]
        if rows:
            parts.append(f"## {markdown.text(one.program.name)}\n\n")
            parts.append(markdown.table(("", "what", "recorded", "now"), rows))
    rows = [
        (f.code, markdown.code(f"{f.path}:{f.line}"), markdown.text(f.message)) for f in findings
    ]
    parts.append(markdown.table(("", "where", "what"), rows))
    return "".join(parts).rstrip("\n") + "\n"
