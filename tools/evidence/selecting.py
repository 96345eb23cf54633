"""Which programs a recording takes: those that need it, and of these one shard."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evidence import costs, shards, states, toolchain
from evidence.shards import Part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evidence.model import Program
    from evidence.project import Project

# States about which a recorder can do something; about `unpinned`, only one that
# has the pinned compiler.
TO_RECORD = ("stale", "missing", "failed", "partial", "edited", "unpinned")


@dataclass(frozen=True, slots=True)
class Selection:
    """What to record.

    Attributes:
        programs: The programs, by name.
        seconds: How long they are expected to take together.
        part: Which shard they are, if one.
    """

    programs: tuple[Program, ...]
    seconds: float
    part: Part | None = None


def select(
    project: Project, names: Sequence[str], device: str, nvcc: str, *, everything: bool
) -> list[Program]:
    """Return the programs to record: the named ones, else those whose evidence lacks.

    Args:
        project: The project.
        names: What `Project.find` takes; none for all that need recording.
        device: The device's label.
        nvcc: Version of the compiler here; "" for none.
        everything: Whether to take those with fresh evidence too.
    """
    programs = project.find(names)
    if names or everything:
        return list(programs)
    wanted = set(TO_RECORD)
    if not toolchain.pin_holds(project.config.nvcc, nvcc):
        wanted.remove("unpinned")
    return [p for p in programs if states.judge(project, p, device).name in wanted]


def narrow(
    project: Project, programs: Sequence[Program], device: str, shard: tuple[int, int] | None
) -> Selection:
    """Return one shard of the programs, or all of them.

    Args:
        project: The project.
        programs: From `select`.
        device: The device's label.
        shard: Which of how many; None for all.
    """
    cost = {program.name: costs.expected(project, program, device) for program in programs}
    if shard is None:
        return Selection(tuple(programs), sum(cost.values()))
    number, count = shard
    part = Part(number, device, shards.split(cost, count))
    mine = tuple(program for program in programs if program.name in part.programs)
    return Selection(mine, sum(cost[program.name] for program in mine), part)


def matrix(
    project: Project, names: Sequence[str], device: str, seconds: float
) -> list[dict[str, Any]]:
    """Return the shards of a recording as rows of a CI matrix; none for nothing to do.

    Args:
        project: The project.
        names: What `Project.find` takes; none for all that need recording.
        device: The device's label.
        seconds: How long a shard may be expected to take; one program may take longer.
    """
    # As a recorder with the pinned compiler selects, without knowing which it has.
    chosen = select(project, names, device, project.config.nvcc, everything=False)
    costs_ = {program.name: costs.expected(project, program, device) for program in chosen}
    if not costs_:
        return []
    count = min(len(costs_), math.ceil(sum(costs_.values()) / seconds))
    return [
        {
            "device": device, "number": number, "shard": f"{number}/{count}",
            "programs": len(part), "seconds": round(sum(costs_[name] for name in part)),
        }
        for number, part in enumerate(shards.split(costs_, count), 1)
    ]  # fmt: skip
