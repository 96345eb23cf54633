"""Splitting a recording over several machines: shard 2 of 5, and what the others hold."""

from __future__ import annotations

import heapq
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evidence.errors import EvidenceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_SHARD = re.compile(r"([0-9]{1,6})/([0-9]{1,6})")
LABEL = re.compile(r"[a-z0-9][a-z0-9-]*")
_FIX = "give which shard of how many: --shard 2/5"


@dataclass(frozen=True, slots=True)
class Part:
    """One shard of a recording, as its bundle names it.

    Attributes:
        number: Which, from 1.
        device: The label of the device it is recorded on.
        plan: Names of the programs of every shard, this one's among them.
    """

    number: int
    device: str
    plan: tuple[tuple[str, ...], ...]

    @property
    def programs(self) -> tuple[str, ...]:
        """Return the names of this shard's programs."""
        return self.plan[self.number - 1]

    def document(self) -> dict[str, Any]:
        """Return the shard as a bundle's manifest holds it."""
        plan = [list(names) for names in self.plan]
        return {"number": self.number, "device": self.device, "plan": plan}


def read(text: str) -> tuple[int, int]:
    """Read `2/5`.

    Raises:
        EvidenceError: It is no shard.
    """
    match = _SHARD.fullmatch(text.strip())
    if match is None:
        raise EvidenceError(f"--shard {text!r} is not NUMBER/COUNT", fix=_FIX)
    number, count = int(match.group(1)), int(match.group(2))
    if count < 1:
        raise EvidenceError(f"--shard {text}: there is no shard of none", fix=_FIX)
    if number < 1:
        raise EvidenceError(
            f"--shard {text}: shards are counted from 1",
            fix=f"the first is --shard 1/{count}, the last --shard {count}/{count}",
        )
    if number > count:
        shards = "is only 1 shard" if count == 1 else f"are only {count} shards"
        raise EvidenceError(
            f"--shard {text}: there {shards}", fix=f"the last is --shard {count}/{count}"
        )
    return number, count


def split(costs: Mapping[str, float], count: int) -> tuple[tuple[str, ...], ...]:
    """Spread programs over shards so that all take about as long.

    The longest goes first, each to the shard that has the least to do so far; the
    same programs and costs give the same shards on every machine.

    Args:
        costs: Program's name → expected seconds.
        count: How many shards; some stay empty if there are fewer programs.
    """
    shards: list[list[str]] = [[] for _ in range(count)]
    loads = [(0.0, number) for number in range(count)]
    for name in sorted(costs, key=lambda name: (-costs[name], name)):
        load, number = heapq.heappop(loads)
        shards[number].append(name)
        heapq.heappush(loads, (load + costs[name], number))
    return tuple(tuple(sorted(names)) for names in shards)


def of_document(document: Any) -> Part | None:
    """Return the shard that a manifest names; None if it names none that is sound."""
    if not isinstance(document, dict):
        return None
    number, device, plan = (document.get(name) for name in ("number", "device", "plan"))
    if not (isinstance(number, int) and isinstance(device, str) and isinstance(plan, list)):
        return None
    if not LABEL.fullmatch(device):
        return None
    names = [name for shard in plan for name in (shard if isinstance(shard, list) else [None])]
    if not all(isinstance(name, str) for name in names) or not 1 <= number <= len(plan):
        return None
    return Part(number, device, tuple(tuple(shard) for shard in plan))


def absent(parts: Iterable[Part]) -> list[tuple[Part, list[int]]]:
    """Return for every recording of which shards are there the numbers of those that are not.

    A recording is known by its plan and device; each is given by its first shard.
    """
    known: dict[tuple[str, tuple[tuple[str, ...], ...]], set[int]] = {}
    for part in parts:
        known.setdefault((part.device, part.plan), set()).add(part.number)
    found = []
    for (device, plan), numbers in sorted(known.items()):
        lacking = [n for n in range(1, len(plan) + 1) if n not in numbers]
        if lacking:
            found.append((Part(min(numbers), device, plan), lacking))
    return found
