"""How long recording a program will take, guessed from what it took before.

The guess only spreads work over machines and tells people what to expect; a
record never depends on it.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from evidence import store
from evidence.errors import RecordError

if TYPE_CHECKING:
    from evidence.model import Program, Record
    from evidence.project import Project

# Seconds for a program of which nothing is known: more than nearly all take,
# so that new ones are spread over the shards first.
UNKNOWN = 60.0
# The profiler replays each launch once for every few counters.
_REPLAYS = 5


def expected(project: Project, program: Program, device: str) -> float:
    """Return the seconds that recording a program takes on a device.

    Its record there says what it took, however old; else its record on the
    project's own device; else `UNKNOWN`.
    """
    for label in dict.fromkeys((device, project.config.device)):
        path = program.evidence_path(label)
        if not path.is_file():
            continue
        try:
            return of_record(program, store.read(path))
        except (RecordError, KeyError, TypeError, ValueError):
            continue
    return UNKNOWN


def of_record(program: Program, record: Record) -> float:
    """Return the seconds that a program's plan takes, judged by a record of it.

    Compiling, the plan's runs, its sanitizers as they were, its profiled runs
    and one run for each mutant. A program that never ran costs `UNKNOWN`.
    """
    data: dict[str, Any] = record.data
    build = float((data["build"] or {}).get("seconds", 0.0))
    if not data["runs"]:
        return build if program.plan.expect.kind == "compile-error" else UNKNOWN
    run = statistics.median(float(done["seconds"]) for done in data["runs"])
    plan = program.plan
    checked = sum(float(data["sanitizers"].get(t, {}).get("seconds", run)) for t in plan.sanitizers)
    profiled = plan.profile.runs * _REPLAYS * run if plan.profile else 0.0
    tried = (1 + len(plan.mutants)) * run if plan.mutants else 0.0
    return round(build + plan.runs * run + checked + profiled + tried, 3)
