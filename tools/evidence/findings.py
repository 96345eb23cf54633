"""Findings: what `evidence check` reports, as data.

A finding is one problem with its place, what changed and the command that
mends it. Severities: `error` fails the check, `warning` is reported loudly
and does not.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from evidence.errors import EvidenceError

Severity = Literal["error", "warning"]
Style = Literal["human", "json", "github"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem.

    Attributes:
        code: Stable short name, e.g. `stale`, `claim-fails`, `region-unused`.
        path: File, relative to the project's root, with forward slashes.
        line: One-based line.
        message: One sentence; no trailing stop.
        fix: Command or edit that mends it.
        old: What the record says, where something changed.
        new: What the tree says now.
        severity: `error` or `warning`.
    """

    code: str
    path: str
    line: int
    message: str
    fix: str
    old: str | None = None
    new: str | None = None
    severity: Severity = "error"

    @classmethod
    def of(cls, error: EvidenceError, code: str, path: str = "") -> Finding:
        """Turn a raised error into a finding."""
        return cls(
            code=code,
            path=error.path or path,
            line=error.line or 1,
            message=error.message,
            fix=error.fix or "mend the file",
        )

    def explain(self, style: Style = "human") -> str:
        """Render the finding as one line in the given style."""
        if style == "json":
            return json.dumps(asdict(self), sort_keys=True, ensure_ascii=False)
        change = f" ({self.old} → {self.new})" if self.old is not None else ""
        text = f"{self.message}{change} — {self.fix}"
        if style == "github":
            level = "error" if self.severity == "error" else "warning"
            where = f"file={_property(self.path)},line={self.line}"
            return f"::{level} {where},title={_property(self.code)}::{_data(text)}"
        note = "" if self.severity == "error" else "warning: "
        return f"{self.path}:{self.line}: {note}{self.code}: {text}"


def _data(text: str) -> str:
    # Workflow commands end at a newline and treat % as an escape.
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def failing(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings that fail a check."""
    return [f for f in findings if f.severity == "error"]


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """Sort by place, then code, without duplicates."""
    return sorted(set(findings), key=lambda f: (f.path, f.line, f.code, f.message))
