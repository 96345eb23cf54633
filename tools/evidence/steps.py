"""The numbers that the recorder itself wrote down, step by step.

Compiler report, sanitizers, profiler, mutants, device and number of runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from evidence.output import slug

if TYPE_CHECKING:
    from collections.abc import Iterator

Record = dict[str, Any]
Source = Literal["run", "compile", "sanitize", "profile", "mutants", "device", "runs"]

_COMPILED = {
    "registers": ("registers", ""),
    "stack": ("stack", "B"),
    "spill_stores": ("spill-stores", "B"),
    "spill_loads": ("spill-loads", "B"),
    "shared": ("shared", "B"),
    "constant": ("constant", "B"),
}


@dataclass(frozen=True, slots=True)
class Counted:
    """One number that the recorder wrote down.

    Attributes:
        address: Segments joined by `/`.
        unit: Empty for none.
        numbers: One, or for a counter one per launch.
        source: The step.
    """

    address: str
    unit: str
    numbers: tuple[float, ...]
    source: Source

    @property
    def texts(self) -> tuple[str, ...]:
        """Return the numbers as text; whole ones without a point."""
        return tuple(_text(number) for number in self.numbers)


def of_record(record: Record) -> Iterator[Counted]:
    """Yield the numbers of every step that was carried out."""
    yield from _compile(record.get("build") or {})
    yield from _sanitize(record.get("sanitizers") or {})
    yield from _profile(record.get("profile") or {})
    yield from _mutants(record.get("mutants") or {})
    device = record.get("device") or {}
    for segment, name, unit in (("sm-count", "sm_count", ""), ("memory", "memory_mib", "MiB")):
        if device.get(name) is not None:
            yield Counted(f"device/{segment}", unit, (device[name],), "device")
    yield Counted("runs/count", "", (len(record.get("runs") or ()),), "runs")


def absent(record: Record) -> dict[str, str]:
    """Return why steps have no numbers, by the beginning of their addresses."""
    reasons = {
        f"sanitize/{tool}": _reason(tool, result)
        for tool, result in (record.get("sanitizers") or {}).items()
        if result["status"] not in ("clean", "errors")
    }
    profile = record.get("profile") or {}
    if profile and profile["status"] != "recorded":
        reasons["profile"] = _reason("the profiler", profile)
    return reasons


def _compile(build: Record) -> Iterator[Counted]:
    for kernel, report in (build.get("kernels") or {}).items():
        for name, (segment, unit) in _COMPILED.items():
            if report.get(name) is not None:
                address = f"compile/{slug(kernel)}/{segment}"
                yield Counted(address, unit, (report[name],), "compile")
    if build:
        yield Counted("compile/warnings", "", (len(build.get("warnings") or ()),), "compile")


def _sanitize(tools: Record) -> Iterator[Counted]:
    for tool, result in tools.items():
        if result["status"] in ("clean", "errors"):
            yield Counted(f"sanitize/{tool}/errors", "", (result["errors"],), "sanitize")


def _profile(profile: Record) -> Iterator[Counted]:
    for kernel, grids in (profile.get("launches") or {}).items():
        for grid, metrics in grids.items():
            for metric, counter in metrics.items():
                address = f"profile/{slug(kernel)}/{slug(grid)}/{slug(metric)}"
                if counter["values"]:
                    yield Counted(address, counter["unit"], tuple(counter["values"]), "profile")


def _mutants(mutants: Record) -> Iterator[Counted]:
    rejected = {name: int(m["status"] == "rejected") for name, m in mutants.items()}
    yield Counted("mutants/total", "", (len(mutants),), "mutants")
    yield Counted("mutants/rejected", "", (sum(rejected.values()),), "mutants")
    survived = sum(m["status"] == "survived" for m in mutants.values())
    yield Counted("mutants/surviving", "", (survived,), "mutants")
    for name, was in rejected.items():
        yield Counted(f"mutants/{slug(name)}/rejected", "", (was,), "mutants")


def _reason(what: str, result: Record) -> str:
    status = result["status"].replace("-", " ")
    reason = result.get("reason")
    return f"{what}: {status} ({reason})" if reason else f"{what}: {status}"


def _text(number: float) -> str:
    whole = isinstance(number, int) or (number.is_integer() and abs(number) < 2**53)
    return str(int(number)) if whole else repr(number)
