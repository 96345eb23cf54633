"""What changed in many records, as the body of a pull request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from evidence import context, diffing, markdown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evidence.context import Difference
    from evidence.diffing import Change
    from evidence.model import Record

# GitHub takes 65 536 characters; the rest is for who adds a sentence of their own.
LONGEST = 60_000


@dataclass(frozen=True, slots=True)
class Compared:
    """One program's two records.

    Attributes:
        old: The record before, or of one device.
        new: The record now, or of another device.
        labels: What they are called.
        changes: Their values, compared.
    """

    old: Record
    new: Record
    labels: tuple[str, str]
    changes: tuple[Change, ...]

    @property
    def differences(self) -> tuple[Difference, ...]:
        """Return what differs besides the values."""
        return context.compare(self.old.data, self.new.data)

    @property
    def news(self) -> bool:
        """Whether anything changed."""
        return bool(self.differences) or any(c.kind not in diffing.QUIET for c in self.changes)


def body(
    compared: Sequence[Compared], added: Sequence[str] = (), *, full: bool = False
) -> str:  # fmt: skip
    """Return the text: what says something new, program by program.

    Args:
        compared: Records of which there are two.
        added: Names of the programs that were recorded for the first time.
        full: Whether what says nothing new is listed too.
    """
    parts = []
    if len(compared) + len(added) > 1:
        parts.append(_summary(compared, added))
    if added:
        parts.append(f"Recorded for the first time: {', '.join(map(markdown.code, added))}.\n\n")
    shown = [one for one in compared if full or one.news or len(compared) == 1]
    length = sum(map(len, parts))
    for number, one in enumerate(shown):
        part = _part(one, full=full, alone=not parts)
        length += len(part)
        if number and length > LONGEST:
            left = len(shown) - number
            parts.append(
                f"{left} more {'program' if left == 1 else 'programs'} changed than there is "
                "room for here. Run `evidence diff` to see all.\n"
            )
            break
        parts.append(part)
    return "".join(parts)


def _summary(compared: Sequence[Compared], added: Sequence[str]) -> str:
    news = sum(one.news for one in compared)
    count = f"{len(compared)} {'record' if len(compared) == 1 else 'records'}"
    verb = "says" if news == 1 else "say"
    more = f", {len(added)} for the first time" if added else ""
    return f"{news} of {count} {verb} something new{more}.\n\n"


def _part(one: Compared, *, full: bool, alone: bool) -> str:
    title = "" if alone else f"## {markdown.text(one.new.program)}\n\n"
    rows = [
        (markdown.text(d.what), markdown.text(d.old), markdown.text(d.new)) for d in one.differences
    ]
    labels = [markdown.text(label) for label in one.labels]
    about = markdown.table(("recording", *labels), rows)
    text = diffing.render(one.changes, one.labels, "markdown", full=full)
    return f"{title}{_when(one)}{about}{text}" + ("" if alone else "\n")


def _when(one: Compared) -> str:
    """Return when, of what and where both were recorded, if that is not the same."""
    shown = []
    for record in (one.old, one.new):
        recorded = record.data["recorded"]
        commit = f", commit {recorded['commit'][:12]}" if recorded["commit"] else ""
        unclean = " with changes" if recorded["dirty"] else ""
        shown.append(markdown.text(f"{recorded['date']}{commit}{unclean}"))
    if shown[0] == shown[1]:
        return ""
    return f"Recorded {shown[0]} → {shown[1]}\n\n"
