"""A clock that was set back: no record may be dated before the one it replaces."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from evidence import store
from evidence.errors import MachineError, RecordError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from evidence.model import Program
    from evidence.project import Project

_SLACK = dt.timedelta(days=1)  # two machines' clocks around midnight


def require(project: Project, programs: Iterable[Program], device: str, today: str) -> None:
    """Refuse to record with a clock that is behind a stored record.

    Args:
        project: The project.
        programs: What is to be recorded.
        device: The device's label.
        today: `2026-12-01`, as new records will say.

    Raises:
        MachineError: A program was recorded on a later day.
    """
    now = dt.date.fromisoformat(today)
    for program in programs:
        path = program.evidence_path(device)
        if not path.is_file():
            continue
        try:
            recorded = dt.date.fromisoformat(store.read(path).data["recorded"]["date"])
        except (RecordError, KeyError, TypeError, ValueError):
            continue
        if recorded - now > _SLACK:
            raise MachineError(
                f"this machine's clock is behind: it says {now}, and {program.name} was recorded "
                f"on {recorded}; nothing was recorded",
                path=project.relative(path),
                fix="set the clock (timedatectl set-ntp true), then run the same command",
            )
