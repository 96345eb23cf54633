"""What stands on top of a page under `serve`: what a build would fail on, and what is stale."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Protocol

from evidence import findings, key

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from evidence.pages.shown import Bound
    from evidence.project import Project
    from evidence.states import State

STALE = "stale"
OUTDATED = (STALE, "missing")
"""States in which a program's evidence does not belong to what was saved."""

_LONGEST = 120  # characters shown of an input
_MOST = 6  # changes shown of one program


class Watching(Protocol):
    """Whoever has watched the author edit; only a server has."""

    def changes(self, state: State) -> Sequence[key.Change]:
        """Return what differs between a record and its program, as exactly as it is known."""

    def note(self, program: str) -> str:
        """Return what is being done about a program's evidence; empty for nothing."""

    def failure(self, state: State) -> str:
        """Return why a program could not be recorded again; empty for nothing."""


def changes(state: State) -> list[key.Change]:
    """Return what differs between a record and its program, file by file."""
    if state.record is None or state.inputs is None:
        return []
    return key.changes(state.record.data["inputs"], state.inputs)


def on_top(bound: Bound, project: Project, author: Watching | None, late: Iterable[str]) -> str:
    """Return what stands on top of a page if a build would fail on it.

    Args:
        bound: The page, looked up.
        project: The project.
        author: Who has watched the author edit; None in a build.
        late: What only rendering has shown to be wrong.
    """
    wrong = [f for f in findings.failing(bound.findings) if f.code != STALE]
    folders = {state.program.path.parent for state in bound.believed}
    wrong += [f for f in project.problems if (project.root / f.path).parent in folders]
    said = [*(finding.explain() for finding in wrong), *late]
    if author is not None:
        said += filter(None, map(author.failure, bound.believed))
    old = [s for s in bound.believed if any(f.code == STALE for f in s.findings)]
    return stale(old, author) + failing(said)


def failing(said: Sequence[str]) -> str:
    """Return the box with what a build would fail on; empty for nothing."""
    if not said:
        return ""
    count = f"{len(said)} findings" if len(said) > 1 else "one finding"
    items = "".join(f"<li>{escape(text)}</li>" for text in said)
    return (
        f'<div class="ev-banner" role="alert"><strong>A build would fail on this page: '
        f"{count}.</strong><ul>{items}</ul></div>\n"
    )


def stale(states: Iterable[State], watching: Watching | None) -> str:
    """Return the banner over evidence that is older than its program; empty for none."""
    unique = {state.program.name: state for state in states}
    if not unique:
        return ""
    items = "".join(f"<li>{_changed(s, watching)}</li>" for s in unique.values())
    command = " ".join(("evidence record", *sorted(unique)))
    return (
        '<div class="ev-banner ev-stale" role="status"><strong>Recorded before your last edit.'
        f"</strong><ul>{items}</ul><p>run: <code>{escape(command)}</code></p></div>\n"
    )


def _changed(state: State, watching: Watching | None) -> str:
    """Say what changed of one program, and what is being done about it."""
    found = changes(state) if watching is None else watching.changes(state)
    parts = [
        f"{escape(change.what)}: {_piece(change.old)} → {_piece(change.new)}"
        for change in found[:_MOST]
    ]
    parts += [f"and {len(found) - _MOST} more"] if len(found) > _MOST else []
    text = f"{escape(state.program.name)}: {'; '.join(parts) or 'another version of the key'}"
    note = "" if watching is None else watching.note(state.program.name)
    return f"{text} <em>({escape(note)})</em>" if note else text


def _piece(text: str) -> str:
    short = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    return f"<code>{escape(short)}</code>" if short else "nothing"
